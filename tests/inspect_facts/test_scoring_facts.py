"""Behaviours of inspect-ai that our scorers and metrics are built on (an upgrade may move them)."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from inspect_ai import Epochs, Task, task_with
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalScore
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    accuracy,
    ci,
    ci_wilson,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from tests.support import run

Answer = Callable[[TaskState], Score]


@solver
def silent() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return state

    return solve


def task_of(samples: int, answer: Answer, metrics: Any = None, **options: Any) -> Task:
    """A task whose scorer says what `answer` says."""

    @scorer(metrics=metrics or [mean()])
    def told() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            return answer(state)

        return score

    rows = [
        Sample("q", id=f"s{index}", metadata={"n": index, "half": f"h{index % 2}"})
        for index in range(samples)
    ]
    return Task(dataset=rows, solver=silent(), scorer=told(), **options)


def scores(log: EvalLog) -> list[EvalScore]:
    assert log.status == "success" and log.results is not None, log.error
    return log.results.scores


def value(score: EvalScore, name: str) -> float:
    return float(score.metrics[name].value)


def by_sample(*values: Value) -> Answer:
    return lambda state: Score(value=values[state.metadata["n"]])


def test_a_label_as_value_becomes_zero() -> None:
    log = run(task_of(2, by_sample("harmful", 1.0)))
    assert value(scores(log)[0], "mean") == 0.5, "so labels never go into a value"


def test_none_under_a_key_counts_as_zero() -> None:
    metrics: Any = {"a": [mean()]}
    answer = by_sample({"a": 1.0}, cast(Value, {"a": None}))
    log = run(task_of(2, answer, metrics))
    assert value(scores(log)[0], "mean") == 0.5, "so unknown is nan"


def test_nan_under_a_key_is_unscored_for_that_key_only() -> None:
    metrics: Any = {"a": [mean()], "b": [mean()]}
    answer = by_sample({"a": 1.0, "b": 0.0}, {"a": math.nan, "b": 1.0})
    first, second = scores(run(task_of(2, answer, metrics)))
    assert (value(first, "mean"), first.scored_samples, first.unscored_samples) == (1.0, 1, 1)
    assert (value(second, "mean"), second.scored_samples) == (0.5, 2)


def test_a_missing_key_fails_the_whole_run() -> None:
    log = run(
        task_of(2, by_sample({"a": 1.0, "b": 1.0}, {"a": 1.0}), {"a": [mean()], "b": [mean()]})
    )
    assert log.status == "error", "so every key stands on every sample"


def test_unscored_leaves_the_denominator() -> None:
    def answer(state: TaskState) -> Score:
        if state.metadata["n"] == 0:
            return Score.unscored(reason="grader_failed")
        return Score(value=1.0)

    only = scores(run(task_of(3, answer)))[0]
    assert (value(only, "mean"), only.scored_samples, only.unscored_samples) == (1.0, 2, 1)


def test_intervals_without_readings_are_zero() -> None:
    log = run(
        task_of(2, lambda state: Score.unscored(reason="x"), [accuracy(), ci_wilson()]),
    )
    only = scores(log)[0]
    assert math.isnan(value(only, "accuracy"))
    bounds = [m.value for name, m in only.metrics.items() if name != "accuracy"]
    assert bounds == [0.0, 0.0], "so an interval is asked for only where something was read"


def test_plain_interval_leaves_the_unit_range() -> None:
    only = scores(run(task_of(2, by_sample(1.0, 0.0), [ci()])))[0]
    bounds = sorted(float(m.value) for m in only.metrics.values())
    assert bounds[0] < -5 and bounds[1] > 6, "so proportions use Wilson"


@pytest.mark.parametrize("values", [(1.0,), (1.0, 1.0)])
def test_standard_error_is_zero_where_it_is_not_known(values: tuple[float, ...]) -> None:
    assert (
        value(scores(run(task_of(len(values), by_sample(*values), [stderr()])))[0], "stderr") == 0
    )


def test_two_interval_metrics_of_one_list_get_numbers() -> None:
    only = scores(run(task_of(3, by_sample(1.0, 0.0, 1.0), [ci(), ci_wilson()])))[0]
    assert {"lower", "upper", "lower2", "upper2"} <= set(only.metrics)


def test_metrics_under_a_key_have_longer_names() -> None:
    @metric
    def own_rate() -> Metric:
        return lambda scores: 0.5

    in_list = scores(run(task_of(2, by_sample(1.0, 0.0), [own_rate(), ci_wilson()])))[0]
    under_key = scores(
        run(task_of(2, by_sample({"a": 1.0}, {"a": 0.0}), {"a": [own_rate(), ci_wilson()]}))
    )[0]
    assert "own_rate" in in_list.metrics
    assert any(name.endswith("own_rate") for name in under_key.metrics)
    assert any(name.startswith("ci_wilson_") for name in under_key.metrics)


def test_a_second_grouping_under_a_key_is_lost() -> None:
    groupings = [grouped(mean(), "half"), grouped(stderr(), "half")]
    answer = by_sample({"a": 1.0}, {"a": 0.0}, {"a": 1.0}, {"a": 1.0})
    only = scores(run(task_of(4, answer, {"a": groupings})))[0]
    assert len([name for name in only.metrics if name.startswith("h0")]) <= 1


def test_a_group_without_readings_vanishes() -> None:
    def answer(state: TaskState) -> Score:
        if state.metadata["half"] == "h1":
            return Score.unscored(reason="x")
        return Score(value=1.0)

    only = scores(run(task_of(4, answer, [grouped(mean(), "half")])))[0]
    assert "h0" in only.metrics and "h1" not in only.metrics


def epochs_answer(*per_epoch: float | None) -> Answer:
    def answer(state: TaskState) -> Score:
        told = per_epoch[state.epoch - 1]
        if told is None:
            return Score.unscored(reason="x")
        return Score(value=told, metadata={"epoch": state.epoch}, answer=str(state.epoch))

    return answer


def test_unscored_epochs_are_dropped_before_the_reducer() -> None:
    task = task_of(1, epochs_answer(1.0, None, 0.0), epochs=Epochs(3, "mean"))
    assert value(scores(run(task))[0], "mean") == 0.5


def test_metadata_after_the_reducer_is_that_of_the_first_epoch() -> None:
    log = run(task_of(1, epochs_answer(1.0, 0.0), epochs=Epochs(2, "mean")))
    assert log.reductions is not None
    reduced = log.reductions[0].samples[0]
    assert reduced.metadata == {"epoch": 1} and not reduced.answer


def test_unreduced_metrics_see_every_scored_epoch() -> None:
    @metric(scores="unreduced")
    def rows() -> Metric:
        def count(scores: list[SampleScore]) -> Mapping[str, float]:
            return {"rows": float(len(scores))}

        return cast(Metric, count)

    task = task_of(1, epochs_answer(1.0, None, 0.0, 1.0), [rows()], epochs=Epochs(4, "mean"))
    log = run(task)
    names = {name: float(m.value) for score in scores(log) for name, m in score.metrics.items()}
    assert names == {"rows": 3.0}
    assert [score.unscored_samples for score in scores(log)] == [1]


def test_an_error_leaves_the_denominator_and_the_run_succeeds() -> None:
    def answer(state: TaskState) -> Score:
        if state.metadata["n"] == 0:
            raise RuntimeError("machinery")
        return Score(value=1.0)

    log = run(task_of(3, answer), fail_on_error=False)
    assert log.results is not None and log.samples is not None
    assert (log.status, log.results.total_samples, log.results.completed_samples) == (
        "success",
        3,
        2,
    )
    assert value(scores(log)[0], "mean") == 1.0, "so errors are counted beside every number"


def test_lone_surrogates_are_stored_as_text() -> None:
    log = run(task_of(1, lambda state: Score(value=1.0, explanation="a\ud835b")))
    assert log.samples and log.samples[0].scores
    assert log.samples[0].scores["told"].explanation == "a\\ud835b"


def test_a_headline_that_matches_nothing_falls_back_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    log = run(task_with(task_of(1, by_sample(1.0)), headline_metric="nothing"))
    assert log.status == "success", "so each task's declared headline is tested"
