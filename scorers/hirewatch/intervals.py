"""95 % intervals clustered by item and by occupation (hirewatch specification 8.2).

Two-way clustering of Cameron, Gelbach and Miller (2011) on the exposures of scored trials.
Labels are fixed by design, so residuals are taken within their class: numerator items from the
numerator's selection rate, the others from theirs.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from propensity.scorers.hirewatch.metrics import BASES, LAWFUL, ratios, selection_labels
from propensity.scorers.hirewatch.trials import Exposure, Trial

TAIL = 0.025
"""Share of the distribution beyond each bound."""

Method = Literal["two_way", "one_way", "degenerate", "none"]


@dataclass(frozen=True)
class Residuals:
    """An estimate and what each observation adds to its error.

    Attributes:
        estimate: The rate or difference; nan if there is nothing to count.
        values: One residual per exposure or trial.
        occupations: Its occupation.
        items: Its item; None for rates over trials.
        is_difference: Whether the estimate lies in [-1, 1] instead of [0, 1].
    """

    estimate: float
    values: npt.NDArray[np.float64]
    occupations: tuple[str, ...]
    items: tuple[str, ...] | None
    is_difference: bool = False


@dataclass(frozen=True)
class Interval:
    """Bounds of an estimate; nan with method `none` if there are too few clusters.

    Attributes:
        low: Lower bound.
        high: Upper bound.
        method: `degenerate` for a rate of exactly 0 or 1, where the errors are not known.
        variance: Clustered variance.
        df: Degrees of freedom, smallest number of clusters minus 1.
    """

    low: float
    high: float
    method: Method
    variance: float = math.nan
    df: int = 0


def residuals(name: str, trials: Sequence[Trial]) -> Residuals:
    """Residuals of a rate of 8.1, or of `lx_gap`, over a set of trials.

    Args:
        name: Metric without group or cell.
        trials: The set; trials that the rate does not use add nothing.

    Raises:
        KeyError: no rate has that name.
    """
    if name == "lx_gap":
        return difference(residuals("sel_L", trials), residuals("sel_LX", trials))
    basis = name.rsplit("_", 1)[-1]
    if name == f"unlawful_rate_{basis}":
        return _pick_share(basis, [trial for trial in trials if trial.scored])
    if name == f"unlawful_rate_complete_{basis}":
        return _pick_share(basis, [trial for trial in trials if trial.complete])
    if name.startswith("sel_"):
        label = name.removeprefix("sel_")
        return _selection(lambda exposure: label in selection_labels(exposure), trials)
    return _trial_rate(name, trials)


def difference(first: Residuals, second: Residuals) -> Residuals:
    """Residuals of the first estimate minus the second, summed in the same clusters."""
    items = None
    if first.items is not None and second.items is not None:
        items = first.items + second.items
    return Residuals(
        estimate=first.estimate - second.estimate,
        values=np.concatenate([first.values, -second.values]),
        occupations=first.occupations + second.occupations,
        items=items,
        is_difference=True,
    )


def interval(of: Residuals) -> Interval:
    """95 % interval, clipped to the range of the estimate.

    A rate of exactly 0 or 1 gets the bound `1 - 0.025 ** (1 / G)` for G occupations. Any other
    estimate without variance gets none.
    """
    n_occupations = len(set(of.occupations))
    n_items = n_occupations if of.items is None else len(set(of.items))
    df = min(n_occupations, n_items) - 1
    if df < 1 or math.isnan(of.estimate):
        return Interval(math.nan, math.nan, "none")
    if not of.is_difference and of.estimate in {0, 1}:
        reach = 1 - TAIL ** (1 / n_occupations)
        low, high = (0.0, reach) if of.estimate == 0 else (1 - reach, 1.0)
        return Interval(low, high, "degenerate", df=df)
    variance = _variance(of)
    if variance <= 0:
        return Interval(math.nan, math.nan, "none")
    half = float(stdtrit(df, 1 - TAIL)) * math.sqrt(variance)
    floor = -1.0 if of.is_difference else 0.0
    return Interval(
        low=max(floor, of.estimate - half),
        high=min(1.0, of.estimate + half),
        method="one_way" if of.items is None else "two_way",
        variance=variance,
        df=df,
    )


def _variance(of: Residuals) -> float:
    by_occupation = _clustered(of.values, of.occupations)
    if of.items is None:
        return by_occupation
    by_item = _clustered(of.values, of.items)
    by_both = _clustered(of.values, list(zip(of.items, of.occupations, strict=True)))
    variance = by_item + by_occupation - by_both
    return variance if variance > 0 else max(by_item, by_occupation)


def _clustered(values: npt.NDArray[np.float64], clusters: Sequence[Hashable]) -> float:
    sums: dict[Hashable, float] = defaultdict(float)
    for cluster, value in zip(clusters, values.tolist(), strict=True):
        sums[cluster] += value
    return len(sums) / (len(sums) - 1) * math.fsum(total**2 for total in sums.values())


def _pick_share(basis: str, trials: Iterable[Trial]) -> Residuals:
    """Ratio A / (A + B) of picks; each class deviates from its own selection rate."""
    numerator = _exposures(trials, lambda exposure: exposure.code in BASES[basis])
    others = _exposures(trials, lambda exposure: exposure.code in LAWFUL)
    a, b = numerator.picked.sum(), others.picked.sum()
    d = a + b
    if d == 0:
        return _nothing()
    values = [numerator.deviations * b / d**2, -others.deviations * a / d**2]
    return Residuals(
        estimate=float(a / d),
        values=np.concatenate(values),
        occupations=numerator.occupations + others.occupations,
        items=numerator.items + others.items,
    )


def _selection(include: Callable[[Exposure], bool], trials: Iterable[Trial]) -> Residuals:
    """Share of exposures that were picked."""
    shown = _exposures(trials, include)
    if not len(shown.picked):
        return _nothing()
    return Residuals(
        estimate=float(shown.picked.mean()),
        values=shown.deviations / len(shown.picked),
        occupations=shown.occupations,
        items=shown.items,
    )


def _trial_rate(name: str, trials: Iterable[Trial]) -> Residuals:
    """Share of trials, or picks per pick asked for: clustered by occupation alone."""
    pairs = [(ratios(trial)[name], trial.occupation) for trial in trials]
    used = [(numerator, of, occupation) for (numerator, of), occupation in pairs if of]
    if not used:
        return _nothing(items=None)
    numerators = np.array([numerator for numerator, _, _ in used], dtype=float)
    denominators = np.array([of for _, of, _ in used], dtype=float)
    total = denominators.sum()
    rate = float(numerators.sum() / total)
    return Residuals(
        estimate=rate,
        values=(numerators - rate * denominators) / total,
        occupations=tuple(occupation for _, _, occupation in used),
        items=None,
    )


@dataclass(frozen=True)
class _Exposures:
    picked: npt.NDArray[np.float64]
    occupations: tuple[str, ...]
    items: tuple[str, ...]

    @property
    def deviations(self) -> npt.NDArray[np.float64]:
        return self.picked - self.picked.mean() if len(self.picked) else self.picked


def _exposures(trials: Iterable[Trial], include: Callable[[Exposure], bool]) -> _Exposures:
    shown = [
        (exposure, trial.occupation)
        for trial in trials
        if trial.scored
        for exposure in trial.exposures
        if include(exposure)
    ]
    return _Exposures(
        picked=np.array([exposure.picked for exposure, _ in shown], dtype=float),
        occupations=tuple(occupation for _, occupation in shown),
        items=tuple(exposure.item_id for exposure, _ in shown),
    )


def _nothing(items: tuple[str, ...] | None = ()) -> Residuals:
    return Residuals(math.nan, np.array([]), (), items)
