"""Intervals clustered by question: bootstrap for pooled ratios, Wilson for proportions."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
from inspect_ai.scorer import SampleScore, Score, ci_wilson

SEED = 20260721
"""The project's seed for statistics: equal clusters get equal draws, whatever the model."""
DRAWS = 2_000
LEVEL = 0.95

Counts = npt.NDArray[np.float64]
Bounds = tuple[float, float]
NONE: Bounds = (math.nan, math.nan)


def bootstrap(by_cluster: Mapping[str, Counts], statistic: Callable[[Counts], Counts]) -> Bounds:
    """Percentile interval of a statistic of summed counts.

    Args:
        by_cluster: Cluster → counts, shape (k,).
        statistic: From sums of shape (draws, k) to values of shape (draws,); nan where it has
            nothing to divide by.

    Returns:
        (low, high); nan with fewer than two clusters, or where no draw has a value.
    """
    names = sorted(by_cluster)
    if len(names) < 2:
        return NONE
    generator = np.random.default_rng(SEED)
    drawn = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=DRAWS)
    values = statistic(drawn @ np.array([by_cluster[name] for name in names]))
    known = values[~np.isnan(values)]
    if not known.size:
        return NONE
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def ratio(sums: Counts) -> Counts:
    """First column over second; nan for an empty denominator."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1], dtype=np.float64)


def lead(sums: Counts) -> Counts:
    """First column less second, over third: the difference of two shares of the same slots."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((sums[:, 0] - sums[:, 1]) / sums[:, 2], dtype=np.float64)


def mean_recall(sums: Counts) -> Counts:
    """Mean of column pairs (right, all); nan where one of them is empty."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((sums[:, 0::2] / sums[:, 1::2]).mean(axis=1), dtype=np.float64)


def wilson(values: Sequence[float], clusters: Sequence[str]) -> Bounds:
    """Inspect's clustered Wilson interval; nan with fewer than two clusters."""
    if len(set(clusters)) < 2:
        return NONE
    scores = [
        SampleScore(
            score=Score(value=value), sample_id=place, sample_metadata={"cluster_id": cluster}
        )
        for place, (value, cluster) in enumerate(zip(values, clusters, strict=True))
    ]
    compute = cast(
        Callable[[list[SampleScore]], dict[str, float]],
        ci_wilson(level=LEVEL, cluster="cluster_id"),
    )
    found = compute(scores)
    return found["lower"], found["upper"]
