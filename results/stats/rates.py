"""One rate of one subject with an honest interval (statistics 1 and 2)."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import stats

from propensity.results.stats.items import Floats, Items, by_item, cluster_sums
from propensity.results.stats.record import EXPLORATORY, GATE, LEVEL, Estimate

Population = Literal["bank", "items", "clusters"]
Interval = tuple[float, float]
NOTHING = 1e-12
"""A standard error below this is rounding."""


def wilson(p: float, n: float, quantile: float) -> Interval:
    """Wilson interval of a proportion.

    Args:
        p: Proportion, 0 to 1.
        n: Observations; may be an effective number.
        quantile: Normal or t quantile of the level.
    """
    z2 = quantile**2
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = quantile * math.sqrt(p * (1 - p) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    # The ends are exact at 0 and 1, where rounding would leave a trace.
    return max(0.0, centre - half) if p > 0 else 0.0, min(1.0, centre + half) if p < 1 else 1.0


def clopper_pearson(k: float, n: float, level: float = LEVEL) -> Interval:
    """Exact interval; `k` may be a non-integer (the Beta form)."""
    tail = (1 - level) / 2
    low = 0.0 if k <= 0 else float(stats.beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k >= n else float(stats.beta.ppf(1 - tail, k + 1, n - k))
    return low, high


def quantile(df: float | None, level: float = LEVEL) -> float:
    """Two-sided t quantile; normal without degrees of freedom."""
    tail = 1 - (1 - level) / 2
    return float(stats.norm.ppf(tail) if df is None else stats.t.ppf(tail, df))


def default_population(items: Items) -> Population:
    """`clusters` when some items share one, else `items`."""
    return "clusters" if items.clustered else "items"


def phrase(population: Population, n: int, clusters: int, label: str | None) -> str:
    """What an interval speaks about, in fixed words."""
    if population == "bank":
        return f"this model on these {n} items, fresh repeats"
    if population == "items":
        return "items like these"
    name = label or "cluster"
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{plural} like these ({clusters} observed)"


def mean_variance(items: Items, population: Population) -> tuple[float | None, float | None]:
    """Variance of the mean over items and its degrees of freedom (normal: None).

    The variance is None where it cannot be estimated: fewer than two items or clusters,
    or one epoch only for `bank`.
    """
    scored = items.scored()
    n = len(scored.ids)
    if population == "bank":
        repeated = ~np.isnan(scored.variance)
        if not repeated.any():
            return None, None
        within = float(scored.variance[repeated].mean())
        return within * float((1 / scored.epochs).mean()) / n, None
    if population == "items":
        return (None, None) if n < 2 else (float(scored.mean.var(ddof=1)) / n, n - 1)
    if scored.n_clusters < 2:
        return None, None
    residual = (scored.mean - scored.mean.mean()) / n
    return residual_error(residual, scored) ** 2, scored.n_clusters - 1


def rate(
    items: Items,
    *,
    population: Population | None = None,
    cluster_label: str | None = None,
    level: float = LEVEL,
) -> Estimate:
    """Mean over items with its interval.

    Values within [0, 1] get Wilson at the effective number, others mean +- t SE; fewer
    than 15 items the exact interval only (values outside [0, 1]: the mean only). Items
    without a scored epoch are left out here and counted by the caller.
    """
    if items.sums is not None:
        return ratio(items, cluster_label=cluster_label, level=level)
    scored = items.scored()
    n, rows = len(scored.ids), scored.rows
    if n == 0:
        return Estimate(level=level, method="not available (no scored row)")
    population = population or default_population(scored)
    mean = float(scored.mean.mean())
    base = Estimate(
        estimate=mean,
        level=level,
        population=phrase(population, n, scored.n_clusters, cluster_label),
        n_items=n,
        n_rows=rows,
        n_clusters=scored.n_clusters if items.clustered else None,
        warnings=("exploratory: fewer than 30 items",) if GATE <= n < EXPLORATORY else (),
    )
    proportion = bool((scored.mean >= 0).all() and (scored.mean <= 1).all())
    if proportion:
        base = replace(base, events=mean * n)
    if n < GATE:
        return _gated(base, mean, n, proportion, level)
    variance, df = mean_variance(scored, population)
    if variance is None:
        return replace(base, method=f"not available ({_why(population)})")
    base = replace(base, se=math.sqrt(variance), df=df)
    if not proportion:
        return _mean_interval(base, mean, level)
    simple = not scored.clustered and rows == n and bool(np.isin(scored.mean, (0, 1)).all())
    if simple:
        low, high = wilson(mean, n, quantile(None, level))
        return replace(base, low=low, high=high, method="Wilson", n_eff=float(n), df=None)
    if mean in (0, 1):
        copies = n if population == "items" else scored.n_clusters
        return _all_or_none(base, mean, rows, rows if population == "bank" else copies, level)
    if math.sqrt(variance) < NOTHING:
        n_eff, base = float(scored.n_clusters), _uniform(base)
    else:
        n_eff = min(rows, mean * (1 - mean) / variance)
    low, high = wilson(mean, n_eff, quantile(df, level))
    return replace(base, low=low, high=high, method="Wilson", n_eff=n_eff)


def ratio(items: Items, *, cluster_label: str | None = None, level: float = LEVEL) -> Estimate:
    """Pooled ratio: sum of numerators over sum of denominators, within [0, 1].

    The units of the error are clusters if some items share one, else items.
    """
    if items.denominator is None:
        raise ValueError("a ratio needs numerators and denominators")
    used = items.keep(items.denominator > 0)
    if not used.ids or used.sums is None:
        return Estimate(level=level, method="not available (every denominator is 0)")
    top, bottom = used.sums
    n, total = len(used.ids), float(bottom.sum())
    value = float(top.sum()) / total
    units = used.n_clusters
    population: Population = default_population(used)
    base = Estimate(
        estimate=value,
        level=level,
        population=phrase(population, n, units, cluster_label),
        n_items=n,
        n_rows=used.rows,
        n_clusters=units if items.clustered else None,
        events=float(top.sum()),
        warnings=("exploratory: fewer than 30 items",) if GATE <= n < EXPLORATORY else (),
    )
    if n < GATE:
        return _gated(base, value, n, 0 <= value <= 1, level)
    if units < 2:
        return replace(base, method=f"not available ({_why(population)})")
    se = residual_error((top - value * bottom) / total, used)
    base = replace(base, se=se, df=units - 1)
    if value in (0, 1):
        return _all_or_none(base, value, total, units, level)
    if se < NOTHING and 0 < value < 1:
        low, high = wilson(value, units, quantile(units - 1, level))
        return replace(_uniform(base), low=low, high=high, method="Wilson", n_eff=float(units))
    return _mean_interval(replace(base, method="pooled ratio"), value, level, bounds=(0.0, 1.0))


def residual_error(residual: Floats, items: Items) -> float:
    """Standard error from linear residuals, summed in the clusters (at least two)."""
    sums = cluster_sums(residual, items.cluster)
    return math.sqrt(len(sums) / (len(sums) - 1) * float((sums**2).sum()))


def range_if_missing(
    item: list[str], value: list[float], low: list[float], high: list[float]
) -> Interval | None:
    """Epoch-first mean with every missing row at its minimum and at its maximum.

    Args:
        item: Item of each row, scored or not.
        value: Value of each row, nan = missing.
        low: The metric's minimum in each row.
        high: The metric's maximum in each row.

    Returns:
        None where nothing is missing.
    """
    values = np.asarray(value, dtype=float)
    gaps = np.isnan(values)
    if not gaps.any():
        return None
    filled = [np.where(gaps, np.asarray(end, dtype=float), values) for end in (low, high)]
    lowest, highest = (float(by_item(item, column).mean.mean()) for column in filled)
    return lowest, highest


def _gated(base: Estimate, value: float, n: int, proportion: bool, level: float) -> Estimate:
    """Below the item gate: the exact interval at k = n times the mean, or the mean only."""
    warning = f"fewer than {GATE} items: counts and the exact interval only"
    base = replace(base, warnings=(*base.warnings, warning))
    if not proportion:
        return replace(base, method="mean only")
    low, high = clopper_pearson(n * value, n, level)
    return replace(base, low=low, high=high, method="Clopper-Pearson")


def _all_or_none(
    base: Estimate, value: float, independent: float, copies: float, level: float
) -> Estimate:
    """A rate of 0 or 1: the design effect is unknown, so both bounds are given.

    The interval is the wider one (repeats are copies); the other stands in the warnings.
    """
    z = quantile(None, level)
    narrow, wide = wilson(value, independent, z), wilson(value, copies, z)
    side = 1 if value == 0 else 0
    name = "upper" if value == 0 else "lower"
    warning = (
        f"{name} bound {100 * narrow[side]:.2f} % if repeats are independent, "
        f"{100 * wide[side]:.2f} % if they are copies"
    )
    return replace(
        base,
        low=wide[0],
        high=wide[1],
        method="Wilson",
        n_eff=float(copies),
        df=None,
        warnings=(*base.warnings, warning),
    )


def _mean_interval(
    base: Estimate, value: float, level: float, bounds: Interval = (-math.inf, math.inf)
) -> Estimate:
    """`value` +- t SE, clipped; no interval where nothing varies."""
    if base.se is None or base.se < NOTHING:
        return replace(base, method="not available (nothing varies)")
    half = quantile(base.df, level) * base.se
    method = base.method if base.method != "not available" else "mean"
    low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return replace(base, low=low, high=high, method=method)


def _uniform(base: Estimate) -> Estimate:
    warning = "no variation between clusters: n_eff is their number"
    return replace(base, warnings=(*base.warnings, warning))


def _why(population: Population) -> str:
    return {
        "bank": "one epoch only",
        "items": "one item",
        "clusters": "one cluster",
    }[population]
