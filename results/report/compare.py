"""The comparison of subjects on one task: rates, paired differences, flips, health."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from propensity.results.report import cost
from propensity.results.report.cost import Cost, CostRatio
from propensity.results.report.health import (
    MARKED_COVERAGE,
    WITHHELD_COVERAGE,
    Health,
    health,
)
from propensity.results.report.measure import (
    KeyAbout,
    Measured,
    counts,
    display,
    items_of,
    measure,
    missing_range,
)
from propensity.results.report.references import Standing, standings
from propensity.results.report.select import CompareRefused, Selection, select_runs
from propensity.results.stats.multiplicity import family
from propensity.results.stats.paired import Flip, Pairs, difference, flips, pair_up
from propensity.results.stats.rates import rate
from propensity.results.stats.record import GATE, Estimate
from propensity.results.store.tables import Frames

FEW_CLUSTERS = 10
"""With fewer clusters the line for items is printed too."""


@dataclass(frozen=True)
class Request:
    """What to compare; the fields are the options of `propensity compare`."""

    models: tuple[str, ...] = ()
    metric: str | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    baseline: str | None = None
    by: str | None = None
    between: str | None = None
    intersect: bool = False
    latest: bool = False
    flips: int = 20
    allow_low_coverage: bool = False
    allow_version_mismatch: bool = False


@dataclass(frozen=True)
class PairResult:
    """B - A over all items, by group, and the items whose outcome changed."""

    a: str
    b: str
    declared: bool
    overall: Estimate
    groups: tuple[Estimate, ...]
    missing: tuple[str, ...]
    flips: tuple[Flip, ...]
    to_a: int
    to_b: int

    @property
    def name(self) -> str:
        """`B - A`."""
        return f"{self.b} - {self.a}"


@dataclass(frozen=True)
class Comparison:
    """Everything that `propensity compare` shows about one task."""

    task: str
    about: KeyAbout
    version: str
    group_column: str | None
    rates: tuple[Estimate, ...]
    valid_rates: tuple[Estimate, ...]
    group_rates: tuple[Estimate, ...]
    standings: tuple[Standing, ...]
    pairs: tuple[PairResult, ...]
    health: tuple[Health, ...]
    costs: tuple[Cost, ...]
    cost_ratios: tuple[CostRatio, ...]
    logs: dict[str, tuple[str, ...]]
    samples: dict[tuple[str, str], str]
    notes: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """Health limits that were crossed."""
        found = [f"{one.subject}: {fault}" for one in self.health for fault in one.faults]
        for one in self.rates:
            coverage = one.coverage
            if coverage is not None and coverage < MARKED_COVERAGE:
                found.append(f"{one.subject}: coverage {100 * coverage:.1f} %")
        return list(dict.fromkeys(found))

    def document(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "task": self.task,
            "version": self.version,
            "metric": self.about.key,
            "label": self.about.label,
            "lower_is_better": self.about.lower_is_better,
            "group_column": self.group_column,
            "rates": [one.document() for one in self.rates],
            "rates_of_valid_answers": [one.document() for one in self.valid_rates],
            "beside_references": [one.document() for one in self.standings],
            "group_rates": [one.document() for one in self.group_rates],
            "pairs": [
                {
                    "a": one.a,
                    "b": one.b,
                    "declared": one.declared,
                    "difference": one.overall.document(),
                    "groups": [group.document() for group in one.groups],
                    "flips_to_a": one.to_a,
                    "flips_to_b": one.to_b,
                    "missing": [display(item) for item in one.missing],
                    "flips": [
                        {"item": display(flip.item), "a": flip.a, "b": flip.b} for flip in one.flips
                    ],
                }
                for one in self.pairs
            ],
            "health": [asdict(one) for one in self.health],
            "cost": cost.documents(self.costs),
            "cost_ratios": cost.documents(self.cost_ratios),
            "logs": {subject: list(paths) for subject, paths in self.logs.items()},
            "notes": list(self.notes),
            "faults": self.faults,
        }


def compare(frames: Frames, request: Request) -> list[Comparison | CompareRefused]:
    """Compare the subjects of every task in the frames, tasks by name.

    A task whose comparison is refused gives its refusal in its place.
    """
    results: list[Comparison | CompareRefused] = []
    for _, runs in frames.runs.groupby(["package", "task"], sort=True):
        try:
            results.append(compare_task(frames, runs, request))
        except CompareRefused as refusal:
            results.append(refusal)
    return results


def compare_task(frames: Frames, runs: pd.DataFrame, request: Request) -> Comparison:
    """Compare the subjects of one task.

    Raises:
        CompareRefused: the comparison would mislead.
    """
    named = [*request.models, *(name for pair in request.pairs for name in pair)]
    if request.baseline and request.models:
        named.append(request.baseline)
    selection = select_runs(
        runs,
        models=tuple(dict.fromkeys(named)),
        latest=request.latest,
        allow_version_mismatch=request.allow_version_mismatch,
        between=request.between,
    )
    wanted, declared = _pairs(selection, request)
    condition = tuple(health(selection, frames))
    try:
        measured = measure(
            selection, frames, key=request.metric, by=request.by, intersect=request.intersect
        )
    except CompareRefused as refusal:
        refusal.health = tuple(f"{one.subject}: {one.line}" for one in condition)
        raise
    labels = selection.runs["cluster_label"].dropna().unique()
    label = str(labels[0]) if len(labels) else None
    groups = _group_names(measured, request.by)
    estimate = _Estimator(measured, label, request.allow_low_coverage)
    rates = [one for subject in selection.subjects for one in estimate.rates(subject)]
    group_rates = [
        estimate.group_rate(subject, group) for group in groups for subject in selection.subjects
    ]
    results = [_pair(measured, a, b, declared, groups, label, request, estimate) for a, b in wanted]
    return Comparison(
        task=selection.task,
        about=measured.about,
        version=", ".join(sorted(set(selection.runs["task_version"]))),
        group_column=(request.by or "variant") if groups else None,
        rates=tuple(rates),
        valid_rates=tuple(estimate.valid_rates(selection.subjects)),
        group_rates=tuple(group_rates),
        standings=tuple(
            replace(one, own=own)
            for one in standings(
                selection, frames, request.metric, intersect=request.intersect, label=label
            )
            if (own := estimate.withheld(one.own)).estimate is not None
        ),
        pairs=_adjusted(results, declared),
        health=condition,
        costs=tuple(cost.costs(selection, frames)),
        cost_ratios=tuple(
            found
            for a, b in wanted * bool(request.between)
            if (found := cost.cost_ratio(selection, frames, a, b)) is not None
        ),
        logs={
            str(subject): tuple(part["log_location"])
            for subject, part in selection.runs.groupby("subject")
        },
        samples=_samples_of(measured),
        notes=(*selection.notes, *measured.notes),
    )


class _Estimator:
    """Rates of one key with counts, coverage rule and missing range."""

    def __init__(self, measured: Measured, label: str | None, allow_low: bool) -> None:
        self._measured, self._label, self._allow_low = measured, label, allow_low

    def rates(self, subject: str) -> list[Estimate]:
        rows = self._measured.of(subject)
        items = items_of(rows, self._measured.is_ratio)
        found = [rate(items, cluster_label=self._label)]
        few = items.clustered and items.n_clusters < FEW_CLUSTERS and found[0].n_items >= GATE
        if few and not self._measured.is_ratio:
            found.append(rate(items, population="items"))
        return [self._finished(one, rows, subject, None) for one in found]

    def valid_rates(self, subjects: Sequence[str]) -> Iterator[Estimate]:
        """Rates without the answers that were none, for the subjects that have such."""
        for subject in subjects:
            rows = self._measured.of(subject)
            if rows["invalid"].any():
                kept = rows[~rows["invalid"]]
                items = items_of(kept, self._measured.is_ratio)
                found = rate(items, cluster_label=self._label)
                yield self._finished(found, kept, subject, None)

    def group_rate(self, subject: str, group: str) -> Estimate:
        rows = self._measured.of(subject, group)
        items = items_of(rows, self._measured.is_ratio)
        found = rate(items, cluster_label=self._label)
        if found.n_items < GATE:
            found = replace(found, low=None, high=None, method="counts only")
        return self._finished(found, rows, subject, group)

    def _finished(
        self, one: Estimate, rows: pd.DataFrame, subject: str, group: str | None
    ) -> Estimate:
        ends = missing_range(rows, self._measured.about, self._measured.is_ratio)
        low, high = ends or (None, None)
        share = rows.groupby("item")["scored"].mean()
        partly = int(((share > 0) & (share < 1)).sum())
        gaps = (f"{partly} {'item' if partly == 1 else 'items'} with missing epochs",)
        one = replace(
            one,
            warnings=one.warnings + gaps * bool(partly),
            metric=self._measured.about.key,
            subject=subject,
            group=group,
            low_if_missing=low,
            high_if_missing=high,
            **_counted(rows),
        )
        return self.withheld(one)

    def withheld(self, one: Estimate) -> Estimate:
        """Mark a number with low coverage, and take it away below the limit."""
        coverage = one.coverage
        if coverage is None or coverage >= MARKED_COVERAGE:
            return one
        text = f"coverage {100 * coverage:.1f} %"
        if coverage >= WITHHELD_COVERAGE or self._allow_low or one.estimate is None:
            return replace(one, warnings=(*one.warnings, text))
        gone = dict.fromkeys(
            ("estimate", "low", "high", "se", "n_eff", "events", "p", "p_floor", "mde")
        )
        return replace(one, **gone, method=f"withheld: {text}", warnings=())  # type: ignore[arg-type]


def _pair(
    measured: Measured,
    a: str,
    b: str,
    declared: bool,
    groups: Sequence[str],
    label: str | None,
    request: Request,
    estimator: _Estimator,
) -> PairResult:
    def estimate(group: str | None) -> tuple[Estimate, Pairs | None]:
        rows_a, rows_b = measured.of(a, group), measured.of(b, group)
        base = Estimate(metric=measured.about.key, subject=f"{b} - {a}", group=group)
        try:
            pairs = pair_up(
                items_of(rows_a, measured.is_ratio), items_of(rows_b, measured.is_ratio)
            )
            found = difference(pairs, cluster_label=label)
        except ValueError as error:
            return replace(base, method=f"not available ({error})"), None
        ends = [missing_range(rows, measured.about, measured.is_ratio) for rows in (rows_a, rows_b)]
        if any(ends):
            (low_a, high_a), (low_b, high_b) = (
                one or (float(items_of(rows, False).mean.mean()),) * 2
                for one, rows in zip(ends, (rows_a, rows_b), strict=True)
            )
            found = replace(found, low_if_missing=low_b - high_a, high_if_missing=high_b - low_a)
        found = replace(found, metric=base.metric, subject=base.subject, group=group)
        return estimator.withheld(found), pairs

    overall, pairs = estimate(None)
    changed = flips(pairs) if pairs else []
    return PairResult(
        a=a,
        b=b,
        declared=declared,
        overall=overall,
        groups=tuple(estimate(group)[0] for group in groups),
        missing=pairs.missing if pairs else (),
        flips=tuple(changed[: request.flips] if request.flips else changed),
        to_a=sum(flip.d < 0 for flip in changed),
        to_b=sum(flip.d > 0 for flip in changed),
    )


def _adjusted(results: Sequence[PairResult], declared: bool) -> tuple[PairResult, ...]:
    """Holm over declared pairs, else Benjamini-Hochberg; groups are always exploratory."""
    overall = family([one.overall for one in results], "holm" if declared else "fdr_bh")
    groups = iter(family([group for one in results for group in one.groups], "fdr_bh"))
    return tuple(
        replace(one, overall=total, groups=tuple(next(groups) for _ in one.groups))
        for one, total in zip(results, overall, strict=True)
    )


def _pairs(selection: Selection, request: Request) -> tuple[list[tuple[str, str]], bool]:
    """Pairs (A, B) to compare, and whether they were declared."""
    subjects = selection.subjects
    if any(a == b for a, b in request.pairs):
        raise CompareRefused("a subject cannot be compared with itself", "Name two subjects.")
    if request.pairs:
        return list(request.pairs), True
    if request.baseline:
        if request.baseline not in subjects:
            raise CompareRefused(
                f"{selection.task} has no run of {request.baseline}",
                f"There are: {', '.join(subjects)}.",
            )
        return [(request.baseline, one) for one in subjects if one != request.baseline], True
    if request.between:
        bases = selection.runs.groupby("base")["subject"].unique()
        return [pair for levels in bases for pair in combinations(sorted(levels), 2)], False
    return list(combinations(subjects, 2)), False


def _group_names(measured: Measured, by: str | None) -> list[str]:
    """Groups in their natural order; none where there is only one and none was asked for."""
    names = sorted(measured.rows["group"].dropna().astype(str).unique(), key=_natural)
    return names if len(names) > 1 or by else []


def _natural(name: str) -> tuple[tuple[int, float, str], ...]:
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, float(part), "") if part.isdecimal() else (1, 0.0, part) for part in parts)


def _counted(rows: pd.DataFrame) -> dict[str, Any]:
    return dict(counts(rows))


def _samples_of(measured: Measured) -> dict[tuple[str, str], str]:
    """Subject and item → sample id, to find an item in its log."""
    rows = measured.rows.drop_duplicates(["subject", "item"])
    return {
        (subject, item): str(sample)
        for subject, item, sample in zip(
            rows["subject"], rows["item"], rows["sample_id"], strict=True
        )
    }


def records(results: Sequence[Comparison]) -> pd.DataFrame:
    """All estimates as one flat table, for `--csv`."""
    rows: list[dict[str, Any]] = []
    for one in results:
        estimates: list[tuple[str, Estimate]] = [
            *(("rate", found) for found in (*one.rates, *one.group_rates)),
            *(("rate of valid answers", found) for found in one.valid_rates),
            *(
                (kind, replace(found, subject=each.subject))
                for each in one.standings
                for kind, found in each.compared()
            ),
            *(
                ("difference", found)
                for pair in one.pairs
                for found in (pair.overall, *pair.groups)
            ),
        ]
        for kind, found in estimates:
            rows.append(
                {"task": one.task, "kind": kind}
                | found.document()
                | {"warnings": "; ".join(found.warnings)}
            )
    return pd.DataFrame(rows).replace({np.nan: None})
