"""Answers as a judge would write them, from places in the response."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from propensity.scorers.juice.comparison import Gold


def gold_answer(gold: Gold) -> str:
    """The gold itself as an answer: the first mark of each group, or the erroneous sentences."""
    if gold.settings.protocol == "sentences":
        return sentences_answer(gold.erroneous)
    firsts = [group.marks[0] for group in gold.groups if group.marks[0].locations]
    return spans_answer(
        [
            span_item(gold, mark.locations[0].span, mark.mark.label, mark.mark.explanation)
            for mark in firsts
        ]
    )


def spans_answer(items: Sequence[dict[str, Any]]) -> str:
    """An answer of the span protocol."""
    return json.dumps({"errors": list(items)}, ensure_ascii=False)


def sentences_answer(indices: Collection[int]) -> str:
    """An answer of the sentence protocol."""
    return json.dumps({"erroneous": sorted(indices)})


def span_item(
    gold: Gold, span: Sequence[int], label: str | None = None, explanation: str = ""
) -> dict[str, Any]:
    """One entry of an answer for the code points [start, end) of the response."""
    start, end = span
    locator = gold.locator
    text = locator.text[start:end]
    paragraph = next(
        index for index, one in enumerate(locator.paragraphs) if one.start <= start <= one.end
    )
    found = locator.find(text, locator.paragraphs[paragraph])
    places = found.spans if found is not None else ()
    several = len(places) > 1 and (start, end) in places
    return {
        "paragraph": paragraph,
        "span": text,
        "occurrence": places.index((start, end)) + 1 if several else None,
        "category": label,
        "explanation": explanation,
    }
