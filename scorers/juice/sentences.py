"""Sentences of a response, and what a judge's choice of sentences is worth (specification 7)."""

import math
import re
from collections.abc import Iterable, Sequence

from propensity.scorers.juice.location import Span

_SURROGATES = re.compile("[\ud800-\udfff]")


def sentence_spans(text: str, language: str) -> tuple[Span, ...]:
    """Split a response into sentences.

    Each line is segmented on its own; pieces are trimmed, and those without a letter or digit
    are left out.

    Args:
        text: The response.
        language: Language code such as `en` or `bn`.
    """
    from sentencex import get_sentence_boundaries

    spans = []
    offset = 0
    # The splitter takes no lone surrogates; their stand-ins keep the offsets.
    for line in _SURROGATES.sub("\ufffd", text).split("\n"):
        for piece in get_sentence_boundaries(language, line):
            start, end = piece["start_index"], piece["end_index"]
            inner = line[start:end]
            start += len(inner) - len(inner.lstrip())
            end -= len(inner) - len(inner.rstrip())
            if any(character.isalnum() for character in inner):
                spans.append(Span(offset + start, offset + end))
        offset += len(line) + 1
    return tuple(spans)


def touched(sentences: Sequence[Span], spans: Iterable[Span]) -> set[int]:
    """Indices of the sentences that any span covers a part of.

    Located spans and sentences neither begin nor end with white space, so that a shared code
    point means a shared one that is no space.
    """
    return {
        index
        for span in spans
        for index, sentence in enumerate(sentences)
        if span.start < sentence.end and sentence.start < span.end
    }


def kappa(tp: float, fp: float, fn: float, tn: float) -> float:
    """Cohen's kappa of two binary ratings; nan if empty or if neither ever varies."""
    n = tp + fp + fn + tn
    if not n:
        return math.nan
    observed = (tp + tn) / n
    expected = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else math.nan
