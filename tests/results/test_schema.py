"""The tables' columns and types, letter for letter."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.results.store.schema import TABLES, Row, arrow_schema, to_arrow

COLUMNS = {
    "runs": "eval_id, task_id, run_id, eval_set_id, task, package, task_version, "
    "comparability_version, propensity_version, inspect_version, model, subject, model_args, "
    "generate_config, task_args, solver, solver_args, factors, roles, judge_prompts, prompt_id, "
    "headline_metric, headline_key, keys, cluster_label, contrasts, data_sha256, status, epochs, "
    "planned, scored, unscored, errored, missing, limited, refused, truncated, tokens_in, "
    "tokens_out, tokens_by_role, cost_usd, started, completed, packages, git_commit, "
    "log_location, log_sha256, tags, ingested",
    "samples": "eval_id, task, sample_uuid, sample_id, epoch, status, reason, error_type, "
    "error_message, stop_reason, limit, retries, messages, tokens_in, tokens_out, total_time_s, "
    "working_time_s, factors",
    "units": "eval_id, task, sample_uuid, sample_id, epoch, unit_id, level, item_id, variant, "
    "cluster_id, status, outcome, reason, gold, answer, value_max, factors, parts, input, output",
    "scores": "eval_id, task, sample_uuid, epoch, unit_id, item_id, variant, cluster_id, scorer, "
    "key, value, numerator, denominator, reason, judge_model, judge_prompt_id, judge_raw, "
    "adjudicated_value, adjudicated_by, adjudicated_at",
    "labels": "task, eval_id, epoch, unit_id, item_id, key, annotator, label, label_value, "
    "stratum, stratum_size, stratum_drawn, selection_prob, draw_seed, source, created",
}
INTEGERS = set(
    "comparability_version epochs planned scored unscored errored missing limited refused "
    "truncated tokens_in tokens_out epoch retries messages stratum_size stratum_drawn "
    "draw_seed".split()
)
FLOATS = set(
    "cost_usd total_time_s working_time_s value_max value numerator denominator "
    "adjudicated_value label_value selection_prob".split()
)
TIMES = {"started", "completed", "ingested", "adjudicated_at", "created"}


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_and_types_are_those_of_the_specification(table: str) -> None:
    schema = arrow_schema(table)  # type: ignore[arg-type]
    assert schema.names == COLUMNS[table].split(", ")
    for field in schema:
        if field.name == "parts":
            part = field.type.value_type
            assert {one.name: str(one.type) for one in part} == {
                "item_id": "string",
                "label": "string",
                "value": "double",
            }
        elif field.name == "tags":
            assert field.type == pa.list_(pa.string())
        elif field.name in TIMES:
            assert field.type == pa.timestamp("us", tz="UTC")
        elif field.name in INTEGERS:
            assert field.type == pa.int64()
        else:
            assert field.type == (pa.float64() if field.name in FLOATS else pa.string())


def test_there_are_five_tables() -> None:
    assert list(TABLES) == list(COLUMNS)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="samples has no column .'colour'"):
        to_arrow("samples", [{"eval_id": "e", "colour": "red"}])


def test_times_become_utc() -> None:
    east = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    rows: list[Row] = [{"created": east}, {"created": "2026-05-01T12:00:00+02:00"}]
    found = to_arrow("labels", rows)["created"].to_pylist()
    assert found == [datetime(2026, 5, 1, 10, tzinfo=UTC)] * 2


@given(st.text(st.characters()))
def test_any_text_can_be_stored(text: str) -> None:
    found = to_arrow("units", [{"answer": text, "factors": {"f": text}}]).to_pylist()[0]
    assert found["answer"] == text.encode("utf-8", "backslashreplace").decode("utf-8")
    found["factors"].encode("utf-8")
