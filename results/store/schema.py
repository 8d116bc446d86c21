"""The five tables: names, columns and types, as data and in one place."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
SCHEMA_PROPERTY = "propensity.schema"

Row = dict[str, Any]
TableName = Literal["runs", "samples", "units", "scores", "labels"]
Kind = Literal["text", "int", "float", "utc", "json", "texts", "parts"]


def _columns(text: str) -> dict[str, Kind]:
    """Column → type from words `name` (text) or `name:type`, in their order."""
    return {
        name: cast(Kind, kind or "text")
        for name, _, kind in (word.partition(":") for word in text.split())
    }


TABLES: dict[TableName, dict[str, Kind]] = {
    "runs": _columns(
        "eval_id task_id run_id eval_set_id task package task_version comparability_version:int "
        "propensity_version inspect_version model subject model_args:json generate_config:json "
        "task_args:json solver solver_args:json factors:json roles:json judge_prompts:json "
        "prompt_id headline_metric headline_key keys:json cluster_label contrasts:json "
        "data_sha256:json status epochs:int planned:int scored:int unscored:int errored:int "
        "missing:int limited:int refused:int truncated:int tokens_in:int tokens_out:int "
        "tokens_by_role:json cost_usd:float started:utc completed:utc packages:json git_commit "
        "log_location log_sha256 tags:texts ingested:utc"
    ),
    "samples": _columns(
        "eval_id task sample_uuid sample_id epoch:int status reason error_type error_message "
        "stop_reason limit retries:int messages:int tokens_in:int tokens_out:int "
        "total_time_s:float working_time_s:float factors:json"
    ),
    "units": _columns(
        "eval_id task sample_uuid sample_id epoch:int unit_id level item_id variant cluster_id "
        "status outcome reason gold answer value_max:float factors:json parts:parts input output"
    ),
    "scores": _columns(
        "eval_id task sample_uuid epoch:int unit_id item_id variant cluster_id scorer key "
        "value:float numerator:float denominator:float reason judge_model judge_prompt_id "
        "judge_raw adjudicated_value:float adjudicated_by adjudicated_at:utc"
    ),
    "labels": _columns(
        "task eval_id epoch:int unit_id item_id key annotator label label_value:float stratum "
        "stratum_size:int stratum_drawn:int selection_prob:float draw_seed:int source created:utc"
    ),
}
PARTITIONS: dict[TableName, list[str]] = {"units": ["task"], "scores": ["task"]}
FROM_LOGS: tuple[TableName, ...] = ("samples", "units", "scores", "runs")
"""Tables filled from a log, in writing order: a run without its row is not there."""


@dataclass(frozen=True)
class LogTables:
    """The rows of one log as Arrow tables."""

    eval_id: str
    task: str
    tables: "dict[TableName, pa.Table]"


def arrow_schema(table: TableName) -> "pa.Schema":
    """The Arrow schema of a table."""
    import pyarrow as pa

    text = pa.string()
    part = pa.struct([("item_id", text), ("label", text), ("value", pa.float64())])
    types: dict[Kind, pa.DataType] = {
        "text": text,
        "json": text,
        "int": pa.int64(),
        "float": pa.float64(),
        "utc": pa.timestamp("us", tz="UTC"),
        "texts": pa.list_(text),
        "parts": pa.list_(part),
    }
    return pa.schema([(name, types[kind]) for name, kind in TABLES[table].items()])


def to_arrow(table: TableName, rows: Iterable[Row]) -> "pa.Table":
    """Turn rows into an Arrow table with exactly the table's columns.

    Absent columns are null. JSON columns take plain data. Text that UTF-8 cannot hold (lone
    surrogates) is kept as its escape.

    Raises:
        ValueError: a row has a column that the table does not have.
    """
    import pyarrow as pa

    kinds = TABLES[table]
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for row in rows:
        if unknown := set(row) - set(kinds):
            raise ValueError(f"{table} has no column {sorted(unknown)}")
        for name, kind in kinds.items():
            columns[name].append(_plain(row.get(name), kind))
    return pa.table(columns, schema=arrow_schema(table))


def as_json(value: object) -> str:
    """Canonical JSON text; what JSON does not know becomes its text."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _plain(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "json":
        return _utf8(as_json(value))
    if kind == "text":
        return _utf8(str(value))
    if kind == "texts":
        return [_utf8(str(one)) for one in value]
    if kind == "parts":
        return [
            {"item_id": _utf8(item), "label": _utf8(label), "value": float(number)}
            for item, label, number in value
        ]
    if kind == "utc":
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return moment.astimezone(UTC)
    return value


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
