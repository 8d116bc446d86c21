"""The health of each subject's runs: what stands beside every number (inspect 7.4)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from propensity.results.report.select import PLANNED_LEVELS, Selection, factor
from propensity.results.store.tables import Frames

LIMITS: Sequence[tuple[str, float, float]] = (
    ("errored", 0.0, 0.05),
    ("limited", 0.10, 0.20),
    ("truncated", 0.02, 0.05),
)
"""Figure, share of planned units above which it is marked, and above which a check fails."""
MARKED_COVERAGE = 0.95
WITHHELD_COVERAGE = 0.80


@dataclass(frozen=True)
class Health:
    """Figures of one subject, in units; `marks` are worth a look, `faults` fail a check.

    `unit` says what is counted: samples, trials, or units where slots are planned beside samples.
    `invalid` counts scored units whose answer was none (by reason), `reasons` unscored ones,
    `errors` units in error by the type of error; `answers` scored samples or trials.
    """

    subject: str
    unit: str
    answers: int
    planned: int
    scored: int
    unscored: int
    errored: int
    missing: int
    limited: int
    refused: int
    truncated: int
    retries: int
    invalid: dict[str, int]
    reasons: dict[str, int]
    errors: dict[str, int]
    statuses: tuple[str, ...]
    marks: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def line(self) -> str:
        """The health line."""
        parts = [
            f"planned {counted(self.planned, self.unit)}",
            f"scored {self.scored}{_detail(self.invalid)}",
            f"unscored {self.unscored}{_detail(self.reasons)}",
            f"errored {self.errored}{_detail(self.errors)}",
            f"limit hits {self.limited}",
            f"refusals {self.refused}",
            f"truncated {self.truncated}",
            f"retries {self.retries}",
        ]
        if self.missing:
            parts.insert(4, f"missing {self.missing}")
        return " · ".join(parts)


def health(selection: Selection, frames: Frames) -> list[Health]:
    """Health of each subject, summed over its selected runs."""
    return [
        _of(str(subject), part, frames)
        for subject, part in selection.runs.groupby("subject", sort=True)
    ]


def _of(subject: str, runs: pd.DataFrame, frames: Frames) -> Health:
    units = frames.units[frames.units["eval_id"].isin(runs["eval_id"])]
    samples = frames.samples[frames.samples["eval_id"].isin(runs["eval_id"])]
    sums = {
        name: int(runs[name].sum())
        for name in (
            "planned",
            "scored",
            "unscored",
            "errored",
            "missing",
            "limited",
            "refused",
            "truncated",
        )
    }
    statuses = tuple(sorted(set(runs["status"])))
    marks, faults = [], [f"status {status}" for status in statuses if status != "success"]
    for name, marked, failed in LIMITS:
        share = sums[name] / sums["planned"] if sums["planned"] else 0.0
        text = f"{name} {100 * share:.1f} % of planned"
        if share > failed:
            faults.append(text)
        elif share > marked:
            marks.append(text)
    if sums["missing"]:
        marks.append(f"missing {sums['missing']} of {sums['planned']}")
    answers = planned = units[units["level"].isin(PLANNED_LEVELS)]
    unit = "trial" if (planned["level"] == "trial").any() else "sample"
    if len(planned) != sums["scored"] + sums["unscored"] + sums["errored"]:
        planned, unit = units, "unit"
    unscored = planned.loc[planned["status"] == "unscored", "reason"].fillna("no reason given")
    scored = planned.loc[planned["status"] == "scored", "reason"].dropna()
    return Health(
        subject=subject,
        unit=unit,
        answers=int((answers["status"] == "scored").sum()),
        retries=int(samples["retries"].sum()),
        invalid=dict(Counter(scored).most_common()),
        reasons=dict(Counter(unscored).most_common()),
        errors=dict(Counter(_error_types(planned, samples)).most_common()),
        statuses=statuses,
        marks=tuple(marks),
        faults=tuple(faults),
        **sums,
    )


def _error_types(units: pd.DataFrame, samples: pd.DataFrame) -> "pd.Series[str]":
    """The type of error of each unit in error: its sample's, or that of its own call."""
    errors = units[units["status"] == "error"]
    of_sample = samples.set_index("sample_uuid")["error_type"]
    own = factor(errors, "error")
    types = errors["sample_uuid"].map(of_sample[~of_sample.index.duplicated()])
    if own is not None:
        types = types.fillna(own.str.extract(r"^([A-Za-z_][\w.]*): ", expand=False))
    return types.fillna("error")


def counted(n: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{n} {noun}{'s' * (n != 1)}"


def detail(counts: dict[str, int]) -> str:
    """Counts by name: `refusal 2, truncated 1`."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _detail(counts: dict[str, int]) -> str:
    return f" ({detail(counts)})" * bool(counts)
