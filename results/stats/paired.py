"""Paired comparison of two subjects on the same items: B - A (statistics 3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from propensity.results.stats.items import Floats, Items, cluster_sums
from propensity.results.stats.power import multiplier
from propensity.results.stats.rates import Interval, phrase, quantile, residual_error, wilson
from propensity.results.stats.record import EXPLORATORY, GATE, LEVEL, Estimate

SEED = 20260721
EXACT_CLUSTERS = 16
"""Up to so many clusters all sign vectors are enumerated."""
DRAWS = 9_999
T_CLUSTERS = 20
"""From so many clusters on the primary p is the t-test's."""
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Pairs:
    """Items scored for both subjects, in one order; `a.cluster` is the clustering."""

    a: Items
    b: Items
    missing: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Item ids of the complete pairs."""
        return self.a.ids

    @property
    def d(self) -> Floats:
        """Difference B - A of each item's means."""
        return self.b.mean - self.a.mean


def pair_up(a: Items, b: Items) -> Pairs:
    """Join on the item id; items without a score on one side are listed as missing.

    Raises:
        ValueError: no item is scored on both sides.
    """
    scored_a, scored_b = a.scored(), b.scored()
    shared = set(scored_a.ids) & set(scored_b.ids)
    if not shared:
        raise ValueError("no shared item with a score on both sides")
    wanted = set(a.ids) | set(b.ids)

    def among(items: Items) -> Items:
        return items.keep(np.array([one in shared for one in items.ids], dtype=bool))

    return Pairs(among(scored_a), among(scored_b), tuple(sorted(wanted - shared)))


def difference(
    pairs: Pairs, *, cluster_label: str | None = None, level: float = LEVEL, seed: int = SEED
) -> Estimate:
    """B - A with interval and primary p by the table of statistics 3.2.

    Ratio keys: difference of the pooled ratios, errors from the residuals of both sides
    summed in the same units, p by swapping the sides of whole units.
    """
    n, items = len(pairs.ids), pairs.a
    estimate, se, units = _effect(pairs)
    clusters = items.n_clusters
    base = Estimate(
        estimate=estimate,
        level=level,
        population=phrase("clusters" if items.clustered else "items", n, clusters, cluster_label),
        n_items=n,
        n_rows=items.rows + pairs.b.rows,
        n_clusters=clusters if items.clustered else None,
        scored=n,
        errored=len(pairs.missing),
        warnings=("exploratory: fewer than 30 items",) if GATE <= n < EXPLORATORY else (),
    )
    if n < GATE:
        warning = f"fewer than {GATE} items: no interval and no test"
        return replace(base, method="counts only", warnings=(*base.warnings, warning))
    if _is_binary(items) and _is_binary(pairs.b) and not items.clustered:
        return _binary(base, pairs, level)
    if units < 2:
        return replace(base, method="not available (one cluster)")
    if se is None or se < TOLERANCE:
        return _no_spread(base, pairs, level, seed)
    df = units - 1
    half = quantile(df, level) * se
    t_p = float(2 * stats.t.sf(abs(estimate) / se, df))
    base = replace(
        base,
        low=max(-1.0, estimate - half) if _bounded(pairs) else estimate - half,
        high=min(1.0, estimate + half) if _bounded(pairs) else estimate + half,
        se=se,
        df=df,
        method="clustered" if items.clustered else "paired t",
        mde=multiplier(units) * se,
    )
    if not items.clustered or units >= T_CLUSTERS:
        return replace(base, p=t_p, p_method=f"t_{df}")
    return _flip(base, pairs, seed)


def _effect(pairs: Pairs) -> tuple[float, float | None, int]:
    """The difference, its standard error (None with one unit), and the number of units."""
    sums_a, sums_b = pairs.a.sums, pairs.b.sums
    if sums_a is None or sums_b is None:
        d = pairs.d
        effect, residual = float(d.mean()), (d - d.mean()) / len(d)
    else:
        (top_a, bottom_a), (top_b, bottom_b) = sums_a, sums_b
        total_a, total_b = float(bottom_a.sum()), float(bottom_b.sum())
        if not total_a or not total_b:
            raise ValueError("every denominator is 0 on one side")
        rate_a, rate_b = float(top_a.sum()) / total_a, float(top_b.sum()) / total_b
        effect = rate_b - rate_a
        residual = (top_b - rate_b * bottom_b) / total_b - (top_a - rate_a * bottom_a) / total_a
    units = pairs.a.n_clusters
    return effect, residual_error(residual, pairs.a) if units > 1 else None, units


def sign_flip(sums: Floats, seed: int = SEED) -> tuple[float, float, int]:
    """Sign-flip test on cluster sums of differences.

    Returns:
        p, the smallest p that so many clusters can reach, and the number of clusters that
        count (sum not 0).
    """
    live = sums[np.abs(sums) > TOLERANCE]
    observed = abs(float(live.sum()))
    return _randomize(len(live), seed, lambda signs: np.abs(signs @ live) >= observed - TOLERANCE)


def swap(
    top_a: Floats, bottom_a: Floats, top_b: Floats, bottom_b: Floats, seed: int = SEED
) -> tuple[float, float, int]:
    """Randomization test of two pooled ratios: whole units change sides.

    With equal denominators on both sides this is `sign_flip`. Returns the same.
    """
    live = (np.abs(top_a - top_b) > TOLERANCE) | (np.abs(bottom_a - bottom_b) > TOLERANCE)
    observed = abs(float(top_b.sum() / bottom_b.sum() - top_a.sum() / bottom_a.sum()))
    top, bottom = (top_b - top_a)[live] / 2, (bottom_b - bottom_a)[live] / 2
    middle_top, middle_bottom = (top_a + top_b).sum() / 2, (bottom_a + bottom_b).sum() / 2

    def hits(signs: Floats) -> NDArray[np.bool_]:
        up, down = signs @ top, signs @ bottom
        with np.errstate(divide="ignore", invalid="ignore"):
            flipped = (middle_top + up) / (middle_bottom + down) - (middle_top - up) / (
                middle_bottom - down
            )
        # A swap that empties one side has no ratio; counting it as a hit is the safe side.
        extreme: NDArray[np.bool_] = np.isnan(flipped) | (np.abs(flipped) >= observed - TOLERANCE)
        return extreme

    return _randomize(int(live.sum()), seed, hits)


def _randomize(
    live: int, seed: int, hits: Callable[[Floats], NDArray[np.bool_]]
) -> tuple[float, float, int]:
    if live == 0:
        return 1.0, 1.0, 0
    floor = min(1.0, 2 / 2**live)
    if live <= EXACT_CLUSTERS:
        bits = (np.arange(2**live)[:, None] >> np.arange(live)) & 1
        return float(hits((2 * bits - 1).astype(np.float64)).mean()), floor, live
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(DRAWS, live))
    return (1 + int(hits(signs).sum())) / (DRAWS + 1), max(floor, 1 / (DRAWS + 1)), live


def mcnemar(b: int, c: int) -> float:
    """Exact p from the discordant pairs."""
    if b + c == 0:
        return 1.0
    return min(1.0, 2 * float(stats.binom.cdf(min(b, c), b + c, 0.5)))


def tango(only_a: int, only_b: int, n: int, level: float = LEVEL) -> Interval:
    """Score interval of p_A - p_B from n pairs (Tango 1998)."""
    b, c, z = only_a, only_b, quantile(None, level)
    if b + c == 0:
        return -(z**2) / (n + z**2), z**2 / (n + z**2)
    estimate = (b - c) / n

    def score(delta: float) -> float:
        first = 2 * n
        second = -b - c + (2 * n - b + c) * delta
        third = -c * delta * (1 - delta)
        q = (math.sqrt(max(0.0, second**2 - 4 * first * third)) - second) / (2 * first)
        spread = n * (2 * q + delta * (1 - delta))
        distance = b - c - n * delta
        if distance == 0:
            return 0.0
        return distance / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, distance)

    def root(end: float, target: float) -> float:
        inner, outer = sorted((estimate, end * (1 - 1e-12)))
        if (score(inner) - target) * (score(outer) - target) > 0:
            return end
        return float(optimize.brentq(lambda delta: score(delta) - target, inner, outer))

    low = root(-1.0, z) if estimate > -1 else -1.0
    high = root(1.0, -z) if estimate < 1 else 1.0
    return low, high


def newcombe(both: int, only_a: int, only_b: int, neither: int, level: float = LEVEL) -> Interval:
    """Interval of p_A - p_B, method 10 of Newcombe 1998."""
    a, b, c, d = both, only_a, only_b, neither
    n, z = a + b + c + d, quantile(None, level)
    p1, p2 = (a + b) / n, (a + c) / n
    (l1, u1), (l2, u2) = wilson(p1, n, z), wilson(p2, n, z)
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    e = a * d - b * c
    corrected = e - n / 2 if e > n / 2 else min(e, 0)
    phi = corrected / math.sqrt(margins) if margins else 0.0

    def half(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x**2 - 2 * phi * x * y + y**2))

    return p1 - p2 - half(p1 - l1, u2 - p2), p1 - p2 + half(p2 - l2, u1 - p1)


def _binary(base: Estimate, pairs: Pairs, level: float) -> Estimate:
    a, b = pairs.a.mean > 0.5, pairs.b.mean > 0.5
    only_b, only_a = int((b & ~a).sum()), int((a & ~b).sum())
    low, high = tango(only_b, only_a, len(a), level)
    second = newcombe(int((a & b).sum()), only_b, only_a, int((~a & ~b).sum()), level)
    note = f"Newcombe [{100 * second[0]:.1f}, {100 * second[1]:.1f}] pp"
    if only_a + only_b == 0:
        note = f"identical on all {len(a)} items"
    return replace(
        base,
        low=low,
        high=high,
        method="Tango",
        p=mcnemar(only_b, only_a),
        p_method="exact McNemar",
        warnings=(*base.warnings, note),
    )


def _flip(base: Estimate, pairs: Pairs, seed: int) -> Estimate:
    sums_a, sums_b, cluster = pairs.a.sums, pairs.b.sums, pairs.a.cluster
    if sums_a is None or sums_b is None:
        p, floor, live = sign_flip(cluster_sums(pairs.d, cluster), seed)
    else:
        top_a, bottom_a, top_b, bottom_b = (
            cluster_sums(column, cluster) for column in (*sums_a, *sums_b)
        )
        p, floor, live = swap(top_a, bottom_a, top_b, bottom_b, seed)
    shown = f"{floor:.3f}".removeprefix("0") if floor >= 0.001 else "< .001"
    method = f"sign-flip ({live} of {pairs.a.n_clusters} clusters count, floor {shown})"
    base = replace(base, p=p, p_method=method, p_floor=floor)
    if floor < 1 - base.level:
        return base
    note = f"with {live} clusters no result can reach p < {1 - base.level:.2g}"
    return replace(base, warnings=(*base.warnings, note))


def _no_spread(base: Estimate, pairs: Pairs, level: float, seed: int) -> Estimate:
    """Every unit shows the same difference: a test only if it is not 0."""
    base = replace(base, method="not available (nothing varies)")
    if abs(base.estimate or 0.0) > TOLERANCE:
        return _flip(base, pairs, seed)
    base = replace(base, warnings=(*base.warnings, f"identical on all {base.n_items} items"))
    if not (_is_binary(pairs.a) and _is_binary(pairs.b)):
        return base
    low, high = tango(0, 0, base.n_items, level)
    return replace(base, low=low, high=high, method="Tango")


def _is_binary(items: Items) -> bool:
    single = items.sums is None and bool((items.epochs == 1).all())
    return single and bool(np.isin(items.mean, (0, 1)).all())


def _bounded(pairs: Pairs) -> bool:
    means = np.concatenate([pairs.a.mean, pairs.b.mean])
    means = means[~np.isnan(means)]
    return bool(((means >= 0) & (means <= 1)).all())


@dataclass(frozen=True)
class Flip:
    """An item whose outcome changed: |d| > .5, of 0/1 data every discordant one."""

    item: str
    a: float
    b: float

    @property
    def d(self) -> float:
        """B - A."""
        return self.b - self.a


def flips(pairs: Pairs) -> list[Flip]:
    """Items whose outcome changed, largest change first, then by id."""
    found = [
        Flip(item, float(a), float(b))
        for item, a, b in zip(pairs.ids, pairs.a.mean, pairs.b.mean, strict=True)
        if abs(b - a) > 0.5
    ]
    return sorted(found, key=lambda flip: (-round(abs(flip.d), 9), flip.item))
