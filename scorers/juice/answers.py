"""Reads a judge's answer; what cannot be read is the judge's failure, never asked again."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from inspect_ai.model import ModelOutput

from propensity.common.answers import last_json_object
from propensity.scorers.juice.placing import Item
from propensity.scorers.juice.records import Protocol
from propensity.scorers.juice.taxonomy import LABELS, Label

AnswerReason = Literal["invalid_response_format", "no_response", "refusal", "truncated"]

LIST_KEY = {"spans": "errors", "sentences": "erroneous"}
"""Protocol → the key of an answer that holds its list."""

MAX_DIGITS = 9
_THINKING = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)
_LABELS = {label.casefold(): label for label in LABELS}


class NoEvidence(RuntimeError):
    """A sample without an answer that could be scored."""


@dataclass(frozen=True)
class Answer:
    """What a judge answered.

    Attributes:
        reason: Why there is no answer; None for one that could be read.
        items: Predicted spans in the judge's order; an item without text has an empty span.
        sentences: Predicted sentence indices in the judge's order; None for what is no index.
        unknown_categories: Items whose category is no label.
    """

    reason: AnswerReason | None = None
    items: tuple[Item, ...] = ()
    sentences: tuple[int | None, ...] = ()
    unknown_categories: int = 0


def read_answer(output: ModelOutput, protocol: Protocol) -> Answer:
    """Read the answer of a call.

    Raises:
        NoEvidence: the call says neither what the model answered nor why it stopped.
    """
    text = output.completion
    stopped = "unknown" if output.empty else output.stop_reason
    if stopped == "content_filter":
        return Answer("refusal")
    if stopped in ("max_tokens", "model_length"):
        return Answer("truncated")
    if not text.strip():
        if stopped == "unknown":
            raise NoEvidence("the model's output is empty and does not say why it stopped")
        return Answer("no_response")
    return parse_answer(text, protocol)


def parse_answer(text: str, protocol: Protocol) -> Answer:
    """Read the last JSON object of a text that stands outside its reasoning."""
    try:
        found = last_json_object(_THINKING.sub("", text))
    except ValueError:  # a number of more digits than Python converts
        found = None
    entries = found.get(LIST_KEY[protocol]) if found is not None else None
    if not isinstance(entries, list):
        return Answer("invalid_response_format")
    if protocol == "sentences":
        return Answer(sentences=tuple(_whole(entry) for entry in entries))
    given = [entry if isinstance(entry, dict) else {} for entry in entries]
    unknown = sum(
        entry.get("category") is not None and _label(entry["category"]) is None for entry in given
    )
    return Answer(items=tuple(map(_item, given)), unknown_categories=unknown)


def _item(entry: dict[str, Any]) -> Item:
    span, occurrence = entry.get("span"), entry.get("occurrence")
    return Item(
        span=span if isinstance(span, str) else "",
        paragraph=_whole(entry.get("paragraph")),
        # What is no number cannot name an occurrence: 0 sends the search elsewhere.
        occurrence=None if occurrence is None else _whole(occurrence) or 0,
        label=_label(entry.get("category")),
        explanation=str(entry.get("explanation") or ""),
    )


def _whole(value: object) -> int | None:
    """A whole number given as such, as a float or as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = value.strip()
        return int(digits) if digits.isdecimal() and len(digits) <= MAX_DIGITS else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _label(value: object) -> Label | None:
    return _LABELS.get(value.strip().casefold()) if isinstance(value, str) else None
