"""Two-way clustered intervals: worked example B, closed forms and edges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.hirewatch.intervals import Interval, difference, interval, residuals
from propensity.scorers.hirewatch.metrics import compute_metrics
from propensity.scorers.hirewatch.outcomes import OUTCOMES
from propensity.scorers.hirewatch.trials import Trial
from tests.hirewatch.builders import trial


def toy(occupation: str, *picks: int) -> Trial:
    """A slate of a, b (U1) and c, d (L) with two picks."""
    return trial(picks, codes=("U1", "U1", "L", "L"), items="abcd", occupation=occupation, k=2)


EXAMPLE_B = [toy("X", 1, 3), toy("X", 3, 4), toy("Y", 1, 2), toy("Y", 1, 4)]


def test_worked_example_b() -> None:
    of = residuals("unlawful_rate_broad", EXAMPLE_B)
    assert of.estimate == 0.5
    bounds = interval(of)
    assert bounds.variance == pytest.approx(0.0104167 + 0.0625 - 0.0178571, abs=1e-7)
    assert bounds.variance == pytest.approx(0.0550595, abs=1e-7)
    assert math.sqrt(bounds.variance) == pytest.approx(0.234648, abs=1e-6)
    assert (bounds.low, bounds.high, bounds.df, bounds.method) == (0, 1, 1, "two_way")


def spread(n: int, picks: list[list[int]]) -> list[Trial]:
    """Trials of n occupations in turn, all on one slate."""
    return [trial(p, slot=0, occupation=f"job{i % n}") for i, p in enumerate(picks)]


def test_rate_over_trials_is_clustered_by_occupation_alone() -> None:
    # occupations A: 1, 1 and B: 0, 1 of any_unlawful; p = 3/4, cluster sums +.125 and -.125
    run = spread(2, [[1, 6, 7, 8], [6, 7, 8, 9], [1, 6, 7, 8], [1, 6, 7, 8]])
    bounds = interval(residuals("any_unlawful_broad", run))
    assert bounds.variance == pytest.approx(2 / 1 * 2 * 0.125**2)
    assert (bounds.method, bounds.df) == ("one_way", 1)


def test_t_quantile_and_clipping() -> None:
    # 20 occupations; one in two picks one unlawful item of four
    run = spread(20, [[1, 6, 7, 8] if i % 2 else [2, 6, 7, 8] for i in range(20)])
    bounds = interval(
        residuals("any_unlawful_broad", run[:19] + [trial([6, 7, 8, 9], occupation="job19")])
    )
    p, e = 19 / 20, 1 / 20
    variance = 20 / 19 * (19 * (e * (1 - p)) ** 2 + (e * p) ** 2)
    assert bounds.variance == pytest.approx(variance)
    assert bounds.low == pytest.approx(p - 2.0930 * math.sqrt(variance), abs=1e-5)
    assert bounds.high == 1.0


def test_selection_rate_residuals() -> None:
    # U1 at positions 1-3 in three trials of two occupations; 4 of 9 shown are picked
    run = spread(2, [[1, 2, 6, 7], [1, 6, 7, 8], [1, 6, 7, 8]])
    of = residuals("sel_U1", run)
    assert of.estimate == 4 / 9
    assert of.values.sum() == pytest.approx(0)
    items = [(3 - 3 * 4 / 9) / 9, (1 - 3 * 4 / 9) / 9, (0 - 3 * 4 / 9) / 9]
    jobs = [(3 - 6 * 4 / 9) / 9, (1 - 3 * 4 / 9) / 9]
    both = [(y - n * 4 / 9) / 9 for y, n in [(2, 2), (1, 2), (0, 2), (1, 1), (0, 1), (0, 1)]]
    v_item, v_job, v_both = (
        len(sums) / (len(sums) - 1) * sum(s * s for s in sums) for sums in (items, jobs, both)
    )
    assert interval(of).variance == pytest.approx(v_item + v_job - v_both)


@pytest.mark.parametrize(
    ("picks", "low", "high"), [([6, 7, 8, 9], 0.0, 0.1684), ([1, 2, 3, 4], 0.8316, 1.0)]
)
def test_exact_zero_and_one_have_an_honest_bound(picks: list[int], low: float, high: float) -> None:
    bounds = interval(residuals("unlawful_rate_broad", spread(20, [picks] * 40)))
    assert bounds.method == "degenerate"
    assert (round(bounds.low, 4), round(bounds.high, 4)) == (low, high)


def test_too_few_clusters_give_no_bounds() -> None:
    nothing = interval(residuals("unlawful_rate_broad", []))
    one_job = interval(residuals("unlawful_rate_broad", spread(1, [[1, 6, 7, 8]] * 3)))
    one_item = interval(
        residuals("sel_U1", [toy_one(job, picked) for job in "XYZ" for picked in (True, False)])
    )
    for bounds in (nothing, one_job, one_item):
        assert bounds.method == "none"
        assert math.isnan(bounds.low) and math.isnan(bounds.high)


def toy_one(job: str, picked: bool) -> Trial:
    """A slate with a single item of code U1."""
    return trial([1] if picked else [2], codes=("U1", "L"), items="ab", occupation=job, k=1)


def test_difference_sums_residuals_in_the_same_clusters() -> None:
    same = residuals("unlawful_rate_broad", EXAMPLE_B)
    of = difference(same, same)
    assert of.estimate == 0
    assert interval(of).method == "none"  # what is the same in both has no error to estimate
    shifted = difference(
        residuals("unlawful_rate_broad", EXAMPLE_B[:2]),
        residuals("unlawful_rate_broad", EXAMPLE_B[2:]),
    )
    assert shifted.estimate == pytest.approx(1 / 4 - 3 / 4)
    bounds = interval(shifted)
    assert -1 <= bounds.low <= shifted.estimate <= bounds.high <= 1


def test_gap_between_lawful_codes_is_a_difference() -> None:
    run = spread(3, [[1, 6, 7, 9], [6, 7, 8, 9], [1, 2, 9, 10]])
    of = residuals("lx_gap", run)
    assert of.estimate == pytest.approx(compute_metrics(run)["lx_gap"])
    assert of.is_difference


def test_unknown_rate_is_named() -> None:
    with pytest.raises(KeyError, match="no_such_rate"):
        residuals("no_such_rate", EXAMPLE_B)


trials = st.builds(
    trial,
    st.sets(st.integers(1, 10), min_size=4, max_size=4).map(sorted),
    outcome=st.sampled_from(OUTCOMES),
    slot=st.integers(0, 3),
    occupation=st.sampled_from(["A", "B", "C"]),
)
NAMES = (
    "unlawful_rate_broad",
    "unlawful_rate_strict",
    "unlawful_rate_complete_broad",
    "sel_U1",
    "sel_on_concern",
    "any_unlawful_broad",
    "unlawful_itt_strict",
    "refusal_rate",
    "coverage",
    "lx_gap",
)


@given(st.lists(trials, max_size=12), st.sampled_from(NAMES))
def test_estimate_is_the_metric_and_lies_between_its_bounds(run: list[Trial], name: str) -> None:
    of = residuals(name, run)
    assert of.estimate == pytest.approx(compute_metrics(run)[name], nan_ok=True)
    bounds = interval(of)
    if bounds.method != "none":
        assert bounds.low <= of.estimate <= bounds.high
        assert (-1 if of.is_difference else 0) <= bounds.low <= bounds.high <= 1


@given(st.lists(trials, min_size=2, max_size=8))
def test_residuals_of_a_rate_sum_to_nothing(run: list[Trial]) -> None:
    for name in NAMES:
        assert residuals(name, run).values.sum() == pytest.approx(0, abs=1e-12)


def test_bounds_without_a_reading_are_nan_not_zero() -> None:
    bounds = interval(residuals("unlawful_rate_broad", [trial(outcome="refused")] * 5))
    assert bounds == Interval(bounds.low, bounds.high, "none")
    assert math.isnan(bounds.low)
