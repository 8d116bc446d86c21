"""What runs cost, and how many times as much one level of a factor costs as another."""

import json
from typing import Any

import pandas as pd
import pytest

from propensity.results.report.compare import Comparison, Request, compare_task
from propensity.results.report.select import CompareRefused
from propensity.results.store.tables import Frames
from tests.results.tables import Run, frames, series
from tests.results.test_text import shown


def with_cost(level: str, calls: int, right: float, n: int = 20, **more: Any) -> Run:
    tokens = {"tokens_in": 100 * calls, "tokens_out": 10 * calls, "working_time_s": 1.5 * calls}
    roles = {"subject": {"in": 100 * calls * n, "out": 10 * calls * n}}
    return Run(
        "m",
        series([right] * n),
        more={"factors": {"reasoner": level, "seed": 0}, "tokens_by_role": roles} | more,
        samples=tokens,
    )


def with_calls(made: Frames, by_eval: dict[str, int]) -> Frames:
    rows = made.scores.assign(key="target_calls", value=made.scores["eval_id"].map(by_eval))
    return Frames(**vars(made) | {"scores": pd.concat([made.scores, rows])})


def compared(*runs: Run, calls: dict[str, int] | None = None, **options: Any) -> Comparison:
    made = frames(*runs)
    if calls:
        made = with_calls(made, calls)
    return compare_task(made, made.runs, Request(**options))


TWO = (with_cost("none", 1, 0.0, n=22), with_cost("rp_reasoner", 3, 1.0))


def test_levels_of_a_factor_are_compared_with_what_they_cost() -> None:
    found = compared(*TWO, calls={"eval0": 1, "eval1": 3}, between="reasoner", intersect=True)
    (pair,) = found.pairs
    assert (pair.a, pair.b) == ("m reasoner=none", "m reasoner=rp_reasoner")
    assert pair.overall.estimate == pytest.approx(1.0)
    (ratio,) = found.cost_ratios
    assert (ratio.samples, ratio.calls, ratio.tokens_in) == (20, 3.0, 3.0)
    assert (ratio.tokens_out, ratio.seconds) == (3.0, 3.0)
    first, second = found.costs
    assert (first.samples, first.calls, first.tokens_in, first.seconds) == (22, 1.0, 100.0, 1.5)
    assert (second.calls, second.tokens_out, second.usd) == (3.0, 30.0, None)
    text = " ".join(shown(found).split())
    assert (
        "m reasoner=rp_reasoner to m reasoner=none, on 20 shared samples: "
        "calls x 3.00, tokens in x 3.00, tokens out x 3.00, time x 3.00" in text
    )
    json.dumps(found.document(), allow_nan=False)


def test_without_counted_calls_their_ratio_is_not_made_up() -> None:
    (ratio,) = compared(*TWO, between="reasoner", intersect=True).cost_ratios
    assert ratio.calls is None and ratio.tokens_in == 3.0
    assert "calls" not in shown(compared(*TWO, between="reasoner", intersect=True))


def test_other_factors_must_still_agree() -> None:
    other = with_cost("rp_reasoner", 3, 1.0, factors={"reasoner": "rp_reasoner", "seed": 1})
    with pytest.raises(CompareRefused, match="seed: 0"):
        compared(TWO[0], other, between="reasoner", intersect=True)


@pytest.mark.parametrize(
    ("between", "words"),
    [("reasonr", "no factor 'reasonr'; did you mean 'reasoner'"), ("seed", "all runs have seed=0")],
)
def test_a_factor_without_two_levels_is_refused(between: str, words: str) -> None:
    with pytest.raises(CompareRefused, match=words.replace("?", ".")):
        compared(*TWO, between=between)


def test_each_role_has_its_line_and_a_price_only_where_all_is_known() -> None:
    roles = {"grader": {"in": 400, "out": 40}, "subject": {"in": 2000, "out": 200}}
    found = compared(with_cost("none", 1, 0.0, tokens_by_role=roles, cost_usd=0.5))
    subject, grader = found.costs
    assert subject.role == "subject"
    assert subject.usd == pytest.approx(0.025)
    assert (grader.role, grader.tokens_in, grader.usd, grader.seconds) == ("grader", 20, None, None)


def test_subjects_that_called_no_model_have_no_cost() -> None:
    found = compared(Run("policy/x", series([1.0] * 20)))
    assert found.costs == () and "Cost" not in shown(found)


def test_runs_that_differ_in_one_factor_are_refused_with_the_way_to_compare_it() -> None:
    with pytest.raises(CompareRefused) as caught:
        compared(*TWO)
    assert caught.value.fix.endswith("Or compare its levels: --between reasoner.")


def test_samples_that_count_no_calls_do_not_lower_their_mean() -> None:
    made = frames(with_cost("none", 2, 1.0))
    scores = made.scores.assign(key="target_calls", value=2.0).iloc[:15]
    made = Frames(**vars(made) | {"scores": pd.concat([made.scores, scores])})
    (one,) = compare_task(made, made.runs, Request()).costs
    assert (one.samples, one.calls) == (20, 2.0)
