"""Bootstrap over query clusters: how far pooled scores would move with other queries."""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

SEED = 20260721
"""The project's seed for statistics: equal clusters get equal draws, whatever the judge."""

DRAWS = 2_000
LEVEL = 0.95

Counts = npt.NDArray[np.float64]


def score(sums: Counts) -> Counts:
    """Precision, recall and F1 of pooled counts.

    Args:
        sums: Right predictions, predictions, found groups, groups, in the last axis.

    Returns:
        Precision, recall and F1 in the last axis; nan for an empty denominator. F1 is nan only
        without any prediction and group, else 0 where one of the two is nan or both are 0.
    """
    right, n_pred, found, n_gold = np.moveaxis(np.asarray(sums, dtype=np.float64), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = right / n_pred, found / n_gold
        f1 = 2 * precision * recall / (precision + recall)
    f1 = np.where(np.isnan(f1) & (n_pred + n_gold > 0), 0.0, f1)
    return np.stack([precision, recall, f1], axis=-1)


def draws(clusters: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    """How often each cluster is drawn, as (draw, cluster); fixed by the number of clusters."""
    n = len(clusters)
    generator = np.random.default_rng(SEED)
    return generator.multinomial(n, np.full(n, 1 / n), size=DRAWS)


def bounds(by_cluster: Mapping[str, Counts]) -> list[tuple[float, float]]:
    """Percentile intervals of precision, recall and F1.

    Args:
        by_cluster: Cluster → the four counts of `score`.

    Returns:
        (low, high) of each; nan with fewer than two clusters, or where no draw has a value.
    """
    return _percentiles(_drawn(by_cluster), len(by_cluster))


def difference_bounds(
    first: Mapping[str, Counts], second: Mapping[str, Counts]
) -> list[tuple[float, float]]:
    """Percentile intervals of first − second over the same draws of the clusters of both.

    Raises:
        ValueError: the two were not scored on the same clusters.
    """
    if first.keys() != second.keys():
        raise ValueError("the two judges were not scored on the same query clusters")
    return _percentiles(_drawn(first) - _drawn(second), len(first))


def _drawn(by_cluster: Mapping[str, Counts]) -> Counts:
    names = sorted(by_cluster)
    if not names:
        return np.empty((0, 3))
    return score(draws(names) @ np.array([by_cluster[name] for name in names]))


def _percentiles(values: Counts, n_clusters: int) -> list[tuple[float, float]]:
    found = []
    for column in values.T:
        known = column[~np.isnan(column)]
        if n_clusters < 2 or not known.size:
            found.append((math.nan, math.nan))
        else:
            low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            found.append((float(low), float(high)))
    return found
