"""On the official files every baseline comes out as published in the specification."""

from pathlib import Path

import pytest

from propensity.scorers.rpeval.records import LETTERS, Cardinality, Record
from propensity.tasks.rpeval.baselines import answers, balanced, cues, features, slots, telling
from propensity.tasks.rpeval.dataset import guesses_for
from propensity.tasks.rpeval.official import Memory, load
from tests.rpeval.builders import record

Figures = tuple[int, dict[str, int], int, int, float]


def loaded(folder: Path, memory: Memory, cardinality: Cardinality) -> list[Record]:
    records, _, checked = load(folder, memory, cardinality)
    assert checked
    return records


def reached(records: list[Record], name: str) -> Figures:
    """Right slots, right per letter, right in IA, full matches, balanced."""
    found = guesses_for(tuple(records))
    gold = "".join(one.gold for one in records)
    given = "".join(found[one.id][name] for one in records)
    hits = [a == b for a, b in zip(gold, given, strict=True)]
    per = {x: sum(hit for hit, one in zip(hits, gold, strict=True) if one == x) for x in LETTERS}
    ia = [one for one in records if one.group == "ia"]
    in_ia = sum(found[one.id][name].count("A") for one in ia)
    full = sum(found[one.id][name] == one.gold for one in records)
    return sum(hits), {str(x): n for x, n in per.items()}, in_ia, full, balanced(gold, given)


SINGLE: list[tuple[Memory, str, int, tuple[int, int, int]]] = [
    ("explicit", "always_a", 50, (50, 0, 0)),
    ("explicit", "always_b", 50, (0, 50, 0)),
    ("explicit", "always_c", 50, (0, 0, 50)),
    ("explicit", "keyword", 58, (50, 0, 8)),
    ("explicit", "person", 100, (50, 0, 50)),
    ("explicit", "nb_pref", 141, (47, 44, 50)),
    ("explicit", "nb_query", 101, (21, 30, 50)),
    ("implicit", "always_c", 50, (0, 0, 50)),
    ("implicit", "keyword", 53, (50, 0, 3)),
    ("implicit", "person", 50, (50, 0, 0)),
    ("implicit", "nb_pref", 109, (32, 35, 42)),
    ("implicit", "nb_query", 101, (21, 30, 50)),
]


@pytest.mark.parametrize(("memory", "name", "right", "per"), SINGLE)
def test_single(
    official: Path, memory: Memory, name: str, right: int, per: tuple[int, int, int]
) -> None:
    found = reached(loaded(official, memory, "single"), name)
    assert (found[0], tuple(found[1].values())) == (right, per)


MULTI: list[tuple[Memory, str, int, int, int, int, float]] = [
    # name, right of 803, right of 264 in IA, full of 150, full of 60 in IA, balanced
    ("explicit", "always_a", 641, 264, 60, 60, 0.3333),
    ("explicit", "always_b", 79, 0, 0, 0, 0.3333),
    ("explicit", "always_c", 83, 0, 0, 0, 0.3333),
    ("explicit", "keyword", 713, 261, 87, 57, 0.6609),
    ("explicit", "nb_pref", 742, 241, 94, 38, 0.9572),
    ("explicit", "nb_query", 87, 0, 0, 0, 0.3579),
    ("implicit", "always_a", 641, 264, 60, 60, 0.3333),
    ("implicit", "keyword", 633, 254, 53, 50, 0.3606),
    ("implicit", "nb_pref", 687, 250, 68, 48, 0.6272),
    ("implicit", "nb_query", 87, 0, 0, 0, 0.3579),
]


@pytest.mark.parametrize(("memory", "name", "right", "in_ia", "full", "full_ia", "even"), MULTI)
def test_multi(
    official: Path,
    memory: Memory,
    name: str,
    right: int,
    in_ia: int,
    full: int,
    full_ia: int,
    even: float,
) -> None:
    records = loaded(official, memory, "multi")
    found = reached(records, name)
    assert (found[0], found[2], found[3]) == (right, in_ia, full)
    assert found[4] == pytest.approx(even, abs=5e-5)
    guesses = guesses_for(tuple(records))
    ia = [one for one in records if one.group == "ia"]
    assert sum(guesses[one.id][name] == one.gold for one in ia) == full_ia


@pytest.mark.parametrize(
    ("memory", "cardinality", "share"),
    [
        ("explicit", "single", 46 / 150),
        ("implicit", "single", 61 / 150),
        ("explicit", "multi", 577 / 803),
        ("implicit", "multi", 473 / 803),
    ],
)
def test_similarity(official: Path, memory: Memory, cardinality: Cardinality, share: float) -> None:
    records = loaded(official, memory, cardinality)
    total = sum(len(one.gold) for one in records)
    assert reached(records, "similarity")[0] / total == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize(
    ("memory", "cardinality", "counts"),
    [
        ("explicit", "multi", {"A": 11, "B": 6, "C": 83}),
        ("explicit", "single", {"A": 0, "B": 4, "C": 8}),
        ("implicit", "multi", {"A": 17, "B": 2, "C": 9}),
    ],
)
def test_where_cue_words_stand(
    official: Path, memory: Memory, cardinality: Cardinality, counts: dict[str, int]
) -> None:
    holding = dict.fromkeys("ABC", 0)
    for slot in slots(loaded(official, memory, cardinality)):
        holding[slot.gold] += bool(cues(slot.memory, slot.language))
    assert holding == counts


def test_features_and_cues() -> None:
    assert features("我 喜欢", "zh") == ("我喜", "喜欢")
    assert features("It's Late, late", "en") == ("it's", "late", "late", "it's late", "late late")
    assert cues("He HATES it and can’t stand musty rooms; mustn't", "en") == [
        "hates",
        "can't stand",
    ]
    assert cues("极其敏感", "zh") == ["极其", "敏感"]


def test_one_fold_and_no_record_are_no_crash() -> None:
    (found,) = answers([record("AB")]).values()
    assert set(map(len, found.values())) == {2} and "person" not in found
    assert answers([]) == {}


def test_the_most_telling_words_come_first() -> None:
    known = [record("C", str(n), f"Query {n}") for n in range(4)]
    texts = ("The user never eats nuts.",)
    known = [one.model_copy(update={"memory": texts}) for one in known]
    known += [record("A", f"a{n}", f"Other {n}") for n in range(4)]
    token, letter, there, total = telling(slots(known))[0]
    assert (letter, there, total) == ("C", 4, 4) or (letter, there, total) == ("A", 4, 4)
    assert token not in ("user", "the")
