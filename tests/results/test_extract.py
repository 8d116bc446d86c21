"""A log's rows: what a log carries is enough, and nothing becomes 0 by itself."""

import json
from typing import Any

import pytest
from inspect_ai.log import (
    EvalLog,
    ProvenanceData,
    edit_score,
    invalidate_samples,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.scorer import Score, ScoreEdit

from propensity.common.units import judge, score_metadata, unit
from propensity.results.store.logs import LogNotStored, read_log
from propensity.results.store.schema import FROM_LOGS, arrow_schema
from tests.results.toys import NAN, metadata, sample, toy, toy_policy, trials
from tests.support import run, say, scripted

Rows = dict[str, list[dict[str, Any]]]


def rows_of(log: EvalLog) -> Rows:
    tables = read_log(log.location).tables
    return {name: table.to_pylist() for name, table in tables.items()}


def stored(*samples: Any, **options: Any) -> Rows:
    about = options.pop("about", None)
    epochs = options.pop("epochs", 1)
    options.setdefault("fail_on_error", False)
    return rows_of(run(toy(samples, epochs=epochs, about=about), **options))


def test_every_table_has_exactly_its_columns_and_types() -> None:
    tables = read_log(run(toy([sample("a")])).location).tables
    assert set(tables) == set(FROM_LOGS)
    for name, table in tables.items():
        assert table.schema == arrow_schema(name)
        assert table.num_rows == 1


def test_a_sample_is_the_one_unit_where_none_are_planned() -> None:
    rows = stored(sample("a", {"hit": 0.25}, item_id="i1", variant="B", cluster_id="kitchen",
                         factors={"topic": "x"}, value_max=4))  # fmt: skip
    (unit_row,) = rows["units"]
    assert unit_row["unit_id"] == unit_row["sample_id"] == "a"
    assert (unit_row["item_id"], unit_row["variant"], unit_row["cluster_id"]) == (
        "i1",
        "B",
        "kitchen",
    )
    assert unit_row["level"] == "sample" and unit_row["status"] == "scored"
    assert unit_row["value_max"] == 4.0
    assert json.loads(unit_row["factors"]) == {"topic": "x"}
    (score,) = rows["scores"]
    assert (score["key"], score["value"], score["scorer"]) == ("hit", 0.25, "toy_score")
    assert score["numerator"] is None and score["reason"] is None


def test_item_is_the_sample_by_default_and_a_scalar_is_the_headline_key() -> None:
    rows = stored(sample("a", 1.0))
    assert rows["units"][0]["item_id"] == "a"
    assert rows["scores"][0]["key"] == "hit"


def test_a_true_zero_is_a_zero() -> None:
    assert stored(sample("a", {"hit": 0.0}))["scores"][0]["value"] == 0.0


def test_trials_are_units_with_ratios_texts_and_parts() -> None:
    records = [
        unit("T5-b0-s1", outcome="valid", answer="Q1", factors={"deal": "3"}, messages=(1, 2),
             scores={"broad": (1, 4), "refused": 0.0}, parts=[("HW-U1", "U1", 1)]),
        unit("T5-b0-s2", reason="refusal", outcome="refused",
             scores={"broad": (0, 0), "itt": (0, 4), "refused": 1.0}),
    ]  # fmt: skip
    planned = [
        {"unit_id": "T5-b0-s1", "item_id": "b0-s1", "cluster_id": "cook", "slate": ["x"]},
        {"unit_id": "T5-b0-s2", "item_id": "b0-s2", "variant": "other"},
    ]
    rows = stored(
        sample("s", trials(records), units=planned, variant="T5", factors={"k": 4}),
        about=metadata("broad", planned_units=2),
    )
    first, second = rows["units"]
    assert first["level"] == "trial" and first["item_id"] == "b0-s1"
    assert (first["variant"], second["variant"]) == ("T5", "other")
    assert (first["cluster_id"], second["cluster_id"]) == ("cook", None)
    assert first["input"] == "first prompt " + "p" * 300
    assert first["output"] == "first answer of always"
    assert second["input"] is None
    assert first["parts"] == [{"item_id": "HW-U1", "label": "U1", "value": 1.0}]
    assert json.loads(first["factors"]) == {"k": "4", "deal": "3"}
    scores = {(row["unit_id"], row["key"]): row for row in rows["scores"]}
    assert len(scores) == 5
    assert scores["T5-b0-s1", "broad"]["value"] == 0.25
    assert scores["T5-b0-s1", "broad"]["denominator"] == 4.0
    refused = scores["T5-b0-s2", "broad"]
    assert refused["value"] is None and refused["reason"] == "refusal"
    assert scores["T5-b0-s2", "itt"]["value"] == 0.0
    assert scores["T5-b0-s2", "itt"]["reason"] is None
    (row,) = rows["runs"]
    assert (row["planned"], row["scored"], row["refused"], row["missing"]) == (2, 2, 1, 0)


def test_a_scored_answer_that_was_none_has_a_reading_of_an_empty_ratio() -> None:
    shared = {"status": "scored", "reason": "invalid_response_format", "scores": {"f1": (0, 0)}}
    rows = stored(sample("a", trials([unit("a", **shared)])))["scores"]
    (row,) = [row for row in rows if row["key"] == "f1"]
    assert (row["denominator"], row["reason"]) == (0, None)


def test_the_keys_of_the_value_go_to_the_record_of_the_sample_only() -> None:
    records = [unit("r1", scores={"micro": (2, 3)}), unit("r1#0", level="slot",
               scores={"slot_correct": 1.0}, gold="A", answer="A")]  # fmt: skip
    rows = stored(sample("r1", trials(records, {"full": 0.0, "right": 2.0})))
    keys = [(row["unit_id"], row["key"], row["value"]) for row in rows["scores"]]
    assert sorted(keys) == [
        ("r1", "full", 0.0),
        ("r1", "micro", pytest.approx(2 / 3)),
        ("r1", "right", 2.0),
        ("r1#0", "slot_correct", 1.0),
    ]
    assert [row["level"] for row in rows["units"]] == ["sample", "slot"]
    assert rows["runs"][0]["planned"] == 1
    assert rows["runs"][0]["scored"] == 1


def test_nan_without_a_reason_makes_no_row_and_with_one_a_null() -> None:
    score = Score(
        value={"hit": NAN, "other": NAN, "good": 1.0},
        metadata=score_metadata(reasons={"other": "grader_failed"}),
    )
    rows = stored(sample("a", score))
    found = {row["key"]: (row["value"], row["reason"]) for row in rows["scores"]}
    assert found == {"other": (None, "grader_failed"), "good": (1.0, None)}


def test_unscored_has_no_scores_and_keeps_its_reason() -> None:
    rows = stored(sample("a", Score.unscored(reason="grader_failed")), sample("b", 1.0))
    assert [row["unit_id"] for row in rows["scores"]] == ["b"]
    unit_row = next(row for row in rows["units"] if row["unit_id"] == "a")
    assert (unit_row["status"], unit_row["reason"]) == ("unscored", "grader_failed")
    (row,) = rows["runs"]
    assert (row["planned"], row["scored"], row["unscored"], row["errored"]) == (2, 1, 1, 0)


def test_unscored_with_planned_units_leaves_no_unit_out() -> None:
    planned = [{"unit_id": f"u{n}"} for n in range(3)]
    rows = stored(sample("a", Score.unscored(reason="grader_failed"), units=planned))
    assert [row["status"] for row in rows["units"]] == ["unscored"] * 3
    assert rows["scores"] == []


def test_a_sample_among_its_planned_units_is_one_and_the_others_are_its_parts() -> None:
    planned = [{"unit_id": "a"}, {"unit_id": "a#1"}, {"unit_id": "a#2"}]
    rows = stored(sample("a", ValueError("boom"), units=planned))
    assert [row["level"] for row in rows["units"]] == ["sample", "slot", "slot"]


def test_an_errored_sample_gives_one_error_per_planned_unit() -> None:
    planned = [{"unit_id": f"u{n}", "item_id": f"i{n}"} for n in range(3)]
    rows = stored(
        sample("a", ValueError("boom\nsecond line"), units=planned, variant="T1"), sample("b")
    )
    errors = [row for row in rows["units"] if row["status"] == "error"]
    assert [(row["item_id"], row["variant"]) for row in errors] == [
        ("i0", "T1"),
        ("i1", "T1"),
        ("i2", "T1"),
    ]
    bad = next(row for row in rows["samples"] if row["sample_id"] == "a")
    assert bad["status"] == "error" and bad["error_type"] == "ValueError"
    assert "boom" in bad["error_message"]
    assert rows["runs"][0]["errored"] == 3
    assert rows["runs"][0]["planned"] == 4


def test_a_planned_unit_without_a_result_was_not_read() -> None:
    planned = [{"unit_id": "u0"}, {"unit_id": "u1"}]
    rows = stored(sample("a", trials([unit("u0", scores={"hit": 1.0})]), units=planned))
    assert [(row["status"], row["reason"]) for row in rows["units"]] == [
        ("scored", None),
        ("unscored", "scoring_failed"),
    ]


def test_an_unscored_unit_keeps_only_what_its_record_gives() -> None:
    records = [
        unit("u0", status="unscored", reason="refusal", outcome="refused",
             scores={"refused": 1.0, "itt": (0, 4), "broad": (0, 0)}),
        unit("u1", scores={"refused": 0.0, "itt": (1, 4), "broad": (1, 4)}),
    ]  # fmt: skip
    planned = [{"unit_id": "u0"}, {"unit_id": "u1"}]
    rows = stored(sample("a", trials(records), units=planned))
    first = {row["key"]: row["value"] for row in rows["scores"] if row["unit_id"] == "u0"}
    assert first == {"refused": 1.0, "itt": 0.0}
    assert rows["runs"][0]["unscored"] == rows["runs"][0]["refused"] == 1


def test_a_unit_in_error_has_no_scores() -> None:
    planned = [{"unit_id": "u0"}, {"unit_id": "u1"}]
    records = [unit("u0", status="error", outcome="error"), unit("u1", scores={"hit": 1.0})]
    rows = stored(sample("a", trials(records), units=planned))
    assert [row["status"] for row in rows["units"]] == ["error", "scored"]
    assert [row["unit_id"] for row in rows["scores"]] == ["u1"]
    assert rows["samples"][0]["status"] == "scored"


def test_epochs_are_rows_of_their_own() -> None:
    rows = stored(sample("a"), sample("b"), epochs=3)
    assert sorted((row["unit_id"], row["epoch"]) for row in rows["units"]) == [
        (name, epoch) for name in "ab" for epoch in (1, 2, 3)
    ]
    assert rows["runs"][0]["planned"] == 6
    assert rows["runs"][0]["epochs"] == 3


def test_judges_stand_beside_the_keys_they_gave() -> None:
    verdict = judge("verdict", "mockllm/judge", "verdict@2", ["hit"], "GRADE: 1")
    score = Score(value={"hit": 1.0, "length": 3.0}, metadata=score_metadata(judges=[verdict]))
    rows = stored(sample("a", score))
    found = {row["key"]: (row["judge_model"], row["judge_prompt_id"], row["judge_raw"])
             for row in rows["scores"]}  # fmt: skip
    assert found["hit"] == ("mockllm/judge", "verdict@2", "GRADE: 1")
    assert found["length"] == (None, None, None)
    assert json.loads(rows["runs"][0]["judge_prompts"]) == {"verdict": "verdict@2"}


def edited(log: EvalLog, sample_id: str, value: Any, **more: Any) -> EvalLog:
    edit = ScoreEdit(
        value=value, provenance=ProvenanceData(author="Reviewer 1", reason="read it"), **more
    )
    edit_score(log, sample_id, "toy_adjudicated", edit, recompute_metrics=False)
    write_eval_log(log, log.location)
    return log


def test_an_adjudication_fills_columns_and_makes_no_rows() -> None:
    log = run(toy([sample("a", {"hit": 0.0}), sample("b", {"hit": 1.0})], adjudicated=True))
    before = rows_of(log)
    assert len(before["scores"]) == 2
    assert before["scores"][0]["adjudicated_by"] is None
    rows = rows_of(edited(log, "a", {"hit": 1.0}))
    assert len(rows["scores"]) == 2
    by_unit = {row["unit_id"]: row for row in rows["scores"]}
    assert by_unit["a"]["value"] == 0.0
    assert by_unit["a"]["adjudicated_value"] == 1.0
    assert by_unit["a"]["adjudicated_by"] == "Reviewer 1"
    assert by_unit["a"]["adjudicated_at"].utcoffset().total_seconds() == 0
    assert by_unit["b"]["adjudicated_value"] is None


def test_an_unscored_unit_that_people_could_read_gets_the_row_of_the_raw_score() -> None:
    invalid = Score.unscored(reason="evidence_untrusted")
    log = run(toy([sample("a", invalid), sample("b", {"hit": 1.0})], adjudicated=True))
    rows = rows_of(edited(log, "a", {"hit": 1.0}, reason=None))
    row = next(row for row in rows["scores"] if row["unit_id"] == "a")
    assert (row["scorer"], row["value"], row["reason"]) == ("toy_score", None, "evidence_untrusted")
    assert row["adjudicated_value"] == 1.0


def test_a_reading_that_people_took_back_is_set_to_nothing() -> None:
    log = run(toy([sample("a", {"hit": 1.0}), sample("b", {"hit": 1.0})], adjudicated=True))
    rows = rows_of(edited(log, "a", {"hit": NAN}, reason="evidence_untrusted"))
    row = next(row for row in rows["scores"] if row["unit_id"] == "a")
    assert row["value"] == 1.0 and row["adjudicated_value"] is None
    assert row["adjudicated_by"] == "Reviewer 1"


def test_an_invalidated_sample_is_not_scored() -> None:
    log = run(toy([sample("a"), sample("b")]))
    uuid = next(one.uuid for one in log.samples or [] if one.id == "a")
    changed = invalidate_samples(log, [str(uuid)], ProvenanceData(author="Reviewer 1"))
    write_eval_log(changed, log.location)
    rows = rows_of(log)
    assert {row["unit_id"]: row["status"] for row in rows["units"]} == {
        "a": "unscored",
        "b": "scored",
    }


def test_the_run_says_what_was_run() -> None:
    log = run(
        toy([sample("a")]),
        model=scripted("hello"),
        model_roles={"grader": "mockllm/judge"},
        temperature=0.5,
        metadata={"note": "x"},
    )
    (row,) = rows_of(log)["runs"]
    assert (row["task"], row["package"], row["subject"]) == ("toy", "propensity", "policy/always")
    assert row["task_version"] == "1-A" and row["comparability_version"] == 1
    assert json.loads(row["factors"]) == {"seed": 0, "mode": "ours", "grader": "mockllm/judge"}
    assert json.loads(row["roles"]) == {"grader": "mockllm/judge"}
    assert json.loads(row["generate_config"])["temperature"] == 0.5
    assert json.loads(row["task_args"])["unit"] == "codepoint"
    assert (row["headline_metric"], row["headline_key"]) == ("hit_rate", "hit")
    assert row["prompt_id"] == "toy@3" and row["cluster_label"] == "place"
    assert row["tags"] == ["propensity", "toy"]
    assert row["started"] <= row["completed"] <= row["ingested"]
    assert len(row["log_sha256"]) == 64 and row["cost_usd"] is None
    assert row["inspect_version"] == json.loads(row["packages"])["inspect_ai"]


def test_the_subject_is_the_model_or_the_policy() -> None:
    from inspect_ai.solver import generate

    model = stored(sample("a"), model=scripted(say("x")), solver=generate())
    assert model["runs"][0]["subject"] == "mockllm/model"
    assert model["runs"][0]["tokens_in"] == 7 and model["runs"][0]["tokens_out"] == 3
    by_role = json.loads(model["runs"][0]["tokens_by_role"])
    assert by_role == {"subject": {"in": 7, "out": 3}}
    policy = stored(sample("a"), solver=toy_policy(name="never", seed=3))
    assert policy["runs"][0]["subject"] == "policy/never"


def test_a_limit_leaves_the_rest_of_the_data_unplanned() -> None:
    rows = stored(
        *(sample(name, trials([unit(f"{name}1"), unit(f"{name}2")], 1.0),
                 units=[{"unit_id": f"{name}1"}, {"unit_id": f"{name}2"}]) for name in "abc"),
        about=metadata(planned_units=6), limit=2,
    )  # fmt: skip
    assert (rows["runs"][0]["planned"], rows["runs"][0]["missing"]) == (4, 0)


def test_a_run_that_stopped_counts_what_is_missing() -> None:
    log = run(
        toy([sample("a", RuntimeError("stop")), sample("b"), sample("c")]),
        max_samples=1,
    )
    assert log.status == "error"
    (row,) = rows_of(log)["runs"]
    assert row["status"] == "error" and row["planned"] == 3
    assert row["errored"] >= 1 and row["missing"] >= 1
    assert row["scored"] + row["errored"] + row["missing"] == 3


def test_lone_surrogates_and_nul_survive() -> None:
    text = "a\ud835b\x00c"
    record = unit("u", answer="x", scores={"hit": 1.0})
    record["answer"] = text
    rows = stored(sample("a", trials([record]), units=[{"unit_id": "u", "item_id": text}]))
    assert rows["units"][0]["item_id"] == "a\\ud835b\x00c"
    assert rows["units"][0]["answer"] == "a\\ud835b\x00c"


@pytest.mark.parametrize(
    ("score", "about"),
    [
        (Score(value={"hit": "harmful"}), "hit is 'harmful'"),
        (Score(value={"hit": float("inf")}), "hit is inf"),
        (Score(value=1.0, metadata={"units": [{"scores": {}}]}), "unit_id"),
        (Score(value=1.0, metadata={"units": [unit("u"), unit("u")]}), "twice"),
        (Score(value=1.0, metadata={"units": [{"unit_id": "u", "reason": "hunch"}]}), "reason"),
        (Score(value=1.0, metadata={"judges": [{"stage": 1}]}), "judge record"),
    ],
)
def test_what_is_no_number_and_no_record_is_refused(score: Score, about: str) -> None:
    log = run(toy([sample("a", score)]))
    with pytest.raises(LogNotStored, match=about):
        read_log(log.location)


def test_a_unit_met_in_two_samples_is_refused() -> None:
    records = [unit("same", scores={"hit": 1.0})]
    samples = [sample(n, trials(records), units=[{"unit_id": "same"}]) for n in "ab"]
    with pytest.raises(LogNotStored, match="stands in the log 2 times"):
        read_log(run(toy(samples)).location)


def test_json_and_eval_logs_give_the_same_rows() -> None:
    samples = [sample("a", {"hit": 1.0, "x": NAN}), sample("b", ValueError("x"))]
    both = [
        rows_of(run(toy(samples), log_format=form, fail_on_error=False, epochs=2))
        for form in ("eval", "json")
    ]
    for rows in both:
        rows["runs"][0] |= dict.fromkeys(
            ("eval_id", "task_id", "run_id", "started", "completed", "ingested",
             "log_location", "log_sha256", "task_args")
        )  # fmt: skip
        for table in ("samples", "units", "scores"):
            rows[table] = sorted(
                (
                    {
                        key: value
                        for key, value in row.items()
                        if key not in ("eval_id", "sample_uuid", "total_time_s", "working_time_s")
                    }
                    for row in rows[table]
                ),
                key=str,
            )
    assert both[0] == both[1]


def test_many_samples_are_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    from propensity.results.store import logs

    monkeypatch.setattr(logs, "BATCH", 3)
    rows = stored(*(sample(f"s{n}", float(n % 2)) for n in range(8)), epochs=2)
    assert len(rows["samples"]) == 16
    assert len({(row["unit_id"], row["epoch"]) for row in rows["scores"]}) == 16


def test_reading_a_log_leaves_it_as_it_was() -> None:
    log = run(toy([sample("a")]))
    before = read_eval_log(log.location).model_dump_json()
    rows_of(log)
    assert read_eval_log(log.location).model_dump_json() == before


def test_a_further_unit_is_an_item_of_its_own() -> None:
    records = [unit("r1"), unit("r1#g1", level="group", scores={"hit": 1.0})]
    rows = stored(sample("r1", trials(records, {"full": 0.0}), item_id="shared"))
    assert [row["item_id"] for row in rows["units"]] == ["shared", "r1#g1"]


def test_a_factor_that_scoring_again_set_anew_replaces_the_old_one() -> None:
    log = run(toy([sample("s1", Score(value=1.0))], epochs=1, about=None))
    assert log.eval.scorers is not None
    log.eval.scorers[0].options = {"mode": "other", "seed": None, "unknown": 1}
    write_eval_log(log, log.location)
    assert json.loads(rows_of(log)["runs"][0]["factors"]) == {"seed": 0, "mode": "other"}
