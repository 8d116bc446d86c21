"""Frames of runs that were never run, for tests of comparisons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from propensity.results.store.schema import TABLES, Row, to_arrow
from propensity.results.store.tables import Frames, to_pandas

Value = float | tuple[float, float] | None


@dataclass
class Unit:
    """One unit: `value` None = unscored with `reason`, or in error with `status`."""

    item: str
    value: Value = None
    variant: str | None = None
    cluster: str | None = None
    epoch: int = 1
    status: str = "scored"
    reason: str | None = None
    factors: dict[str, str] = field(default_factory=dict)
    level: str = "sample"
    more: Row = field(default_factory=dict)


@dataclass
class Run:
    """A run of one subject; `more` goes into its row of `runs`."""

    subject: str
    units: Sequence[Unit]
    key: str = "hit"
    more: Row = field(default_factory=dict)
    samples: Row = field(default_factory=dict)


def series(values: Iterable[Value], **fields: Any) -> list[Unit]:
    """Units i00, i01, ... with these values."""
    return [Unit(f"i{n:02d}", value, **fields) for n, value in enumerate(values)]


def frames(*runs: Run, labels: Sequence[Row] = ()) -> Frames:
    """The five tables of these runs."""
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    rows["labels"] = list(labels)
    for number, run in enumerate(runs):
        _add(rows, run, f"eval{number}", number)
    return Frames(**{name: to_pandas(to_arrow(name, rows[name])) for name in TABLES})


def _add(rows: dict[str, list[Row]], run: Run, eval_id: str, number: int) -> None:
    statuses = [unit.status for unit in run.units]
    rows["runs"].append(
        {
            "eval_id": eval_id,
            "task_id": f"chain{number}",
            "task": "toy",
            "package": "propensity",
            "task_version": "1-A",
            "comparability_version": 1,
            "propensity_version": "0.1.0",
            "inspect_version": "0.3.285",
            "model": run.subject,
            "subject": run.subject,
            "factors": {"seed": 0},
            "headline_key": "hit",
            "keys": {"hit": {"range": [0, 1], "lower_is_better": True, "label": "hits"}},
            "cluster_label": "place",
            "status": "success",
            "planned": len(statuses),
            "scored": statuses.count("scored"),
            "unscored": statuses.count("unscored"),
            "errored": statuses.count("error"),
            "missing": 0,
            "limited": 0,
            "refused": 0,
            "truncated": 0,
            "started": f"2026-05-01T00:{number:02d}:00+00:00",
            "log_location": f"/logs/{eval_id}.eval",
        }
        | run.more
    )
    for unit in run.units:
        shared = {
            "eval_id": eval_id,
            "task": "toy",
            "sample_uuid": f"{eval_id}/{unit.variant}/{unit.item}/{unit.epoch}",
            "epoch": unit.epoch,
            "unit_id": f"{unit.variant or ''}{unit.item}",
            "item_id": unit.item,
            "variant": unit.variant,
            "cluster_id": unit.cluster,
        }
        sample = {"sample_id": f"sample-{unit.item}"}
        rows["units"].append(
            shared
            | sample
            | {"status": unit.status, "reason": unit.reason, "factors": unit.factors,
               "level": unit.level, "value_max": unit.more.get("value_max")}
        )  # fmt: skip
        rows["samples"].append(
            {name: shared[name] for name in ("eval_id", "task", "sample_uuid", "epoch")}
            | sample
            | {"status": unit.status, "retries": 0, "factors": {}}
            | run.samples
        )
        if unit.status == "scored":
            rows["scores"].append(shared | _score(unit) | {"scorer": "toy_score", "key": run.key})


def _score(unit: Unit) -> Row:
    value, top, bottom = unit.value, None, None
    if isinstance(value, tuple):
        top, bottom = value
        value = top / bottom if bottom else None
    more = {name: one for name, one in unit.more.items() if name != "value_max"}
    return {"value": value, "numerator": top, "denominator": bottom, "reason": unit.reason} | more
