"""Several judges on the same responses: joint spans, independence, agreement (specification 8)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from propensity.scorers.juice.intervals import draws
from propensity.scorers.juice.location import Span
from propensity.scorers.juice.matching import TOLERANCE, overlaps

JOINED_FROM = 0.5
"""Least IoU at which spans of two judges are one."""


class PanelSpan(NamedTuple):
    """A span that judges gave together; `votes` counts distinct judges."""

    span: Span
    votes: int


def panel_spans(
    by_judge: Mapping[str, Sequence[Span]], threshold: float = JOINED_FROM
) -> list[PanelSpan]:
    """Join the predictions of several judges on one response.

    Predictions of different judges with IoU ≥ threshold are joined; each connected component is
    one panel span. Its place is the member with the largest summed IoU to the others (of equals
    the shorter, then the leftmost).

    Returns:
        Panel spans in text order.
    """
    nodes = sorted((span, judge) for judge, spans in by_judge.items() for span in set(spans))
    places = [span for span, _ in nodes]
    ious = {
        (edge.row, edge.column): edge.iou
        for edge in overlaps([[place] for place in places], places)
    }
    edges = [
        (first, second)
        for (first, second), iou in ious.items()
        if nodes[first][1] != nodes[second][1] and iou >= threshold - TOLERANCE
    ]
    joined = []
    for members in _components(len(nodes), edges):
        summed = {
            one: math.fsum(ious.get((one, other), 0.0) for other in members) for one in members
        }

        def order(one: int, summed: Mapping[int, float] = summed) -> tuple[float, int, int]:
            start, end = places[one]
            return (-round(summed[one], 12), end - start, start)

        votes = len({nodes[one][1] for one in members})
        joined.append(PanelSpan(places[min(members, key=order)], votes))
    return sorted(joined)


def union(spans: Sequence[PanelSpan]) -> list[Span]:
    """Panel spans that any judge gave."""
    return [one.span for one in spans]


def majority(spans: Sequence[PanelSpan], judges: int) -> list[Span]:
    """Panel spans that more than half of the judges gave."""
    return [one.span for one in spans if one.votes > judges / 2]


@dataclass(frozen=True)
class PanelSize:
    """How many independent votes a panel is worth.

    Attributes:
        n_eff: k / (1 + (k - 1) r), with a negative r taken as 0; nan if no pair has an r.
        correlation: Mean pairwise correlation of misses.
        left_out: Pairs without a correlation, since one of the two always or never misses.
    """

    n_eff: float
    correlation: float
    left_out: int


def effective_size(judges: int, correlation: float) -> float:
    """Number of independent judges that a correlated panel is worth."""
    return judges / (1 + (judges - 1) * max(0.0, correlation))


def panel_size(misses: Mapping[str, Sequence[bool]]) -> PanelSize:
    """Effective panel size from each judge's misses of the same gold groups, in the same order."""
    known: list[float] = []
    left_out = 0
    for first, second in itertools.combinations(misses.values(), 2):
        if len(set(first)) < 2 or len(set(second)) < 2:
            left_out += 1
        else:
            known.append(float(np.corrcoef(first, second)[0, 1]))
    if not known:
        return PanelSize(math.nan, math.nan, left_out)
    mean = math.fsum(known) / len(known)
    return PanelSize(effective_size(len(misses), mean), mean, left_out)


class Alpha(NamedTuple):
    """Krippendorff's alpha and its interval; nan where nothing varies."""

    alpha: float
    low: float
    high: float


def alpha(responses: Sequence[Sequence[Sequence[bool]]]) -> Alpha:
    """Krippendorff's nominal alpha of yes/no ratings, with a bootstrap over responses.

    Args:
        responses: Per response, per unit (sentence), one rating of every rater.
    """
    sums = np.array([_disagreement(units) for units in responses]).reshape(-1, 3)
    value = float(_alpha(sums.sum(axis=0)))
    drawn = _alpha(draws(range(len(sums))) @ sums) if len(sums) > 1 else np.array([])
    drawn = drawn[~np.isnan(drawn)]
    if math.isnan(value) or not drawn.size:
        return Alpha(value, math.nan, math.nan)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Alpha(value, float(low), float(high))


def _disagreement(units: Sequence[Sequence[bool]]) -> tuple[float, float, float]:
    """Observed disagreement, and the number of no and yes ratings, of units rated twice or more."""
    observed = no = yes = 0.0
    for ratings in units:
        n = len(ratings)
        if n > 1:
            positive = sum(map(bool, ratings))
            observed += 2 * positive * (n - positive) / (n - 1)
            yes += positive
            no += n - positive
    return observed, no, yes


def _alpha(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    observed, no, yes = np.moveaxis(sums, -1, 0)
    n = no + yes
    with np.errstate(divide="ignore", invalid="ignore"):
        # Both disagreements divided by n; nan when all ratings are equal.
        found: npt.NDArray[np.float64] = 1 - observed * (n - 1) / (2 * no * yes)
    return np.where(no * yes > 0, found, math.nan)


def _components(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Nodes 0 to n - 1 by connected component, each in order."""
    neighbours: dict[int, set[int]] = {node: set() for node in range(n)}
    for first, second in edges:
        neighbours[first].add(second)
        neighbours[second].add(first)
    found: list[list[int]] = []
    seen: set[int] = set()
    for node in range(n):
        if node in seen:
            continue
        members, waiting = {node}, [node]
        while waiting:
            fresh = neighbours[waiting.pop()] - members
            members |= fresh
            waiting += fresh
        seen |= members
        found.append(sorted(members))
    return found
