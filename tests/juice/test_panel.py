"""Panels, effective size and agreement: the specification's examples, guards and real logs."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.log import EvalLog
from inspect_ai.scorer import SampleScore, Score, krippendorff_alpha

from propensity.scorers.juice.agreement import panel_report
from propensity.scorers.juice.comparison import Gold, match
from propensity.scorers.juice.intervals import score
from propensity.scorers.juice.location import Span
from propensity.scorers.juice.panel import (
    PanelSpan,
    alpha,
    effective_size,
    majority,
    panel_size,
    panel_spans,
    union,
)
from propensity.scorers.juice.records import Settings
from propensity.tasks.juice import juice, juice_policy
from propensity.tasks.juice.dataset import SHIPPED
from tests.juice.builders import distinct, group, response
from tests.support import run

TEXT = distinct(100)
GOLD = Gold(
    response(
        TEXT,
        group(TEXT, "a", [(0, 10)]),
        group(TEXT, "b", [(20, 30), (20, 40)]),
        group(TEXT, "c", [(60, 64)]),
        group(TEXT, "d", [(80, 100)]),
    ),
    Settings(),
)
JUDGES = {
    "one": [Span(0, 10), Span(20, 30)],
    "two": [Span(0, 12), Span(60, 64)],
    "three": [Span(20, 32), Span(70, 75)],
}


def figures(spans: list[Span]) -> list[float]:
    found = match(GOLD, sorted(spans))
    counts = [len(found.right), len(found.kept), len(found.found), len(GOLD.rows())]
    return [round(value, 4) for value in score(counts)]  # type: ignore[arg-type]


def test_the_example_of_the_specification() -> None:
    joined = panel_spans(JUDGES)
    expected = [((0, 10), 2), ((20, 30), 2), ((60, 64), 1), ((70, 75), 1)]
    assert joined == [PanelSpan(Span(*span), votes) for span, votes in expected]
    assert figures(union(joined)) == [0.75, 0.75, 0.75]
    assert figures(majority(joined, 3)) == [1, 0.5, 0.6667]
    assert [figures(spans)[2] for spans in JUDGES.values()] == [0.6667, 0.6667, 0.3333]


def test_spans_of_one_judge_are_not_joined_with_each_other() -> None:
    assert len(panel_spans({"a": [Span(0, 10), Span(0, 11)]})) == 2
    both = panel_spans({"a": [Span(0, 10), Span(0, 11)], "b": [Span(0, 12)]})
    assert both == [PanelSpan(Span(0, 11), 2)]


def test_ties_go_to_the_shorter_then_the_leftmost() -> None:
    assert panel_spans({"a": [Span(0, 8)], "b": [Span(0, 10)]}) == [PanelSpan(Span(0, 8), 2)]
    assert panel_spans({"a": [Span(2, 10)], "b": [Span(0, 8)]}) == [PanelSpan(Span(0, 8), 2)]


def test_half_of_the_judges_are_no_majority() -> None:
    joined = [PanelSpan(Span(0, 1), 2), PanelSpan(Span(2, 3), 3)]
    assert majority(joined, 4) == [Span(2, 3)]


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda p: Span(p[0], p[0] + p[1])),
    max_size=5,
)


@given(st.lists(SPANS, min_size=1, max_size=4))
def test_a_panel_only_repeats_what_a_judge_said(given_spans: list[list[Span]]) -> None:
    by_judge = {str(number): spans for number, spans in enumerate(given_spans)}
    joined = panel_spans(by_judge)
    said = {span for spans in given_spans for span in spans}
    assert {one.span for one in joined} <= said
    assert all(1 <= one.votes <= len(by_judge) for one in joined)
    assert panel_spans(dict(reversed(by_judge.items()))) == joined


def misses(text: str) -> list[bool]:
    return [character == "1" for character in text]


def test_effective_size() -> None:
    assert round(effective_size(9, 0.44), 2) == 1.99
    assert (effective_size(9, 0), effective_size(9, 1), effective_size(4, -0.5)) == (9, 1, 4)
    found = panel_size({"a": misses("00110110"), "b": misses("01110010"), "c": misses("00011110")})
    assert round(found.correlation, 4) == 0.3333
    assert found.n_eff == pytest.approx(1.8)
    assert found.left_out == 0


def test_judges_that_never_vary_have_no_correlation() -> None:
    found = panel_size({"a": misses("0011"), "b": misses("0101"), "c": misses("1111")})
    assert (found.correlation, found.left_out) == (0, 2)
    nothing = panel_size({"a": misses("11"), "b": misses("00")})
    assert math.isnan(nothing.n_eff) and nothing.left_out == 1


def noisy(seed: int, responses: int = 60) -> list[list[list[bool]]]:
    rng = random.Random(seed)
    return [
        [
            [rng.random() < 0.5 if rng.random() < 0.4 else truth for _ in range(4)]
            for truth in (rng.random() < 0.3 for _ in range(rng.randint(0, 4)))
        ]
        for _ in range(responses)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_that_of_inspect(seed: int) -> None:
    ratings = noisy(seed)
    of_inspect: Callable[[list[SampleScore]], object] = krippendorff_alpha(level="nominal")  # type: ignore[assignment]
    inspects = of_inspect(
        [
            SampleScore(score=Score(value=[float(one) for one in unit]))
            for units in ratings
            for unit in units
        ]
    )
    found = alpha(ratings)
    assert found.alpha == pytest.approx(inspects)
    assert found.low < found.alpha < found.high


def test_alpha_is_not_defined_where_nothing_varies() -> None:
    cases: list[list[list[list[bool]]]] = [[], [[]], [[[True, True]]] * 2, [[[True]], [[False]]]]
    for ratings in cases:
        found = alpha(ratings)
        assert all(math.isnan(value) for value in found)
    alone = alpha([[[True, True], [False, False]]])
    assert alone.alpha == 1 and math.isnan(alone.low)


def log_of(policy: str, **task_args: object) -> EvalLog:
    args = {"pairs": "korea-ko"} | task_args
    return run(juice(**args), solver=juice_policy(policy), log_realtime=False)  # type: ignore[arg-type]


def test_a_report_from_logs() -> None:
    logs = [log_of(name) for name in ("perfect", "half", "silent")]
    report = panel_report(logs)
    assert report.n_responses == 6
    perfect, half, silent = report.judges.values()
    assert (perfect.f1, perfect.kappa) == (1, 1)
    assert (perfect.lead, perfect.lead_low, perfect.lead_high) == (0, 0, 0)
    assert half.lead == half.f1 - 1
    assert half.lead_low <= half.lead <= half.lead_high < 0
    assert half.precision == 1 and half.recall < 1
    assert (silent.f1, silent.kappa) == (0, 0)
    # perfect has no miss and silent nothing else: no pair of the three has a correlation
    assert math.isnan(report.size.n_eff) and report.size.left_out == 3
    assert (report.union.precision, report.union.recall) == (1, 1)
    assert report.majority.recall == half.recall and report.majority.precision == 1
    assert 0 < report.alpha.alpha < 1
    assert math.isnan(report.alpha_human.alpha) and math.isnan(half.recall_human)


def test_logs_that_do_not_belong_together_are_refused() -> None:
    log = log_of("half")
    with pytest.raises(ValueError, match="at least two"):
        panel_report([log])
    with pytest.raises(ValueError, match="threshold 0.5 and 0.3; re-score first"):
        panel_report([log, log_of("half", threshold=0.3)])
    with pytest.raises(ValueError, match="same responses"):
        panel_report([log, log_of("half", pairs="us-en")])
    sentences = log_of("half", protocol="sentences")
    with pytest.raises(ValueError, match="sentences"):
        panel_report([sentences, sentences])


def test_stored_spans_are_plain_and_slice_back_to_what_the_judge_said() -> None:
    (sample, *_) = log_of("half").samples or []
    stored = sample.store["juice:spans"]
    assert json.loads(json.dumps(stored)) == stored
    text = sample.metadata["response"]["text"]
    said = {item["span"] for item in json.loads(sample.output.completion)["errors"]}
    assert {text[slice(*one["span"])] for one in stored["predicted"]} == said
    assert {one["level"] for one in stored["predicted"]} == {"exact"}


def test_human_only_figures_stand_beside_the_full_ones(tmp_path: Path) -> None:
    data = json.loads(SHIPPED.read_text(encoding="utf-8"))
    chosen = {name: entry for name, entry in data.items() if entry["country"] == "us"}
    for entry in chosen.values():
        for place, of in enumerate(entry["error_groups"].values()):
            for error in of["errors"].values():
                error["detector_type"] = "model" if place % 2 else "human"
    path = tmp_path / "data.json"
    path.write_text(json.dumps(chosen), encoding="utf-8")
    logs = [log_of(name, data=str(path), pairs="us-en") for name in ("half", "perfect")]
    half, perfect = panel_report(logs).judges.values()
    # `half` answers every second group, which are the ones that people found
    assert (half.recall_human, perfect.recall_human) == (1, 1)
    assert half.recall < 1
    assert half.kappa_human == 1 > half.kappa
    assert perfect.kappa == 1 > perfect.kappa_human
