"""Rank fusion: the specification's table, its tie-breaks, and how often ties occur."""

from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.rpeval.fusion import break_tie, fuse, ranking, read_rankings
from propensity.scorers.rpeval.records import Scoring
from propensity.tasks.rpeval.reasoner import Rankings, fuse_all, parse

ALL = ["".join(order) for order in permutations("ABC")]


@pytest.mark.parametrize(
    ("rankings", "letters", "method"),
    [
        (("BAC", "BCA", "CAB"), "B", "score"),
        (("ABC", "CBA", "BAC"), "B", "score"),
        (("ABC", "ABC", "BCA"), "A", "first_places"),
        (("ABC", "BCA", "CAB"), "ABC", "tie"),
        (("ABC", "CBA"), "AC", "tie"),
        (("BCA", "CAB"), "C", "score"),
    ],
)
def test_the_table_of_fusions(rankings: tuple[str, ...], letters: str, method: str) -> None:
    found = fuse(rankings, "demo-1", 0)
    assert found.method == method and found.letter in letters


@pytest.mark.parametrize(
    ("name", "slot", "expected"),
    [
        ("demo-1", 0, "AAB"),
        ("demo-1", 1, "AAC"),
        ("demo-1", 2, "BCC"),
        ("demo-2", 0, "BCB"),
        ("demo-3", 2, "AAA"),
    ],
)
def test_ties_are_broken_by_seed(name: str, slot: int, expected: str) -> None:
    found = [break_tie(those, name, slot, 0) for those in ("AB", "AC", "ABC")]
    assert "".join(found) == expected
    assert break_tie("CBA", name, slot, 0) == expected[2]


def test_how_often_ties_occur() -> None:
    pairs = [fuse(pair, "x", 0).method for pair in product(ALL, repeat=2)]
    assert (len(pairs), pairs.count("tie")) == (36, 12)
    triples = [fuse(triple, "x", 0).method for triple in product(ALL, repeat=3)]
    counts = (len(triples), triples.count("first_places"), triples.count("tie"))
    assert counts == (216, 18, 12)


@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=5), st.integers(0, 9))
def test_the_order_of_modules_changes_nothing(rankings: list[str], seed: int) -> None:
    assert fuse(rankings, "s", 1, seed) == fuse(rankings[::-1], "s", 1, seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "ABC"),
        ("B > A > C", "BAC"),
        ("C-A,B", "CAB"),
        ("AAB", None),
        ("AB", None),
        ("ABCD", None),
        ("first A then B", None),
        (None, None),
    ],
)
def test_a_ranking_is_a_permutation(text: object, expected: str | None) -> None:
    assert ranking(text) == expected


def test_rankings_come_as_list_or_in_the_published_form() -> None:
    assert read_rankings('{"rankings": ["ABC", "BAC"]}') == ["ABC", "BAC"]
    assert read_rankings('{"rankings": "ABC|BAC"}') == ["ABC", "BAC"]
    assert read_rankings("I think:\nABC|BAC") == ["ABC", "BAC"]
    assert read_rankings('{"ranking": "CAB"}') == ["CAB"]
    assert read_rankings("none of this") is None
    assert read_rankings("") is None
    assert parse('{"rankings": ["ABC", 3, "x", "CBA"]}', 3) == Rankings(("ABC", None, None), 1)


@given(st.text(st.characters()), st.integers(1, 4))
def test_any_text_gives_a_slot_per_preference(text: str, size: int) -> None:
    assert len(parse(text, size).slots) == size


MULTI = Scoring(cardinality="multi")


def test_ours_leaves_out_what_is_missing() -> None:
    modules = [Rankings(("BAC", None, None)), Rankings(("BCA", "CAB", None))]
    found = fuse_all(modules, "s", MULTI, 0)
    assert found is not None
    assert [one.letter if one else "?" for one in found] == ["B", "C", "?"]


def test_published_fills_in_ignore() -> None:
    single = Scoring(mode="published")
    none = [Rankings((None,), readable=False)] * 3
    found = fuse_all(none, "s", single, 0)
    assert found is not None and found[0] is not None and found[0].letter == "A"
    how = MULTI.model_copy(update={"mode": "published"})
    partly = [Rankings((None, None), readable=False), Rankings(("CAB", None))]
    found = fuse_all(partly, "s", how, 0)
    assert found is not None
    assert [one.letter if one else None for one in found] == ["C", "A"]
    assert fuse_all([partly[0], partly[0]], "s", how, 0) is None
    written = how.model_copy(update={"protocol": "generative"})
    found = fuse_all([partly[0], partly[0]], "s", written, 0)
    assert found is not None and [one and one.letter for one in found] == ["A", "A"]
