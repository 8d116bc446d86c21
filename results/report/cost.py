"""What the runs of each subject cost: calls, tokens and time of a sample."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from propensity.results.report.select import Selection
from propensity.results.store.tables import Frames

CALLS = {"target_calls": "subject", "grader_calls": "grader"}
"""Keys that count the calls of a sample, where a scorer gives them, and whose calls they are."""


@dataclass(frozen=True)
class Cost:
    """Means per sample of one role in one subject's runs; None where the logs do not say.

    `calls` is of the samples that count them, as scored ones do; `seconds` is working time,
    waiting for the provider's limits left out; `usd` is of all roles, and known only where every
    call had a price.
    """

    subject: str
    role: str
    samples: int
    calls: float | None
    tokens_in: float
    tokens_out: float
    seconds: float | None
    usd: float | None


@dataclass(frozen=True)
class CostRatio:
    """Cost of B over that of A on the samples that both have; None where A has none."""

    a: str
    b: str
    samples: int
    calls: float | None
    tokens_in: float | None
    tokens_out: float | None
    seconds: float | None


def costs(selection: Selection, frames: Frames) -> list[Cost]:
    """Cost of each subject and role, for the subjects that used tokens."""
    found = []
    for subject, runs in selection.runs.groupby("subject", sort=True):
        samples = frames.samples[frames.samples["eval_id"].isin(runs["eval_id"])]
        calls = _calls(frames, runs)
        roles: dict[str, tuple[int, int]] = {}
        for text in runs["tokens_by_role"].dropna():
            for role, used in json.loads(text).items():
                into, out = roles.get(role, (0, 0))
                roles[role] = into + used["in"], out + used["out"]
        usd = runs["cost_usd"].astype(float)
        for role, (into, out) in roles.items():
            mine, n = role == "subject", len(samples)
            if n and (into or out):
                found.append(
                    Cost(
                        subject=str(subject),
                        role=role,
                        samples=n,
                        calls=_mean(calls[role]) if role in calls else None,
                        tokens_in=into / n,
                        tokens_out=out / n,
                        seconds=_mean(samples["working_time_s"]) if mine else None,
                        usd=float(usd.sum()) / n if mine and usd.notna().all() else None,
                    )
                )
    return sorted(found, key=lambda one: (one.subject, one.role != "subject", one.role))


def cost_ratio(selection: Selection, frames: Frames, a: str, b: str) -> CostRatio | None:
    """What B cost for what A cost, on the samples (and epochs) that both have."""
    names = ("calls", "tokens_in", "tokens_out", "working_time_s")
    sides = []
    for subject in (a, b):
        runs = selection.runs[selection.runs["subject"] == subject]
        samples = frames.samples[frames.samples["eval_id"].isin(runs["eval_id"])]
        calls = _calls(frames, runs)
        total = pd.concat(calls.values()).groupby(level=0).sum() if calls else None
        samples = samples.assign(
            calls=samples["sample_uuid"].map(total) if total is not None else float("nan")
        )
        sides.append(samples.set_index(["sample_id", "epoch"])[list(names)].astype(float))
    shared = sides[0].index.intersection(sides[1].index)
    if shared.empty:
        return None
    below, above = (side.loc[shared] for side in sides)
    ratios = {name: _ratio(above[name], below[name]) for name in names}
    return CostRatio(a, b, len(shared), seconds=ratios.pop("working_time_s"), **ratios)


def documents(found: Sequence[Cost | CostRatio]) -> list[dict[str, Any]]:
    """Plain data for `--json`."""
    return [asdict(one) for one in found]


def _calls(frames: Frames, runs: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
    """Role → calls by sample."""
    scores = frames.scores[frames.scores["eval_id"].isin(runs["eval_id"])]
    return {
        role: mine.set_index("sample_uuid")["value"].astype(float)
        for key, role in CALLS.items()
        if not (mine := scores[scores["key"] == key]).empty
    }


def _mean(values: "pd.Series[float]") -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _ratio(above: "pd.Series[float]", below: "pd.Series[float]") -> float | None:
    if above.isna().any() or below.isna().any() or not below.sum():
        return None
    return float(above.sum() / below.sum())
