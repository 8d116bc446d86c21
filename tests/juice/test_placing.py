"""Which occurrence is meant, by a gold mark and by a prediction."""

from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.juice.location import Locator
from propensity.scorers.juice.placing import (
    Item,
    PlacedGroup,
    Prediction,
    place_gold,
    place_predictions,
)
from propensity.scorers.juice.records import Group, Mark
from tests.juice.builders import EXPLICIT

TEXT = "rice and rice\n\nsoup, rice\n\nno grain here"


def gold(*marks: tuple[str, str, tuple[int, ...]]) -> list[PlacedGroup]:
    """Place marks given as (group, span, paragraphs); equal groups are joined."""
    groups: dict[str, list[Mark]] = {}
    for group, span, paragraphs in marks:
        mark = Mark(span=span, paragraphs=paragraphs, label=EXPLICIT, finder="human")
        groups.setdefault(group, []).append(mark)
    records = [Group(id=name, labels=(EXPLICIT,), marks=tuple(of)) for name, of in groups.items()]
    return place_gold(Locator(TEXT), records)


def places(*items: Item) -> list[tuple[tuple[int, int] | None, bool]]:
    placed = place_predictions(Locator(TEXT), items)
    return [(one.location.span if one.location else None, one.moved) for one in placed]


def test_each_listed_paragraph_gives_a_location() -> None:
    (group,) = gold(("g", "rice", (0, 1, 2)))
    assert group.spans == ((0, 4), (21, 25))
    assert not group.marks[0].moved


def test_the_ith_group_takes_the_ith_occurrence_and_the_surplus_the_last() -> None:
    placed = gold(*((name, "rice", (0,)) for name in "abc"))
    assert [group.spans for group in placed] == [((0, 4),), ((9, 13),), ((9, 13),)]


def test_marks_of_one_group_mean_the_same_occurrence() -> None:
    placed = gold(("a", "rice", (0,)), ("a", "rice", (0,)), ("b", "rice", (0,)))
    assert [group.spans for group in placed] == [((0, 4), (0, 4)), ((9, 13),)]


def test_a_mark_outside_its_paragraph_is_searched_everywhere_and_flagged() -> None:
    for paragraphs in ((), (2,), (-1,), (7,)):
        (group,) = gold(("g", "soup", paragraphs))
        assert group.spans == ((15, 19),)
        assert group.marks[0].moved


def test_a_mark_that_is_nowhere_has_no_location() -> None:
    (group,) = gold(("g", "bread", (0,)))
    assert group.spans == ()
    assert group.marks[0].moved


def test_a_mark_with_a_blank_line_runs_over_paragraphs() -> None:
    (group,) = gold(("g", "rice\n\nsoup", (0,)))
    assert group.spans == ((9, 19),)
    assert not group.marks[0].moved


def test_a_stated_occurrence_is_taken() -> None:
    assert places(Item("rice", 0, 2), Item("rice", 1, 1)) == [((9, 13), False), ((21, 25), False)]


def test_repeats_take_the_next_occurrence_then_other_paragraphs_then_share() -> None:
    repeats = [Item("rice", 0)] * 4
    assert places(*repeats) == [
        ((0, 4), False),
        ((9, 13), False),
        ((21, 25), True),
        ((9, 13), False),
    ]


def test_a_repeat_passes_over_what_an_earlier_one_named() -> None:
    assert places(Item("rice", 0, 1), Item("rice", 0)) == [((0, 4), False), ((9, 13), False)]


def test_an_occurrence_out_of_range_is_searched_everywhere_and_flagged() -> None:
    for occurrence in (0, 3, 99):
        assert places(Item("rice", 0, occurrence)) == [((0, 4), True)]
    assert places(Item("rice", 0, 1), Item("rice", 0, 9)) == [((0, 4), False), ((9, 13), True)]


def test_a_wrong_or_missing_paragraph_is_searched_everywhere_and_flagged() -> None:
    for paragraph in (None, -1, 2, 99):
        assert places(Item("soup", paragraph)) == [((15, 19), True)]


def test_what_is_nowhere_or_without_text_is_kept_without_a_place() -> None:
    assert places(Item("bread", 0), Item("", 0), Item(" \n", 0)) == [(None, False)] * 3


def test_a_prediction_with_a_blank_line_starts_in_its_paragraph() -> None:
    assert places(Item("rice\n\nno", 1)) == [((21, 29), False)]


ITEMS = st.builds(
    Item,
    span=st.sampled_from(
        ["rice", "soup", "r", "e", "bread", " ", "rice\n\nsoup", "RICE", "no grain"]
    ),
    paragraph=st.one_of(st.none(), st.integers(-2, 4)),
    occurrence=st.one_of(st.none(), st.integers(-1, 4)),
)


@given(st.lists(ITEMS, max_size=30))
def test_nothing_is_dropped_and_offsets_slice_back(items: list[Item]) -> None:
    placed: list[Prediction] = place_predictions(Locator(TEXT), items)
    assert [one.item for one in placed] == items
    for one in placed:
        if one.location is not None:
            assert TEXT[slice(*one.location.span)] == one.item.span
        else:
            assert one.item.span not in TEXT or not one.item.span.strip()


@given(st.lists(ITEMS.map(lambda item: item._replace(occurrence=None)), max_size=12))
def test_an_earlier_prediction_never_moves_because_of_later_ones(items: list[Item]) -> None:
    locator = Locator(TEXT)
    whole = place_predictions(locator, items)
    assert place_predictions(locator, items[:5]) == whole[:5]
