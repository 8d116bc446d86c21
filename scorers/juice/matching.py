"""How well spans cover each other, and which prediction finds which group (specification 6)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from propensity.scorers.juice.location import Span
from propensity.scorers.juice.records import Unit

TOLERANCE = 1e-12
CURVE = tuple(step / 10 for step in range(1, 11))
"""Thresholds of the curve: .1, .2 … 1.0."""

_CELLS = 4_000_000
"""Pairs compared at once; bounds the memory."""


class Edge(NamedTuple):
    """A group (row) and a prediction (column) that overlap; `iou` in (0, 1]."""

    row: int
    column: int
    iou: float


class Ruler:
    """Measures spans of one text in code points, grapheme clusters or words.

    A span becomes the half-open range of the units that it touches.
    """

    def __init__(self, text: str, unit: Unit) -> None:
        self._bounds = None if unit == "codepoint" else _unit_bounds(text, unit)

    def measure(self, spans: Sequence[Span]) -> list[Span]:
        """Return the units that each span touches."""
        if self._bounds is None or not spans:
            return list(spans)
        starts, ends = self._bounds
        given = np.array(spans)
        first = np.searchsorted(ends, given[:, 0], side="right")
        last = np.searchsorted(starts, given[:, 1], side="left")
        return [Span(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def overlaps(groups: Sequence[Sequence[Span]], predictions: Sequence[Span]) -> list[Edge]:
    """Compute the IoU of every group with every prediction that it overlaps.

    IoU(p, G) is the largest one over all locations of all members of G.

    Returns:
        Edges ordered by row, then column.
    """
    owners = [row for row, spans in enumerate(groups) for _ in spans]
    if not owners or not predictions:
        return []
    gold = np.array([span for spans in groups for span in spans])
    given = np.array(predictions)
    best: dict[tuple[int, int], float] = {}
    step = max(1, _CELLS // len(predictions))
    for at in range(0, len(gold), step):
        starts, ends = gold[at : at + step, 0, None], gold[at : at + step, 1, None]
        shared = np.minimum(ends, given[:, 1]) - np.maximum(starts, given[:, 0])
        rows, columns = np.nonzero(shared > 0)
        both = shared[rows, columns]
        lengths = (ends - starts)[rows, 0] + (given[:, 1] - given[:, 0])[columns]
        ious = both / (lengths - both)
        for row, column, iou in zip(rows.tolist(), columns.tolist(), ious.tolist(), strict=True):
            key = owners[at + row], column
            if iou > best.get(key, 0):
                best[key] = iou
    return [Edge(*key, best[key]) for key in sorted(best)]


def assign(edges: Iterable[Edge], threshold: float) -> list[Edge]:
    """Pair groups with predictions one to one over the edges with IoU ≥ threshold.

    First as many pairs as possible, then the largest total IoU. Components in which all edges
    share a row or a column need no search; the rest is a linear assignment.

    Args:
        edges: Ordered by row, then column.
        threshold: In (0, 1].
    """
    pairs = []
    for component in _components([e for e in edges if e.iou >= threshold - TOLERANCE]):
        rows = sorted({edge.row for edge in component})
        columns = sorted({edge.column for edge in component})
        if len(rows) == 1 or len(columns) == 1:
            pairs.append(max(component, key=lambda edge: edge.iou))
        else:
            pairs += _assignment(component, rows, columns)
    return sorted(pairs)


def curve(edges: Sequence[Edge]) -> list[int]:
    """Count the pairs at each threshold of `CURVE`, from one computation of IoU."""
    counts: list[int] = []
    left = -1
    for threshold in CURVE:
        edges = [edge for edge in edges if edge.iou >= threshold - TOLERANCE]
        counts.append(counts[-1] if len(edges) == left else len(assign(edges, threshold)))
        left = len(edges)
    return counts


def merged(spans: Iterable[Span]) -> list[Span]:
    """Join overlapping and touching spans."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def characters(gold: Sequence[Span], predicted: Sequence[Span]) -> tuple[int, int, int]:
    """Count code points in both unions, in the predicted one and in the gold one."""
    in_gold, in_predicted, in_either = (
        sum(span.end - span.start for span in merged(spans))
        for spans in (gold, predicted, [*gold, *predicted])
    )
    return in_gold + in_predicted - in_either, in_predicted, in_gold


def _components(edges: Sequence[Edge]) -> Iterable[list[Edge]]:
    """Group edges that share rows or columns, directly or through others."""
    parents: dict[int, int] = {}

    def root(node: int) -> int:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = node = parents.setdefault(parent, parent)
        return node

    for edge in edges:
        # Columns are the negative nodes.
        parents[root(edge.row)] = root(~edge.column)
    components: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        components[root(edge.row)].append(edge)
    return components.values()


def _assignment(edges: Sequence[Edge], rows: list[int], columns: list[int]) -> list[Edge]:
    from scipy.optimize import linear_sum_assignment

    row_at = {row: place for place, row in enumerate(rows)}
    column_at = {column: place for place, column in enumerate(columns)}
    weights = np.zeros((len(rows), len(columns)))
    # A pair outweighs any gain in IoU, so that the number of pairs comes first.
    pair = min(len(rows), len(columns)) + 1
    for edge in edges:
        weights[row_at[edge.row], column_at[edge.column]] = pair + edge.iou
    places = zip(*linear_sum_assignment(weights, maximize=True), strict=True)
    chosen = {(rows[i], columns[j]) for i, j in places}
    return [edge for edge in edges if edge[:2] in chosen]


def _unit_bounds(text: str, unit: Unit) -> tuple[list[int], list[int]]:
    import regex

    pattern = r"\X" if unit == "grapheme" else r"[\p{L}\p{M}\p{N}_]+|\S"
    bounds = [match.span() for match in regex.finditer(pattern, text)]
    return [start for start, _ in bounds], [end for _, end in bounds]
