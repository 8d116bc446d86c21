"""Epoch first: rows become one value per item before anything else is computed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Items:
    """One entry per item, sorted by id (statistics 1).

    `mean` is the mean of the scored epochs, nan without one; for a ratio key it is the
    item's own ratio. `variance` is the variance of its epochs, nan with fewer than two.
    `cluster` holds indices 0..C-1. `numerator` and `denominator` are sums over epochs.
    """

    ids: tuple[str, ...]
    mean: Floats
    epochs: Ints
    variance: Floats
    cluster: Ints
    numerator: Floats | None = None
    denominator: Floats | None = None

    @property
    def n_clusters(self) -> int:
        """Clusters among all items, scored or not."""
        return len(set(self.cluster.tolist()))

    @property
    def clustered(self) -> bool:
        """Whether some items share a cluster."""
        return self.n_clusters < len(self.ids)

    @property
    def rows(self) -> int:
        """Scored rows."""
        return int(self.epochs.sum())

    @property
    def sums(self) -> tuple[Floats, Floats] | None:
        """Numerators and denominators of a ratio key, else None."""
        if self.numerator is None or self.denominator is None:
            return None
        return self.numerator, self.denominator

    def keep(self, which: NDArray[np.bool_]) -> "Items":
        """Return the items where `which` is true."""
        return Items(
            ids=tuple(np.asarray(self.ids, dtype=object)[which]),
            mean=self.mean[which],
            epochs=self.epochs[which],
            variance=self.variance[which],
            cluster=self.cluster[which],
            numerator=None if self.numerator is None else self.numerator[which],
            denominator=None if self.denominator is None else self.denominator[which],
        )

    def scored(self) -> "Items":
        """Return the items with at least one scored epoch."""
        return self.keep(self.epochs > 0)


def by_item(
    item: ArrayLike,
    value: ArrayLike,
    cluster: ArrayLike | None = None,
    numerator: ArrayLike | None = None,
    denominator: ArrayLike | None = None,
) -> Items:
    """Average the epochs of each item.

    Args:
        item: Item id of each row.
        value: Value of each row; nan = not scored.
        cluster: Cluster id of each row; None or an empty id = the item by itself.
        numerator: For ratio keys, of each row; nan = not scored.
        denominator: For ratio keys, of each row; a row with denominator 0 is scored
            although its value is nan.

    Raises:
        ValueError: an item lies in two clusters, or a value is infinite.
    """
    ids, index = np.unique(np.asarray(item, dtype=str), return_inverse=True)
    size = len(ids)
    values = np.asarray(value, dtype=float)
    if np.isinf(values).any():
        raise ValueError(f"item {ids[index[np.isinf(values)][0]]}: the value is infinite")
    sums: dict[str, Floats] = {}
    scored = ~np.isnan(values)
    if numerator is not None and denominator is not None:
        top, bottom = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
        scored = ~np.isnan(bottom)
        sums["numerator"] = np.bincount(index[scored], top[scored], size).astype(float)
        sums["denominator"] = np.bincount(index[scored], bottom[scored], size).astype(float)
    epochs = np.bincount(index[scored], minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        if sums:
            mean = sums["numerator"] / sums["denominator"]
            variance = np.full(size, np.nan)
        else:
            mean = np.bincount(index[scored], values[scored], size) / epochs
            squares = np.bincount(index[scored], (values[scored] - mean[index[scored]]) ** 2, size)
            variance = np.where(epochs > 1, squares / (epochs - 1), np.nan)
    return Items(
        ids=tuple(ids.tolist()),
        mean=mean,
        epochs=epochs.astype(np.int64),
        variance=variance,
        cluster=_cluster_of(ids, index, cluster),
        **sums,
    )


def _cluster_of(ids: NDArray[np.str_], index: Ints, cluster: ArrayLike | None) -> Ints:
    """Index of each item's cluster; an item without one is a cluster by itself."""
    if cluster is None:
        return np.arange(len(ids), dtype=np.int64)
    names: list[str | None] = [None] * len(ids)
    for position, name in zip(index.tolist(), np.asarray(cluster, dtype=object), strict=True):
        given = name if isinstance(name, str) and name else None
        if names[position] not in (None, given) and given is not None:
            raise ValueError(
                f"item {ids[position]} lies in two clusters: {names[position]} and {given}"
            )
        names[position] = names[position] or given
    labels = [("c", name) if name else ("i", own) for name, own in zip(names, ids, strict=True)]
    order = {label: number for number, label in enumerate(sorted(set(labels)))}
    return np.array([order[label] for label in labels], dtype=np.int64)


def cluster_sums(values: Floats, cluster: Ints) -> Floats:
    """Sum of `values` in each cluster that occurs."""
    _, index = np.unique(cluster, return_inverse=True)
    return np.bincount(index, values).astype(float)
