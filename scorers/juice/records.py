"""What a sample carries for its scorer: a response with its gold groups, and how to score it."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from propensity.scorers.juice.taxonomy import Finder, Label

Protocol = Literal["spans", "sentences"]
GoldMarks = Literal["all", "human"]
LogicalError = Literal["include", "ignore"]
Unit = Literal["codepoint", "grapheme", "word"]
Matching = Literal["one_to_one", "any_overlap"]

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
GOLD_MARKS: tuple[GoldMarks, ...] = get_args(GoldMarks)
LOGICAL_ERRORS: tuple[LogicalError, ...] = get_args(LogicalError)
UNITS: tuple[Unit, ...] = get_args(Unit)
MATCHINGS: tuple[Matching, ...] = get_args(Matching)
SPANS_ONLY = ("unit", "threshold", "matching")
"""Settings that mean nothing for sentences."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mark(_Record):
    """One annotator's mark: a text, and the 0-based paragraphs that it is said to stand in."""

    span: str
    paragraphs: tuple[int, ...]
    label: Label
    finder: Finder
    criticality: str | None = None
    explanation: str = ""


class Group(_Record):
    """Marks of one error. `labels` are those of the group, whoever gave them."""

    id: str
    labels: tuple[Label, ...]
    marks: tuple[Mark, ...]


class Response(_Record):
    """A response with its gold, as `metadata["response"]` of a sample.

    Groups stand in file order. `language` is en, ko, id or bn; `model` wrote the response.
    """

    text: str
    language: str
    model: str
    groups: tuple[Group, ...]


class Settings(_Record):
    """How a response is scored, as `metadata["scoring"]` of a sample."""

    protocol: Protocol = "spans"
    gold: GoldMarks = "all"
    logical_error: LogicalError = "include"
    unit: Unit = "codepoint"
    threshold: float = Field(default=0.5, gt=0, le=1)
    matching: Matching = "one_to_one"
