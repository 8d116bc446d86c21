"""A log becomes rows of the store: pure, and without any task's code (specs README 6)."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.log import EvalLog, EvalSample, EvalSpec
from inspect_ai.model import ModelUsage
from inspect_ai.scorer import Score
from pydantic import ValidationError

from propensity.common.units import JudgeRecord, UnitRecord
from propensity.results.identity import TaskIdentity, task_identity
from propensity.results.store.schema import Row

MAX_ERROR = 500
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
ADJUDICATED = "_adjudicated"
KeyValue = float | tuple[float, float]
Entries = dict[str, tuple[KeyValue, str | None]]


class LogContentError(ValueError):
    """A log holds something that cannot be stored without inventing a number."""


@dataclass(frozen=True)
class LogFacts:
    """What all rows of one log share."""

    eval_id: str
    identity: TaskIdentity
    headline_key: str
    main_scorer: str | None

    @classmethod
    def of(cls, log: EvalLog) -> "LogFacts":
        """Read the facts from a log's header."""
        spec, metadata = log.eval, log.eval.metadata or {}
        main = spec.headline_metric.scorer if spec.headline_metric else None
        names = [scorer.name.rpartition("/")[2] for scorer in spec.scorers or []]
        if main not in names:
            main = next((name for name in names if not name.endswith(ADJUDICATED)), None)
        return cls(
            eval_id=spec.eval_id,
            identity=task_identity(spec.task, spec.task_registry_name, metadata),
            headline_key=str(metadata.get("headline_key") or "value"),
            main_scorer=main,
        )


@dataclass(frozen=True)
class SampleRows:
    """The rows of one sample in one epoch; `planned` counts its first units in `units`."""

    sample: Row
    units: list[Row]
    scores: list[Row]
    planned: int
    roles: Mapping[str, tuple[int, int]]
    cost: float | None
    judge_prompts: Mapping[str, str]


@dataclass
class Tally:
    """Sums over the samples of a log for its row in `runs`."""

    statuses: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    limited: int = 0
    refused: int = 0
    truncated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    roles: dict[str, list[int]] = field(default_factory=dict)
    costs: list[float | None] = field(default_factory=list)
    judge_prompts: dict[str, str] = field(default_factory=dict)

    def add(self, rows: SampleRows) -> None:
        """Count one sample: health figures in units, tokens by role."""
        planned = rows.units[: rows.planned]
        self.samples += 1
        self.statuses.update(unit["status"] for unit in planned)
        self.limited += len(planned) if rows.sample["limit"] else 0
        self.refused += sum(unit["reason"] == "refusal" for unit in planned)
        self.truncated += sum(unit["reason"] == "truncated" for unit in planned)
        self.tokens_in += rows.sample["tokens_in"]
        self.tokens_out += rows.sample["tokens_out"]
        for role, (into, out) in rows.roles.items():
            total = self.roles.setdefault(role, [0, 0])
            total[0] += into
            total[1] += out
        if rows.sample["tokens_in"] or rows.sample["tokens_out"]:
            self.costs.append(rows.cost)
        self.judge_prompts |= rows.judge_prompts


def sample_rows(facts: LogFacts, sample: EvalSample) -> SampleRows:
    """Turn one sample into its rows of `samples`, `units` and `scores`.

    An errored sample gets one `error` unit per planned unit. A unit in error has no scores,
    an unscored one only those that its record gives all the same (a refusal adds to the
    refusal rate). A key that is nan makes a row only if a reason code says that no reading
    was had.

    Raises:
        LogContentError: a malformed unit record, a unit met twice, or a value that is no
            number.
    """
    where = f"sample {sample.id} epoch {sample.epoch}"
    metadata, scores = sample.metadata, dict(sample.scores or {})
    adjudicated = {name: scores.pop(name) for name in list(scores) if name.endswith(ADJUDICATED)}
    ordered = _main_first(scores, facts.main_scorer)
    main = next(iter(ordered.values()), None)
    base = {
        "eval_id": facts.eval_id,
        "task": facts.identity.task,
        "sample_uuid": sample.uuid or f"{facts.eval_id}/{sample.id}/{sample.epoch}",
        "sample_id": str(sample.id),
    }
    records = {name: _records(score, where) for name, score in ordered.items()}
    units, planned = _units(facts, sample, main, records, base, where)
    by_id = {unit["unit_id"]: unit for unit in units}
    rows: list[Row] = []
    prompts: dict[str, str] = {}
    for name, score in ordered.items():
        judges = _judges(score, where)
        prompts |= {judge.stage: judge.prompt_id for judge in judges}
        for unit_id, entries in _values(facts, sample, name, score, records[name], where):
            unit = by_id.get(unit_id)
            if unit is None or unit["status"] == "error":
                continue
            if unit["status"] == "unscored":
                entries = _given(records[name].get(unit_id), entries)
            rows += _score_rows(unit, name, entries, score, judges)
    _adjudicate(facts, sample, adjudicated, by_id, rows, where)
    tokens_in, tokens_out, cost = _usage(sample.model_usage)
    statuses = [unit["status"] for unit in units[:planned]]
    reasons = {unit["reason"] for unit in units[:planned]}
    error_type, error_message = _error(sample)
    row = base | {
        "epoch": sample.epoch,
        "status": next(one for one in ("scored", "unscored", "error") if one in statuses),
        "reason": reasons.pop() if len(reasons) == 1 else None,
        "error_type": error_type,
        "error_message": error_message,
        "stop_reason": sample.output.stop_reason if sample.output.choices else None,
        "limit": sample.limit.type if sample.limit else None,
        "retries": len(sample.error_retries or []),
        "messages": len(sample.messages),
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "total_time_s": sample.total_time,
        "working_time_s": sample.working_time,
        "factors": _text_dict(metadata.get("factors")),
    }
    return SampleRows(
        row, units, rows, planned, _by_role(sample, tokens_in, tokens_out), cost, prompts
    )


def run_row(log: EvalLog, facts: LogFacts, tally: Tally) -> Row:
    """Turn a log's header and the tally of its samples into its row of `runs`.

    The caller adds `log_location`, `log_sha256` and `ingested`.
    """
    spec, metadata = log.eval, log.eval.metadata or {}
    roles = {role: _model_names(model) for role, model in (spec.model_roles or {}).items()}
    prompts = {str(k): str(v) for k, v in (metadata.get("prompt_versions") or {}).items()}
    subject_prompts = [f"{k}@{v}" for k, v in prompts.items() if k not in tally.judge_prompts]
    config = spec.model_generate_config.model_dump(exclude_none=True, mode="json")
    planned = _planned(spec, metadata, tally)
    known = sum(tally.statuses.values())
    headline = spec.headline_metric
    costs = [cost for cost in tally.costs if cost is not None]
    return {
        "eval_id": spec.eval_id,
        "task_id": spec.task_id,
        "run_id": spec.run_id,
        "eval_set_id": spec.eval_set_id,
        "task": facts.identity.task,
        "package": facts.identity.package,
        "task_version": str(metadata.get("full_task_version") or spec.task_version),
        "comparability_version": metadata.get("task_comparability_version"),
        "propensity_version": metadata.get("propensity_version"),
        "inspect_version": spec.packages.get("inspect_ai"),
        "model": spec.model,
        "subject": subject(log),
        "model_args": spec.model_args,
        "generate_config": config | log.plan.config.model_dump(exclude_none=True, mode="json"),
        "task_args": spec.task_args,
        "solver": spec.solver,
        "solver_args": spec.solver_args or {},
        "factors": (metadata.get("factors") or {}) | _rescored(spec, facts, metadata) | roles,
        "roles": roles,
        "judge_prompts": tally.judge_prompts,
        "prompt_id": ",".join(sorted(subject_prompts)) or None,
        "headline_metric": (headline.metric or headline.score) if headline else None,
        "headline_key": metadata.get("headline_key"),
        "keys": metadata.get("keys") or {},
        "cluster_label": metadata.get("cluster_label"),
        "contrasts": metadata.get("contrasts") or [],
        "data_sha256": metadata.get("data_sha256") or {},
        "status": log.status,
        "epochs": spec.config.epochs or 1,
        "planned": planned,
        "scored": tally.statuses["scored"],
        "unscored": tally.statuses["unscored"],
        "errored": tally.statuses["error"],
        "missing": max(0, planned - known),
        "limited": tally.limited,
        "refused": tally.refused,
        "truncated": tally.truncated,
        "tokens_in": tally.tokens_in,
        "tokens_out": tally.tokens_out,
        "tokens_by_role": {
            role: {"in": into, "out": out} for role, (into, out) in sorted(tally.roles.items())
        },
        "cost_usd": math.fsum(costs) if costs and len(costs) == len(tally.costs) else None,
        "started": log.stats.started_at or spec.created,
        "completed": log.stats.completed_at or None,
        "packages": spec.packages,
        "git_commit": spec.revision.commit if spec.revision else None,
        "tags": log.tags or spec.tags or [],
    }


def _rescored(spec: EvalSpec, facts: LogFacts, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Factors that a later scoring set anew: options of the main scorer by a factor's name."""
    return {
        name: value
        for scorer in spec.scorers or []
        if scorer.name.rpartition("/")[2] == facts.main_scorer
        for name, value in (scorer.options or {}).items()
        if name in (metadata.get("factors") or {}) and value is not None
    }


def subject(log: EvalLog) -> str:
    """What is measured: the model, or `policy/<name>` for a reference policy."""
    spec = log.eval
    steps = [(step.solver, step.params) for step in log.plan.steps]
    if spec.solver:
        steps.append((spec.solver, spec.solver_args or {}))
    for solver, arguments in reversed(steps):
        if solver.endswith("_policy") and arguments.get("name"):
            return f"policy/{arguments['name']}"
    return spec.model


def _main_first(scores: Mapping[str, Score], main: str | None) -> dict[str, Score]:
    return dict(sorted(scores.items(), key=lambda item: item[0] != main))


def _records(score: Score, where: str) -> dict[str, UnitRecord]:
    """The unit records of a score by id."""
    found: dict[str, UnitRecord] = {}
    for entry in (score.metadata or {}).get("units") or []:
        try:
            record = UnitRecord.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise LogContentError(f"{where}: unit record: {place}: {first['msg']}") from error
        if record.unit_id in found:
            raise LogContentError(f"{where}: unit {record.unit_id} stands there twice")
        found[record.unit_id] = record
    return found


def _judges(score: Score, where: str) -> list[JudgeRecord]:
    try:
        return [
            JudgeRecord.model_validate(one) for one in (score.metadata or {}).get("judges") or []
        ]
    except ValidationError as error:
        raise LogContentError(f"{where}: judge record: {error.errors()[0]['msg']}") from error


def _units(
    facts: LogFacts,
    sample: EvalSample,
    main: Score | None,
    records: Mapping[str, Mapping[str, UnitRecord]],
    base: Row,
    where: str,
) -> tuple[list[Row], int]:
    """Rows of the planned units (or of the sample as the one unit), then of further units."""
    metadata = sample.metadata
    merged: dict[str, UnitRecord] = {}
    for of_scorer in records.values():
        merged = dict(of_scorer) | merged
    in_sample = bool(metadata.get("units"))
    own_id = str(sample.id)
    planned = metadata["units"] if in_sample else [{"unit_id": own_id}]
    for plan in planned:
        if not isinstance(plan, Mapping) or not isinstance(plan.get("unit_id"), str):
            raise LogContentError(f"{where}: a planned unit has no unit_id")
    # Beside the sample itself the others are parts of it.
    beside = "slot" if any(plan["unit_id"] == own_id for plan in planned) else "trial"
    rows: dict[str, Row] = {}
    for plan in planned:
        if plan["unit_id"] in rows:
            raise LogContentError(f"{where}: unit {plan['unit_id']} is planned twice")
        record = merged.pop(plan["unit_id"], None)
        level = "sample" if plan["unit_id"] == own_id else beside
        status, reason = _status(sample, main, record, in_sample)
        rows[plan["unit_id"]] = _unit_row(sample, base, plan, record, level, status, reason)
    for unit_id, record in merged.items():
        status, reason = _status(sample, main, record, True)
        rows[unit_id] = _unit_row(
            sample, base, {"unit_id": unit_id, "item_id": unit_id}, record, "slot", status, reason
        )
    return list(rows.values()), len(planned)


def _status(
    sample: EvalSample, main: Score | None, record: UnitRecord | None, expected: bool
) -> tuple[str, str | None]:
    """Status and reason of a unit; a unit without its expected record was not read."""
    if sample.invalidation is not None:
        return "unscored", "evidence_untrusted"
    if record is not None and record.status is not None:
        return record.status, record.reason
    if main is None:
        return ("error", None) if sample.error else ("unscored", "scoring_failed")
    reason = record.reason if record is not None else None
    if isinstance(main.value, float) and math.isnan(main.value):
        return "unscored", main.reason or reason or "scoring_failed"
    if record is None and expected:
        return ("error", None) if sample.error else ("unscored", "scoring_failed")
    return "scored", reason or main.reason


def _unit_row(
    sample: EvalSample,
    base: Row,
    plan: Mapping[str, Any],
    record: UnitRecord | None,
    level: str,
    status: str,
    reason: str | None,
) -> Row:
    metadata = sample.metadata

    def shared(name: str) -> Any:
        return plan.get(name, metadata.get(name))

    known = record or UnitRecord(unit_id=plan["unit_id"])
    into, out = _texts(sample, known.messages)
    return base | {
        "epoch": known.epoch or sample.epoch,
        "unit_id": known.unit_id,
        "level": known.level or level,
        "item_id": str(shared("item_id") or sample.id),
        "variant": shared("variant"),
        "cluster_id": shared("cluster_id"),
        "status": status,
        "outcome": known.outcome,
        "reason": reason,
        "gold": known.gold,
        "answer": known.answer,
        "value_max": shared("value_max"),
        "factors": _text_dict(metadata.get("factors"))
        | _text_dict(plan.get("factors"))
        | (known.factors or {}),
        "parts": known.parts,
        "input": into,
        "output": out,
    }


def _texts(
    sample: EvalSample, places: tuple[int, int | None] | None
) -> tuple[str | None, str | None]:
    if places is None:
        return None, None
    texts = [message.text for message in sample.messages]
    into, out = (
        texts[place] if place is not None and 0 <= place < len(texts) else None for place in places
    )
    return into, out


def _values(
    facts: LogFacts,
    sample: EvalSample,
    scorer: str,
    score: Score,
    records: Mapping[str, UnitRecord],
    where: str,
) -> Iterator[tuple[str, Entries]]:
    """Per unit: key → value (or numerator and denominator) and the reason of a gap."""
    sample_id = str(sample.id)
    reasons = (score.metadata or {}).get("reasons") or {}
    whole: Entries = {}
    if not records or sample_id in records:
        scalar = facts.headline_key if scorer == facts.main_scorer else scorer
        value = score.value if isinstance(score.value, dict) else {scalar: score.value}
        for key, one in value.items():
            whole[key] = (_number(one, f"{where}: {scorer}.{key}"), reasons.get(key))
    for unit_id, record in records.items():
        entries = dict(whole) if unit_id == sample_id else {}
        # The reason of a scored unit says what its answer was, not that a key had no reading.
        reason = None if record.status == "scored" else record.reason
        for key, given in (record.scores or {}).items():
            entries[key] = (given, reasons.get(key) or reason)
        yield unit_id, entries
    if not records:
        yield _only_unit(sample), whole


def _given(record: UnitRecord | None, entries: Entries) -> Entries:
    """The entries that an unscored unit's own record gives a number for."""
    own = (record.scores if record else None) or {}
    return {
        key: entry
        for key, entry in entries.items()
        if key in own and not (isinstance(entry[0], tuple) and not entry[0][1])
    }


def _only_unit(sample: EvalSample) -> str:
    planned = sample.metadata.get("units") or []
    return str(planned[0]["unit_id"]) if len(planned) == 1 else str(sample.id)


def _score_rows(
    unit: Row,
    scorer: str,
    entries: Entries,
    score: Score,
    judges: Sequence[JudgeRecord],
) -> list[Row]:
    judge_of = {key: judge for judge in judges for key in judge.keys}
    rows = []
    for key, (given, reason) in entries.items():
        if not isinstance(given, tuple) and math.isnan(given) and reason is None:
            continue
        rows.append(_score_row(unit, scorer, key, given, reason, judge_of.get(key)))
    return rows


def _score_row(
    unit: Row,
    scorer: str,
    key: str,
    given: KeyValue,
    reason: str | None,
    judge: JudgeRecord | None = None,
) -> Row:
    shared = ("eval_id", "task", "sample_uuid", "epoch", "unit_id", "item_id", "variant")
    value, top, bottom = given, None, None
    if isinstance(given, tuple):
        top, bottom = given
        value = top / bottom if bottom else math.nan
    scored = isinstance(value, float | int) and not math.isnan(value)
    return {name: unit[name] for name in shared} | {
        "cluster_id": unit["cluster_id"],
        "scorer": scorer,
        "key": key,
        "value": float(value) if scored and not isinstance(value, tuple) else None,
        "numerator": top,
        "denominator": bottom,
        "reason": None if scored else reason,
        "judge_model": judge.model if judge else None,
        "judge_prompt_id": judge.prompt_id if judge else None,
        "judge_raw": judge.raw if judge else None,
    }


def _adjudicate(
    facts: LogFacts,
    sample: EvalSample,
    adjudicated: Mapping[str, Score],
    units: Mapping[str, Row],
    rows: list[Row],
    where: str,
) -> None:
    """Write people's corrections into the `adjudicated_*` columns.

    A unit whose raw score is unscored has no rows; a correction that gives it a value gets
    the row of the raw score, value null, so that the correction has a place.
    """
    at = {(row["unit_id"], row["key"]): row for row in rows}
    for name, score in adjudicated.items():
        edit = next((one for one in reversed(score.history) if one.provenance), None)
        if edit is None or edit.provenance is None:
            continue
        facts_of_edit = {
            "adjudicated_by": edit.provenance.author,
            "adjudicated_at": edit.provenance.timestamp,
        }
        for unit_id, entries in _values(facts, sample, name, score, _records(score, where), where):
            unit = units.get(unit_id)
            if unit is None:
                raise LogContentError(f"{where}: {name} corrects {unit_id}, which is no unit")
            for key, (given, _) in entries.items():
                row = at.get((unit_id, key))
                value = _score_row(unit, name, key, given, None)["value"]
                if row is None and unit["status"] == "unscored" and value is not None:
                    main = facts.main_scorer or name
                    row = _score_row(unit, main, key, math.nan, unit["reason"])
                    rows.append(row)
                if row is not None:
                    row |= facts_of_edit | {"adjudicated_value": value}


def _number(value: object, where: str) -> float:
    """A score value as a number; text that is no known grade is refused, never 0."""
    if isinstance(value, str) and value in GRADES:
        return GRADES[value]
    if isinstance(value, bool | int | float) and not math.isinf(value):
        return float(value)
    raise LogContentError(f"{where} is {value!r}, which is no number")


def _error(sample: EvalSample) -> tuple[str | None, str | None]:
    if sample.error is None:
        return None, None
    found = re.match(r"[A-Za-z_][\w.]*(?=\()", sample.error.message)
    return found.group() if found else None, sample.error.message[:MAX_ERROR]


def _usage(usage: Mapping[str, ModelUsage]) -> tuple[int, int, float | None]:
    """Input tokens (cached ones included), output tokens, cost if every part has one."""
    total = sum(usage.values(), ModelUsage())
    costs = [one.total_cost for one in usage.values()]
    known = [cost for cost in costs if cost is not None]
    cost = math.fsum(known) if known and len(known) == len(costs) else None
    cached = (total.input_tokens_cache_read or 0) + (total.input_tokens_cache_write or 0)
    return total.input_tokens + cached, total.output_tokens, cost


def _by_role(sample: EvalSample, into: int, out: int) -> dict[str, tuple[int, int]]:
    """Tokens of each bound role; what no role used is the subject's."""
    roles = {role: _usage({role: usage})[:2] for role, usage in sample.role_usage.items()}
    rest_in = into - sum(used[0] for used in roles.values())
    rest_out = out - sum(used[1] for used in roles.values())
    return roles | {"subject": (max(0, rest_in), max(0, rest_out))}


def _planned(spec: EvalSpec, metadata: Mapping[str, Any], tally: Tally) -> int:
    """Units planned; of samples that are not there, one unit each where more is not known."""
    ids, epochs = spec.dataset.sample_ids or [], spec.config.epochs or 1
    units = metadata.get("planned_units")
    if isinstance(units, int) and len(ids) == spec.dataset.samples:
        return units * epochs
    absent = max(0, len(ids) * epochs - tally.samples)
    return sum(tally.statuses.values()) + absent


def _model_names(model: Any) -> str:
    models = model if isinstance(model, list) else [model]
    return ",".join(one.model for one in models)


def _text_dict(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): str(one) for key, one in value.items() if one is not None}
