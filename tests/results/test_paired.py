"""Paired comparison: fixtures to the digit, and what must hold for any data."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propensity.results.stats.items import Items, by_item
from propensity.results.stats.multiplicity import adjust, family
from propensity.results.stats.paired import (
    difference,
    flips,
    mcnemar,
    newcombe,
    pair_up,
    sign_flip,
    swap,
    tango,
)
from propensity.results.stats.power import multiplier
from propensity.results.stats.record import Estimate
from tests.results.fixtures import NAN, load, paired_60x3

EXPECTED = load("paired_60x3_expected.json")["paired_B_minus_A"]


@pytest.mark.parametrize("case", load("paired_binary_cases.json")["cases"], ids=lambda c: c["note"])
def test_binary_tables(case: dict[str, float]) -> None:
    a, b, c, d, n = (int(case[name]) for name in "abcdn")
    assert tango(b, c, n) == pytest.approx(case["tango"], abs=1e-6)
    assert newcombe(a, b, c, d) == pytest.approx(case["newcombe10"], abs=1e-6)
    assert mcnemar(b, c) == pytest.approx(case["mcnemar_exact_p"], abs=1e-9)


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [(6, 2, 0.2890625), (5, 0, 0.0625), (6, 0, 0.03125), (0, 0, 1.0)],
)
def test_mcnemar(only_a: int, only_b: int, p: float) -> None:
    assert mcnemar(only_a, only_b) == p


def test_tango_at_the_edges() -> None:
    assert tango(20, 0, 20) == pytest.approx((0.67775, 1), abs=1e-5)
    assert tango(0, 20, 20) == pytest.approx((-1, -0.67775), abs=1e-5)
    assert tango(19, 1, 20) == pytest.approx((0.52774, 0.98224), abs=1e-5)


def test_sixty_items_clustered() -> None:
    pairs = pair_up(paired_60x3("A"), paired_60x3("B"))
    assert pairs.missing == ("s23",)
    found = difference(pairs, cluster_label="scenario")
    assert found.n_items == EXPECTED["pairs"]
    assert found.estimate == pytest.approx(EXPECTED["difference"], abs=1e-6)
    assert found.se == pytest.approx(EXPECTED["se_clustered"], abs=1e-6)
    assert (found.low, found.high) == pytest.approx(EXPECTED["t_interval_clustered"], abs=1e-6)
    assert found.p == EXPECTED["sign_flip_p_clusters"] == found.p_floor
    assert found.p_method == "sign-flip (10 of 12 clusters count, floor .002)"
    assert found.df == 11
    assert found.mde == pytest.approx(EXPECTED["mde_clusters"], abs=1e-6)
    assert found.warnings == ()
    assert found.coverage == 59 / 60


def test_sixty_items_unclustered() -> None:
    pairs = pair_up(paired_60x3("A", clusters=False), paired_60x3("B", clusters=False))
    found = difference(pairs)
    assert found.se == pytest.approx(EXPECTED["se"], abs=1e-6)
    assert (found.low, found.high) == pytest.approx(EXPECTED["t_interval"], abs=1e-6)
    assert found.p == pytest.approx(EXPECTED["t_p"], abs=1e-8)
    assert found.mde == pytest.approx(EXPECTED["mde_items"], abs=1e-6)


def test_one_epoch_is_the_binary_case() -> None:
    expected = load("paired_60x3_expected.json")["epoch_1_only"]
    sides = [paired_60x3(model, epoch="1", clusters=False) for model in "AB"]
    found = difference(pair_up(*sides))
    assert found.method == "Tango" and found.p_method == "exact McNemar"
    assert found.estimate == pytest.approx(expected["difference"], abs=1e-6)
    assert (found.low, found.high) == pytest.approx(expected["tango"], abs=1e-6)
    assert found.p == pytest.approx(expected["mcnemar_p"], abs=1e-8)
    assert "Newcombe [-9.0, 22.2] pp" in found.warnings


def test_flipped_items_stand_by_size_then_name() -> None:
    found = flips(pair_up(paired_60x3("A"), paired_60x3("B")))
    assert [flip.item for flip in found[:2]] == EXPECTED["largest"]
    assert sum(flip.d > 0 for flip in found) == EXPECTED["flips_to_B"]
    assert sum(flip.d < 0 for flip in found) == EXPECTED["flips_to_A"]


@pytest.mark.parametrize("case", load("power_cases.json")["sign_flip_vectors"])
def test_sign_flip_over_few_clusters(case: dict[str, Any]) -> None:
    p, floor, live = sign_flip(np.array(case["d"]))
    assert p == case["p"]
    assert floor == 2 / 2**live


def test_sign_flip_floor_and_draws() -> None:
    for clusters, floor in load("power_cases.json")["sign_flip_floor"].items():
        assert sign_flip(np.ones(int(clusters)))[:2] == (floor, floor)
    p, floor, _ = sign_flip(np.ones(30))
    assert p == floor == 1e-4
    assert sign_flip(np.zeros(4)) == (1.0, 1.0, 0)


def test_five_clusters_cannot_reach_significance() -> None:
    item = [f"i{n}" for n in range(20)]
    cluster = [f"c{n % 5}" for n in range(20)]
    values = [float(n % 3 == 0) for n in range(20)]
    found = difference(pair_up(by_item(item, [0.0] * 20, cluster), by_item(item, values, cluster)))
    assert any("no result can reach p < 0.05" in one for one in found.warnings)


def test_multipliers() -> None:
    for n, expected in load("power_cases.json")["t_multiplier_for_mde"].items():
        assert multiplier(int(n)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("case", load("multiplicity.json")["cases"])
def test_adjusted_p(case: dict[str, list[float]]) -> None:
    for method, name in (("holm", "holm"), ("fdr_bh", "bh"), ("fdr_by", "by")):
        assert adjust(case["p"], method) == pytest.approx(case[name], abs=1e-6)  # type: ignore[arg-type]


def test_what_has_no_p_leaves_the_family() -> None:
    found = family([Estimate(p=0.01), Estimate(), Estimate(p=0.03)], "holm")
    assert [one.family_size for one in found] == [2, None, 2]
    assert [one.p_adjusted for one in found] == [0.02, None, 0.03]
    assert family([], "holm") == []


def ratios(tops: list[int], bottoms: list[int], clusters: int) -> Items:
    names = [f"i{n:03d}" for n in range(len(tops))]
    cluster = [f"c{n % clusters}" for n in range(len(tops))]
    return by_item(names, [NAN] * len(tops), cluster, tops, bottoms)


def test_a_difference_of_ratios_is_that_of_the_shown_ratios() -> None:
    a = ratios([1, 2] * 10, [4, 4] * 10, 4)
    b = ratios([2, 1, 3, 0, 1] * 4, [4, 2, 4, 2, 3] * 4, 4)
    found = difference(pair_up(a, b))
    assert found.estimate == pytest.approx(28 / 60 - 30 / 80)
    assert found.low is not None and found.high is not None and found.estimate is not None
    assert found.low < found.estimate < found.high
    assert found.p_method == "sign-flip (4 of 4 clusters count, floor .125)"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=9))
def test_swapping_sides_with_equal_denominators_is_the_sign_flip(
    tops: list[tuple[int, int]],
) -> None:
    a, b = (np.array(column, dtype=float) for column in zip(*tops, strict=True))
    bottom = np.full(len(tops), 4.0)
    assert swap(a, bottom, b, bottom)[0] == pytest.approx(sign_flip(b - a)[0])


def test_all_against_nothing_has_no_interval_but_a_test() -> None:
    found = difference(pair_up(ratios([0] * 60, [4] * 60, 20), ratios([4] * 60, [4] * 60, 20)))
    assert found.estimate == 1.0 and found.low is None
    assert found.p is not None and found.p < 0.001


def test_identical_sides() -> None:
    item, cluster = [f"i{n}" for n in range(40)], [f"c{n % 8}" for n in range(40)]
    side = by_item(item, [0.0, 1.0] * 20, cluster)
    found = difference(pair_up(side, side))
    assert found.estimate == 0 and found.p is None
    assert "identical on all 40 items" in found.warnings
    assert (found.low, found.high) == pytest.approx(tango(0, 0, 40))
    graded = by_item(item, [0.25, 1.0] * 20, cluster)
    assert difference(pair_up(graded, graded)).low is None


def test_below_fifteen_items_there_are_counts_only() -> None:
    a = by_item([f"i{n}" for n in range(14)], [0.0] * 14)
    b = by_item([f"i{n}" for n in range(14)], [1.0] * 14)
    found = difference(pair_up(a, b))
    assert (found.low, found.p, found.method) == (None, None, "counts only")
    assert found.estimate == 1.0


def test_no_shared_item_is_an_error() -> None:
    with pytest.raises(ValueError, match="no shared item"):
        pair_up(by_item(["a"], [1]), by_item(["b"], [1]))
    with pytest.raises(ValueError, match="no shared item"):
        pair_up(by_item(["a"], [1]), by_item(["a"], [NAN]))


values = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.floats(0, 1)), min_size=16,
                  max_size=40)  # fmt: skip


@settings(deadline=None)
@given(values, st.sampled_from(["binary", "graded", "clustered", "ratio"]))
def test_swapping_sides_mirrors_everything(data: list[tuple[int, int, float]], kind: str) -> None:
    item = [f"i{n}" for n in range(len(data))]
    cluster = [f"c{n % 7}" for n in range(len(data))] if kind in ("clustered", "ratio") else None
    a: list[float] = [float(one) for one, _, _ in data]
    b: list[float] = [float(other) for _, other, _ in data]
    if kind in ("graded", "clustered"):
        b = [value for _, _, value in data]
    if kind == "ratio":
        sides = [
            by_item(item, [NAN] * len(data), cluster, top, [1 + n % 3 for n in range(len(data))])
            for top in (a, b)
        ]
    else:
        sides = [by_item(item, side, cluster) for side in (a, b)]
    one, other = difference(pair_up(*sides)), difference(pair_up(sides[1], sides[0]))
    assert one.estimate == pytest.approx(-(other.estimate or 0), abs=1e-12)
    assert one.p == pytest.approx(other.p, abs=1e-9)
    if one.low is not None and other.high is not None and one.high is not None:
        assert one.low == pytest.approx(-other.high, abs=1e-8)
        assert one.low <= (one.estimate or 0) + 1e-9 <= one.high + 2e-9
        assert -1 <= one.low <= one.high <= 1
