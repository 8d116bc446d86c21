"""Pooled scores, their intervals, and what epochs do to them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.scorer import Score
from pytest_inspect_evals.metrics import assert_agreeing_epochs_change_nothing, run_metrics

from propensity.scorers.juice.comparison import Values
from propensity.scorers.juice.intervals import (
    DRAWS,
    bounds,
    difference_bounds,
    draws,
    score,
)
from propensity.scorers.juice.metrics import Row, compute_metrics, logged_names
from propensity.scorers.juice.scorer import juice_metrics
from tests.juice.builders import FIXTURE, X_TEXT, Y_TEXT, Z_TEXT, answer, scored


def good(**extra: float) -> Values:
    """Four right of four predictions, four groups."""
    return scored(FIXTURE[0], answer(X_TEXT, (0, 10), (20, 30), (60, 64), (80, 100))) | extra


def poor(**extra: float) -> Values:
    """One right of two predictions, two groups."""
    return scored(FIXTURE[1], answer(Y_TEXT, (5, 25), (50, 55))) | extra


def row(values: Values, cluster: str = "q", **factors: str) -> Row:
    return Row(values, cluster, factors)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 0, 0, 0), (math.nan, math.nan, math.nan)),
        ((0, 0, 0, 5), (math.nan, 0, 0)),
        ((0, 5, 0, 0), (0, math.nan, 0)),
        ((0, 5, 0, 5), (0, 0, 0)),
        ((1, 4, 1, 2), (0.25, 0.5, 1 / 3)),
        ((3, 4, 6, 6), (0.75, 1, 6 / 7)),
    ],
)
def test_empty_denominators_are_nan_and_f1_is_nan_only_without_anything(
    counts: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    assert score(np.array(counts)).tolist() == pytest.approx(expected, nan_ok=True)


def test_scores_are_pooled_and_not_averaged() -> None:
    values = compute_metrics([row(good()), row(poor())])
    # precision 5/6, recall 5/6; the mean of the two F1 would be .75
    assert values["precision"] == values["recall"] == values["f1"] == pytest.approx(5 / 6)


def test_slices_hold_their_own_responses() -> None:
    rows = [
        row(good(), pair="korea-ko", country="korea", language="ko", response_model="Qwen3-30B/x"),
        row(poor(), pair="us-en", country="us", language="en", response_model="m"),
    ]
    values = compute_metrics(rows)
    assert (values["f1_korea_ko"], values["f1_us_en"]) == (1, 0.5)
    assert (values["f1_country_us"], values["recall_language_ko"]) == (0.5, 1)
    assert values["precision_response_model_Qwen3_30B_x"] == 1
    assert "f1_self" not in values
    own = compute_metrics([row(good(self=1.0)), row(poor(self=0.0))])
    assert own["f1_self"] == 1


def test_recall_by_slice_of_groups() -> None:
    values = compute_metrics([row(good()), row(poor())])
    # Inaccuracy: X3 found, Y1 missed; Connotation: Y1 only
    assert (values["recall_inaccuracy"], values["recall_connotation"]) == (0.5, 0)
    # thin: X0, X3, Y1; thick: X1, X2, Y0, Y1
    assert (values["recall_thin"], values["recall_thick"]) == (2 / 3, 3 / 4)
    assert math.isnan(values["recall_implicit"]) and math.isnan(values["recall_human"])
    assert values["two_labels"] == 1


def test_unreadable_answers_are_shown_and_taken_out_once_more() -> None:
    silent = scored(FIXTURE[1], answer(Y_TEXT)) | {"invalid": 1.0, "valid_gold": 0.0}
    values = compute_metrics([row(good()), row(silent)])
    assert values["invalid_rate"] == 0.5
    assert (values["recall"], values["recall_valid"]) == (4 / 6, 1)
    assert "f1_valid" not in compute_metrics([row(good())])


def test_nothing_scored_is_nan_without_bounds() -> None:
    values = compute_metrics([])
    assert set(values) >= {"f1", "f1_low", "precision", "recall"}
    assert all(math.isnan(value) for value in values.values())


def test_the_log_shows_a_readable_number_of_metrics_with_the_headline_first() -> None:
    pairs = ("us-en", "korea-ko", "korea-en", "indonesia-id", "indonesia-en", "bangladesh-bn")
    rows = [row(good(), pair, pair=pair) for pair in (*pairs, "bangladesh-en")]
    values = compute_metrics(rows)
    names = logged_names(values)
    assert names[0] == "f1"
    assert len(names) <= 64 < len(values)
    assert len([name for name in names if name.startswith("f1_") and name[-3] == "_"]) >= 7
    assert "recall_human" not in names


CLUSTERS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(0, 5), st.integers(5, 9), st.integers(0, 5), st.integers(5, 9)).map(
        np.array
    ),
    min_size=2,
)


@given(CLUSTERS)
def test_precision_and_recall_are_bounded_by_those_of_single_clusters(
    clusters: dict[str, np.ndarray],
) -> None:
    singles = score(np.array(list(clusters.values()))).T[:2]
    for (low, high), column in zip(bounds(clusters)[:2], singles, strict=True):
        assert column.min() - 1e-9 <= low <= high <= column.max() + 1e-9


def test_the_bootstrap_is_fixed_and_draws_clusters_not_responses() -> None:
    assert draws(range(5)).shape == (DRAWS, 5)
    assert (draws(range(5)).sum(axis=1) == 5).all()
    assert (draws(range(5)) == draws("abcde")).all()
    one = compute_metrics([row(good(), "a"), row(poor(), "a")])
    assert math.isnan(one["f1_low"]) and math.isnan(one["f1_high"])
    two = compute_metrics([row(good(), "a"), row(poor(), "b")])
    assert (two["f1_low"], two["f1_high"]) == (0.5, 1)


def test_equal_judges_differ_by_nothing_on_the_same_draws() -> None:
    rng = np.random.default_rng(3)
    clusters = {str(n): rng.integers(1, 9, 4).astype(float) for n in range(12)}
    assert difference_bounds(clusters, clusters) == [(0, 0)] * 3
    better = {name: counts + [1, 1, 1, 0] for name, counts in clusters.items()}
    low, high = difference_bounds(better, clusters)[1]
    assert 0 < low <= high
    with pytest.raises(ValueError, match="same query clusters"):
        difference_bounds(clusters, dict(list(clusters.items())[1:]))


def as_scores(values: Sequence[Values]) -> list[Score]:
    return [Score(value={**one, "self": 0.0}) for one in values]


METADATA = [
    {"cluster_id": "korea/story/a/1", "factors": {"pair": "korea-ko"}},
    {"cluster_id": "us/idea/b/2", "factors": {"pair": "us-en"}},
    {"cluster_id": "us/idea/b/3", "factors": {"pair": "us-en"}},
]


def test_agreeing_epochs_change_nothing() -> None:
    silent = scored(FIXTURE[2], answer(Z_TEXT))
    assert_agreeing_epochs_change_nothing(
        [juice_metrics()], as_scores([good(), poor(), silent]), metadata=METADATA
    )


def test_disagreeing_epochs_are_pooled() -> None:
    silent = scored(FIXTURE[0], answer(X_TEXT))
    values = run_metrics(
        [juice_metrics()],
        [as_scores([good(), silent]), as_scores([poor(), poor()])],
        metadata=METADATA[:2],
    )
    # means over epochs: right 2 + 1, predictions 2 + 2, groups 4 + 2
    assert values["precision"] == 3 / 4
    assert values["recall"] == 3 / 6
    assert values["f1"] == pytest.approx(6 / 10)
    assert values["f1_korea_ko"] == pytest.approx(4 / 6)
    assert values["f1_us_en"] == 0.5


def test_unscored_epochs_leave_the_others() -> None:
    values = run_metrics(
        [juice_metrics()],
        [
            [*as_scores([good()]), Score.unscored(reason="scoring_failed")],
            as_scores([poor(), poor()]),
        ],
        metadata=METADATA[:2],
    )
    assert values["f1"] == pytest.approx(5 / 6)
