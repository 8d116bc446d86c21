"""IoU in three units, assignment, and the curve."""

import itertools
import math

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.juice.location import Span
from propensity.scorers.juice.matching import (
    CURVE,
    Edge,
    Ruler,
    assign,
    characters,
    curve,
    merged,
    overlaps,
)
from propensity.scorers.juice.records import UNITS, Unit
from tests.juice.builders import spans_of

UNIT_CASES = [
    ("সে ভালো কাজ করে।", "ভালো কাজ", "ভালো", (4 / 8, 2 / 5, 1 / 2)),
    ("그는 김치찌개를 먹었다.", "김치찌개를 먹었다", "김치찌개", (4 / 9, 4 / 9, 1 / 2)),
    (
        "It is a state-of-the-art mosque.",
        "state-of-the-art mosque",
        "mosque",
        (6 / 23, 6 / 23, 1 / 8),
    ),
]


def span_in(text: str, part: str) -> Span:
    start = text.index(part)
    return Span(start, start + len(part))


@pytest.mark.parametrize(("text", "gold", "predicted", "expected"), UNIT_CASES)
def test_iou_in_code_points_graphemes_and_words(
    text: str, gold: str, predicted: str, expected: tuple[float, ...]
) -> None:
    for unit, iou in zip(UNITS, expected, strict=True):
        ruler = Ruler(text, unit)
        (edge,) = overlaps(
            [ruler.measure([span_in(text, gold)])], ruler.measure([span_in(text, predicted)])
        )
        assert edge.iou == pytest.approx(iou, abs=1e-12)


def test_graphemes_of_the_specifications_words() -> None:
    counts = {
        "সময়": 3,
        "ভালো": 2,
        "\U0001f389 Selamat! \U0001f468\u200d\U0001f469\u200d\U0001f467 datang": 19,
    }
    for text, expected in counts.items():
        (measured,) = Ruler(text, "grapheme").measure([Span(0, len(text))])
        assert measured == (0, expected)


@given(st.text(st.characters(), min_size=1, max_size=30), st.sampled_from(UNITS), st.data())
def test_a_measured_span_is_the_set_of_units_that_it_touches(
    text: str, unit: Unit, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    if text[start].isspace() or text[end - 1].isspace():
        return
    patterns = {"codepoint": r"(?s).", "grapheme": r"\X", "word": r"[\p{L}\p{M}\p{N}_]+|\S"}
    units = [match.span() for match in regex.finditer(patterns[unit], text)]
    touched = {place for place, (a, b) in enumerate(units) if a < end and start < b}
    (measured,) = Ruler(text, unit).measure([Span(start, end)])
    assert set(range(*measured)) == touched


def test_the_best_member_counts() -> None:
    groups = spans_of([[(10, 14), (10, 20)]])
    assert overlaps(groups, [Span(10, 16)]) == [Edge(0, 0, 4 / 6)]


def test_case_nine_of_the_specification_needs_more_than_greed() -> None:
    edges = overlaps(spans_of([[(0, 11)], [(3, 14)]]), [Span(2, 14), Span(6, 16)])
    assert [round(edge.iou, 4) for edge in edges] == [0.6429, 0.3125, 0.9167, 0.6154]
    assert [edge[:2] for edge in assign(edges, 0.5)] == [(0, 0), (1, 1)]


def test_pairs_come_before_the_sum_of_iou() -> None:
    # one pair of .9 is worth less than two of .5
    edges = [Edge(0, 0, 0.5), Edge(1, 0, 0.9), Edge(1, 1, 0.5)]
    assert [edge[:2] for edge in assign(edges, 0.5)] == [(0, 0), (1, 1)]
    # of equally many pairs, the larger sum
    edges = [Edge(0, 0, 0.6), Edge(0, 1, 0.9), Edge(1, 0, 0.8), Edge(1, 1, 0.7)]
    assert [edge[:2] for edge in assign(edges, 0.5)] == [(0, 1), (1, 0)]


def test_a_threshold_is_met_by_its_own_value() -> None:
    assert len(assign([Edge(0, 0, 3 / 10)], 0.3)) == 1
    assert len(assign([Edge(0, 0, 0.1 + 0.2)], 0.3)) == 1
    assert len(assign([Edge(0, 0, 0.5 - 1e-9)], 0.5)) == 0
    assert curve([Edge(0, 0, 1.0)]) == [1] * 10
    assert CURVE == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


SPANS = st.tuples(st.integers(0, 20), st.integers(1, 12)).map(lambda p: Span(p[0], p[0] + p[1]))
GROUPS = st.lists(st.lists(SPANS, min_size=1, max_size=2), max_size=4)


def best_by_trying(edges: list[Edge], threshold: float) -> tuple[int, float]:
    """Most pairs, then largest sum, by trying all subsets."""
    allowed = [edge for edge in edges if edge.iou >= threshold - 1e-12]
    best = (0, 0.0)
    for size in range(1, 5):
        for chosen in itertools.combinations(allowed, size):
            rows, columns = {e.row for e in chosen}, {e.column for e in chosen}
            if len(rows) == len(columns) == size:
                best = max(best, (size, math.fsum(e.iou for e in chosen)))
    return best


@given(GROUPS, st.lists(SPANS, max_size=4), st.sampled_from(CURVE))
def test_assignment_is_the_best_of_all(
    groups: list[list[Span]], predictions: list[Span], threshold: float
) -> None:
    edges = overlaps(groups, predictions)
    pairs = assign(edges, threshold)
    size, total = best_by_trying(edges, threshold)
    assert len({e.row for e in pairs}) == len({e.column for e in pairs}) == len(pairs) == size
    assert math.fsum(edge.iou for edge in pairs) == pytest.approx(total)
    counts = curve(edges)
    assert counts == [len(assign(edges, t)) for t in CURVE]
    assert counts == sorted(counts, reverse=True)


@given(GROUPS, st.lists(SPANS, max_size=5))
def test_overlaps_agree_with_sets(groups: list[list[Span]], predictions: list[Span]) -> None:
    expected = {}
    for row, members in enumerate(groups):
        for column, one in enumerate(predictions):
            ious = [
                len(set(range(*one)) & set(range(*other)))
                / len(set(range(*one)) | set(range(*other)))
                for other in members
            ]
            if max(ious) > 0:
                expected[row, column] = max(ious)
    edges = overlaps(groups, predictions)
    assert [edge[:2] for edge in edges] == sorted(expected)
    assert {edge[:2]: edge.iou for edge in edges} == pytest.approx(expected)


@given(st.lists(SPANS, max_size=6), st.lists(SPANS, max_size=6))
def test_characters_are_counted_as_sets(gold: list[Span], predicted: list[Span]) -> None:
    in_gold = {at for span in gold for at in range(*span)}
    in_predicted = {at for span in predicted for at in range(*span)}
    expected = len(in_gold & in_predicted), len(in_predicted), len(in_gold)
    assert characters(gold, predicted) == expected
    assert {at for span in merged(gold) for at in range(*span)} == in_gold


def test_many_pairs_are_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = spans_of([[(at, at + 9), (at + 1, at + 4)] for at in range(0, 60, 3)])
    predictions = [Span(at, at + 7) for at in range(0, 60, 2)]
    expected = overlaps(groups, predictions)
    monkeypatch.setattr("propensity.scorers.juice.matching._CELLS", 100)
    assert overlaps(groups, predictions) == expected
