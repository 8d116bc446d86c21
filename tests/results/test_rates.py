"""Single rates: epoch first, honest intervals, and never a zero for what is missing."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from inspect_ai.scorer import SampleScore, Score, ci_wilson

from propensity.results.stats.items import by_item
from propensity.results.stats.rates import (
    clopper_pearson,
    mean_variance,
    quantile,
    range_if_missing,
    rate,
    residual_error,
    wilson,
)
from propensity.results.stats.record import Estimate
from tests.results.fixtures import NAN, load, paired_60x3

Z = 1.959963984540054


@pytest.mark.parametrize(
    "case", load("ic_counts.json")["per_model"], ids=lambda case: case["model"]
)
def test_published_counts(case: dict[str, float]) -> None:
    assert wilson(case["rate"], case["n"], Z) == pytest.approx(case["wilson"], abs=1e-6)
    assert clopper_pearson(case["k"], case["n"]) == pytest.approx(case["clopper_pearson"], abs=1e-6)


@pytest.mark.parametrize("model", ["A", "B"])
def test_two_models_of_sixty_items(model: str) -> None:
    expected = load("paired_60x3_expected.json")["single"][model]
    items = paired_60x3(model)
    for population, name in (("items", "items"), ("clusters", "clusters")):
        found = rate(items, population=population)  # type: ignore[arg-type]
        assert found.estimate == pytest.approx(expected["rate"], abs=1e-6)
        assert found.se == pytest.approx(expected[f"se_{name}"], abs=1e-6)
        assert (found.low, found.high) == pytest.approx(expected[f"wilson_{name}"], abs=1e-6)
        assert found.n_eff == pytest.approx(expected[f"n_eff_{name}"], abs=1e-4)
    bank = rate(items, population="bank")
    assert bank.se == pytest.approx(expected["se_bank"], abs=1e-6)
    default = rate(items, cluster_label="scenario")
    assert default.population == "scenarios like these (12 observed)"
    assert (default.n_items, default.n_rows) == (expected["items"], expected["rows_scored"])
    assert default.df == 11


def test_missing_rows_give_the_worst_case_range() -> None:
    item = [f"s{index // 3}" for index in range(180)]
    value = [1.0] * 62 + [0.0] * 116 + [NAN] * 2
    found = range_if_missing(item, value, [0.0] * 180, [1.0] * 180)
    assert found == pytest.approx((62 / 180, 64 / 180))
    assert range_if_missing(["a"], [1.0], [0.0], [1.0]) is None


def test_the_clustered_error_has_the_small_sample_factor() -> None:
    items = by_item(list("abcdef"), [1, 1, 0, 0, 1, 0], ["0", "0", "1", "1", "2", "2"])
    variance, df = mean_variance(items, "clusters")
    assert variance is not None and df == 2
    assert math.sqrt(variance) == pytest.approx(0.2886751346)
    independent, _ = mean_variance(items, "items")
    assert independent is not None and math.sqrt(independent) == pytest.approx(0.2236067977)


def test_counts_clustered_by_model() -> None:
    item, value, cluster = [], [], []
    for case in load("ic_counts.json")["per_model"]:
        for index in range(case["n"]):
            item.append(f"{case['model']} {index}")
            value.append(float(index < case["k"]))
            cluster.append(case["model"])
    found = rate(by_item(item, value, cluster))
    assert found.se == pytest.approx(0.0206997, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((0.02084, 0.12031), abs=1e-5)
    assert found.n_eff == pytest.approx(113.4, abs=0.05)


def test_a_pooled_ratio_is_not_the_mean_of_ratios() -> None:
    top, bottom = [2, 3, 1, 0, 4, 2], [4, 3, 3, 2, 5, 3]
    few = rate(by_item(list("abcdef"), [NAN] * 6, None, top, bottom))
    assert few.estimate == pytest.approx(0.6)
    assert few.method == "Clopper-Pearson"
    items = by_item(list("abcdef"), [NAN] * 6, None, top, bottom)
    residual = (np.array(top) - 0.6 * np.array(bottom)) / 20
    assert residual_error(residual, items) == pytest.approx(0.1189957982)
    thrice = by_item(
        [f"{name}{copy}" for name in "abcdef" for copy in range(3)],
        [NAN] * 18,
        [name for name in "abcdef" for copy in range(3)],
        np.repeat(top, 3),
        np.repeat(bottom, 3),
    )
    found = rate(thrice)
    assert found.se == pytest.approx(0.1189957982)
    half = quantile(5) * 0.1189957982
    assert (found.low, found.high) == pytest.approx((0.6 - half, 0.6 + half))
    assert found.df == 5


@pytest.mark.parametrize("clusters", [None, "twelve"])
def test_none_at_all_has_two_upper_bounds(clusters: str | None) -> None:
    item = [f"i{index // 3:02d}" for index in range(168)]
    cluster = None if clusters is None else [f"c{index // 24}" for index in range(168)]
    found = rate(by_item(item, [0.0] * 168, cluster))
    assert found.estimate == 0
    wide = 0.0642 if cluster is None else 0.3543
    assert found.low == 0 and found.high == pytest.approx(wide, abs=1e-4)
    (warning,) = found.warnings
    assert "2.24 % if repeats are independent" in warning
    assert f"{100 * wide:.2f} % if they are copies" in warning


def test_one_epoch_without_clusters_is_plain_wilson() -> None:
    found = rate(by_item([f"i{n}" for n in range(168)], [float(n < 29) for n in range(168)]))
    assert (found.low, found.high) == pytest.approx(wilson(29 / 168, 168, Z))
    assert found.df is None
    none = rate(by_item([f"i{n}" for n in range(168)], [0.0] * 168))
    assert none.high == pytest.approx(0.02235466835)


@given(
    st.lists(st.integers(0, 1), min_size=20, max_size=60),
    st.integers(2, 9),
)
def test_equal_to_inspect_where_every_item_has_as_many_epochs(
    values: list[int], clusters: int
) -> None:
    names = [f"c{index % clusters}" for index in range(len(values))]
    found = rate(by_item([f"i{n}" for n in range(len(values))], values, names))
    assume(found.se is not None and found.se > 1e-9)
    scores = [
        SampleScore(score=Score(value=value), sample_metadata={"cluster": name})
        for value, name in zip(values, names, strict=True)
    ]
    oracle = ci_wilson(cluster="cluster")(scores)  # type: ignore[arg-type]
    assert (found.low, found.high) == pytest.approx((oracle["lower"], oracle["upper"]))  # type: ignore[index, call-overload]


def test_fewer_than_fifteen_items_give_the_exact_interval_only() -> None:
    found = rate(by_item([f"i{n}" for n in range(5)], [0.0] * 5))
    assert found.method == "Clopper-Pearson" and found.se is None
    assert (found.low, found.high) == pytest.approx((0, 0.5218), abs=1e-4)
    graded = rate(by_item([f"i{n}" for n in range(5)], [3.0] * 5))
    assert (graded.estimate, graded.low, graded.method) == (3.0, None, "mean only")


def test_exploratory_between_fifteen_and_thirty() -> None:
    def warnings(n: int) -> tuple[str, ...]:
        return rate(by_item([f"i{k}" for k in range(n)], [float(k % 2) for k in range(n)])).warnings

    assert any("exploratory" in one for one in warnings(29))
    assert warnings(30) == ()


def test_values_beyond_one_get_a_mean_with_t() -> None:
    values = [float(n % 4) for n in range(40)]
    found = rate(by_item([f"i{n}" for n in range(40)], values))
    se = float(np.std(values, ddof=1)) / math.sqrt(40)
    assert found.estimate == pytest.approx(1.5)
    assert found.high == pytest.approx(1.5 + quantile(39) * se)


@pytest.mark.parametrize(
    ("items", "method"),
    [
        (by_item([], []), "no scored row"),
        (by_item(["a"], [NAN]), "no scored row"),
        (by_item(["a"] * 2, [NAN] * 2, None, [0, 0], [0, 0]), "every denominator is 0"),
        (by_item([f"i{n}" for n in range(20)], [1.0, 0.0] * 10, ["c"] * 20), "one cluster"),
    ],
)
def test_what_cannot_be_said_is_not_said(items: object, method: str) -> None:
    found = rate(items)  # type: ignore[arg-type]
    assert method in found.method
    assert found.low is None and found.high is None


def test_the_bank_needs_two_epochs() -> None:
    items = by_item([f"i{n}" for n in range(20)], [1.0, 0.0] * 10)
    assert "one epoch only" in rate(items, population="bank").method


def test_no_variation_between_clusters_is_not_certainty() -> None:
    item = [f"i{n}" for n in range(40)]
    cluster = [f"c{n // 4}" for n in range(40)]
    means = rate(by_item(item, [1.0, 0.0, 0.0, 0.0] * 10, cluster))
    ratios = rate(by_item(item, [NAN] * 40, cluster, [1, 0, 0, 0] * 10, [1] * 40))
    for found in (means, ratios):
        assert found.n_eff == 10
        assert found.low is not None and found.high is not None
        assert found.high - found.low > 0.3


def test_rows_are_never_pooled() -> None:
    items = by_item(["a", "a", "a", "b"], [1, 1, 1, 0])
    assert items.mean.tolist() == [1.0, 0.0]
    assert rate(items).estimate == 0.5


def test_an_item_in_two_clusters_is_an_error() -> None:
    with pytest.raises(ValueError, match="item a lies in two clusters: x and y"):
        by_item(["a", "a"], [1, 0], ["x", "y"])


def test_an_infinite_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="infinite"):
        by_item(["a"], [math.inf])


rows = st.lists(
    st.tuples(
        st.sampled_from([f"i{n}" for n in range(25)]),
        st.one_of(st.just(NAN), st.integers(0, 1).map(float), st.floats(0, 1)),
    ),
    max_size=80,
)


def _rate(data: list[tuple[str, float]], *, clustered: bool) -> Estimate:
    cluster = [f"c{int(item[1:]) % 6}" for item, _ in data] if clustered else None
    return rate(by_item([item for item, _ in data], [value for _, value in data], cluster))


@given(rows, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(
    data: list[tuple[str, float]], clustered: bool, order: Random
) -> None:
    shuffled = list(data)
    order.shuffle(shuffled)
    one, other = _rate(data, clustered=clustered), _rate(shuffled, clustered=clustered)
    for name in ("estimate", "low", "high"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


@given(rows, st.booleans())
def test_a_rate_lies_in_its_interval_and_is_never_certain(
    data: list[tuple[str, float]], clustered: bool
) -> None:
    found = _rate(data, clustered=clustered)
    if found.estimate is not None and found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.estimate + 1e-9
        assert found.estimate - 1e-9 <= found.high <= 1
        assert found.high - found.low > 1e-6


@given(rows)
def test_repeating_every_epoch_changes_no_rate(data: list[tuple[str, float]]) -> None:
    assert _rate(data * 2, clustered=False).estimate == pytest.approx(
        _rate(data, clustered=False).estimate
    )


def test_a_record_holds_no_nan() -> None:
    with pytest.raises(ValueError, match="low"):
        Estimate(low=NAN)
