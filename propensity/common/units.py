"""Unit records: what `Score.metadata` carries so that the results store needs no task code."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

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

MAX_RAW = 2_000
"""Longest judge reply kept in a score, in characters."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


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
    parts: list[tuple[str, str, float]] | None = None
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
