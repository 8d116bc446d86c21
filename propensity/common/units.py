"""Unit records: what `Score.metadata` carries so that the results store needs no task code."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

Reason = Literal[
    "invalid_response_format",
    "no_response",
    "refusal",
    "truncated",
    "grader_failed",
    "scoring_failed",
    "evidence_untrusted",
    "checklist_off",
    "checklist_invalid",
    "items_unmatched",
    "reviewer_failed",
    "retriever_off",
    "retrieval_failed",
    "retrieval_empty",
    "claims_ungraded",
    "claims_conflict",
    "severity_missing",
]
REASONS: tuple[str, ...] = get_args(Reason)

Status = Literal["scored", "unscored", "error"]
Level = Literal["sample", "trial", "slot", "group"]
KeyValue = float | tuple[float, float]
Part = tuple[
    Annotated[str, Field(pattern=r"^[^\s;]+$")], Annotated[str, Field(pattern=r"^[^\s;]+$")], float
]
"""Item id, label (both without spaces and semicolons) and value."""

MAX_RAW = 2_000
"""Longest judge reply kept in a score, in characters."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _read_parts(parts: object) -> object:
    if isinstance(parts, str):
        return list(zip(*(column.split(" ") for column in parts.split("; ")), strict=True))
    return parts or None


def _write_parts(parts: Sequence[Part] | None) -> str | None:
    if parts is None:
        return None
    items, labels, values = zip(*parts, strict=True)
    texts = [repr(value).removesuffix(".0") for value in values]
    return "; ".join(" ".join(column) for column in (items, labels, texts))


Parts = Annotated[
    list[Part] | None, BeforeValidator(_read_parts), PlainSerializer(_write_parts, when_used="json")
]
"""The parts of a unit. In a log one text, `item item; label label; value value`: as lists, or part
by part, they would weigh more than all the rest of a record."""


class UnitRecord(_Record):
    """The result of the smallest thing judged; only `unit_id` is required."""

    unit_id: str
    level: Level | None = None
    epoch: int | None = Field(default=None, ge=1)
    status: Status | None = None
    outcome: str | None = None
    reason: Reason | None = None
    gold: str | None = None
    answer: str | None = None
    factors: dict[str, str] | None = None
    scores: dict[str, KeyValue] | None = None
    parts: Parts = None
    messages: tuple[int, int | None] | None = None


class JudgeRecord(_Record):
    """One verdict: which judge, with which prompt, for which keys."""

    stage: str
    model: str
    prompt_id: str
    keys: list[str]
    raw: str = Field(default="", max_length=MAX_RAW)


def unit(unit_id: str, **fields: Any) -> dict[str, Any]:
    """Build one entry of `Score.metadata["units"]`; absent fields are left out.

    Raises:
        pydantic.ValidationError: an unknown field, a wrong type, nan, or a reason outside
            the closed list.
    """
    return UnitRecord(unit_id=unit_id, **fields).model_dump(mode="json", exclude_none=True)


def judge(stage: str, model: str, prompt_id: str, keys: Sequence[str], raw: str) -> dict[str, Any]:
    """Build one entry of `Score.metadata["judges"]`; the reply is cut to `MAX_RAW`.

    Lone surrogates in it are escaped, for they cannot be stored.
    """
    shown = raw.encode("utf-8", "backslashreplace").decode("utf-8")
    record = JudgeRecord(
        stage=stage, model=model, prompt_id=prompt_id, keys=list(keys), raw=shown[:MAX_RAW]
    )
    return record.model_dump(mode="json")


def score_metadata(
    *,
    units: Sequence[Mapping[str, Any]] = (),
    reasons: Mapping[str, Reason] | None = None,
    judges: Sequence[Mapping[str, Any]] = (),
    **own: Any,
) -> dict[str, Any]:
    """Join the reserved keys and a scorer's own facts; empty reserved keys are left out."""
    reserved: dict[str, Any] = {
        "units": [dict(entry) for entry in units],
        "reasons": dict(reasons or {}),
        "judges": [dict(entry) for entry in judges],
    }
    return {key: value for key, value in reserved.items() if value} | own
