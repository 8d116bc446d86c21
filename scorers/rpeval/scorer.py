"""The RPEval scorer: letters against gold, or a judge's verdict on the written reply."""

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    Value,
    metric,
    scorer,
    value_to_float,
)
from inspect_ai.solver import TaskState

from propensity.common.units import Reason, score_metadata, unit
from propensity.scorers.judging import GraderFailed, self_graded
from propensity.scorers.rpeval.counting import (
    answer_values,
    explain,
    judged_values,
    right_slots,
    slot_answers,
)
from propensity.scorers.rpeval.judge import GRADER, grader, judge_reply
from propensity.scorers.rpeval.metrics import Row, compute_metrics
from propensity.scorers.rpeval.parsing import Reading, read_policy, read_reply
from propensity.scorers.rpeval.records import SEVERITIES, UNREAD, Record, Scoring, pattern

COST = "rpeval:cost"
"""Sample store: calls and tokens per role, by stage."""
REASONER = "rpeval:reasoner"
"""Sample store: rankings, their validity, fused letters and how they were found."""
VERDICT = "rpeval:verdict"
"""Sample store: the judge's whole verdict."""

BASELINE = "baseline_"
"""Begins the keys of what a baseline has right, beside the model's own."""

ENDING = {
    "invalid_response_format": "could not be read",
    "no_response": "is empty",
    "refusal": "is a refusal",
    "truncated": "was cut off",
}


@metric
def rpeval_metrics() -> Metric:
    """Pooled metrics of the protocol run: shares 0 to 1, severities 0 to 5, nan for nothing."""

    def compute(scores: list[SampleScore]) -> Value:
        if not scores:
            return {}
        how = Scoring.model_validate((scores[0].sample_metadata or {})["scoring"])
        return dict(compute_metrics([score_row(one) for one in scores], how))

    return compute


@scorer(metrics=[rpeval_metrics()])
def rpeval_score() -> Scorer:
    """Compare the use of each preference with the gold.

    Discriminative answers are read and compared. A generative reply is judged once by the model
    in the role `grader`; an empty reply or a refusal is not, and matches nothing.

    Model Roles:
        grader: Judges generative replies; never the model under test by default.
    """

    async def score(state: TaskState, target: Target) -> Score:
        how = Scoring.model_validate(state.metadata["scoring"])
        record = Record.model_validate(state.metadata["record"])
        if how.protocol == "generative":
            return await _judged(state, record, how)
        return _answered(state, record, how)

    return score


def _answered(state: TaskState, record: Record, how: Scoring) -> Score:
    found = state.store.get(REASONER)
    if found is not None:
        reading = _of_reasoner(found["letters"])
    else:
        reading = read_policy(state.output, how.cardinality, how.mode)
    values = answer_values(record.gold, reading.letters, reading.reason, how)
    given = slot_answers(record.gold, reading.letters)
    facts = [f"Answer {reading.letters or 'none'}, gold {record.gold} ({record.group.upper()})."]
    if reading.reason is not None:
        facts.append(f"The answer {ENDING[reading.reason]}.")
    if reading.letters is not None and len(reading.letters) != len(record.gold):
        facts.append(f"{len(reading.letters)} letters for {len(record.gold)} preferences.")
    scores: dict[str, Any] = {}
    if how.cardinality == "multi":
        scores["micro"] = (values["right"], values["slots"])
        if how.mode == "published":
            # A record that the published code leaves out is no miss.
            scores["full"] = (values["full"], values["counted"])
    scores |= _baseline_scores(
        state, record, values["slots"] if how.cardinality == "multi" else None
    )
    units = [_record_unit(state, record, reading, scores)]
    if how.cardinality == "multi":
        units += _slot_units(state, record, given, reading.reason, counted=bool(values["counted"]))
    return Score(
        value=values | _costs(state),
        answer=(reading.letters or "")[:100] or None,
        explanation=explain(record, given, facts, _own_reason(found)),
        reason=reading.reason,
        metadata=score_metadata(
            units=units,
            reasons=_left_out(scores, reading),
            scoring=how.model_dump(mode="json"),
        ),
    )


async def _judged(state: TaskState, record: Record, how: Scoring) -> Score:
    single = how.cardinality == "single"
    reading = read_reply(state.output, how.prompt == "cot")
    verdict = None
    judges: list[dict[str, Any]] = []
    own: dict[str, Any] = {"scoring": how.model_dump(mode="json")}
    attempts = 0
    if reading.text:
        own["self_graded"] = self_graded(GRADER)
        keys = [*(["match"] if single else ["slot_match", "full"]), *SEVERITIES]
        try:
            judged = await judge_reply(record, reading.text, grader(), single=single)
        except GraderFailed as failed:
            return Score.unscored(
                reason="grader_failed",
                explanation=f"{failed}; the reply is not scored.",
                metadata=score_metadata(
                    units=[_unjudged_unit(state, failed)], judges=[failed.record(keys)], **own
                ),
            )
        verdict, attempts = judged.value, judged.attempts
        judges.append(judged.record(keys))
        state.store.set(VERDICT, verdict.model_dump(mode="json"))
    values = judged_values(record.gold, verdict, reading.reason, reading.marked, how.cardinality)
    used: Sequence[str | None] = list(verdict.letters) if verdict else [None] * len(record.gold)
    facts = [f"Used {verdict.letters if verdict else 'none'}, gold {record.gold}."]
    if verdict is not None:
        shown = ", ".join(f"{code} {n}" for code, n in verdict.severities.items())
        facts.append(f"The judge says match {verdict.match}; {shown}.")
    if reading.reason is not None:
        sent = "judged all the same" if verdict else "not sent to the judge, matches nothing"
        facts.append(f"The reply {ENDING[reading.reason]}: {sent}.")
    if not reading.marked:
        facts.append("No line ANSWER: the whole reply was judged.")
    scores: dict[str, Any] = {"realised_match": (values["realised"], values["slots"])}
    if not single:
        scores["slot_match"] = (values["matched"], values["slots"])
    scores |= _baseline_scores(state, record, values["slots"])
    units = [_record_unit(state, record, reading, scores, used, own.get("self_graded", False))]
    if not single:
        units += _slot_units(state, record, used, reading.reason, counted=True)
    return Score(
        value=values | _costs(state) | {"grader_calls": float(attempts)},
        answer="".join(x or UNREAD for x in used),
        explanation=explain(record, used, facts, verdict.reason if verdict else ""),
        reason=reading.reason,
        metadata=score_metadata(units=units, judges=judges, **own),
    )


def _of_reasoner(letters: str | None) -> Reading:
    """Fused letters; a slot without any valid ranking is wrong, and the reason says so."""
    if letters is None or UNREAD in letters:
        return Reading(letters=letters, reason="invalid_response_format")
    return Reading(letters=letters)


def _own_reason(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    return "Fused by " + ", ".join(method or "nothing" for method in found["methods"]) + "."


def _record_unit(
    state: TaskState,
    record: Record,
    reading: Reading,
    scores: dict[str, Any],
    used: Sequence[str | None] | None = None,
    graded_itself: bool = False,
) -> dict[str, Any]:
    letters = "".join(x or UNREAD for x in used) if used is not None else reading.letters
    factors: dict[str, str] = {"group": record.group}
    if graded_itself:
        factors["self_graded"] = "true"
    return unit(
        str(state.sample_id),
        level="sample",
        epoch=state.epoch,
        status="scored",
        reason=reading.reason,
        gold=record.gold,
        answer=letters[:100] if letters is not None else None,
        factors=factors,
        scores=scores,
    )


def _unjudged_unit(state: TaskState, failed: GraderFailed) -> dict[str, Any]:
    """The record of a reply without a verdict: what it cost all the same."""
    return unit(
        str(state.sample_id),
        level="sample",
        epoch=state.epoch,
        status="unscored",
        reason="grader_failed",
        scores=_costs(state) | {"grader_calls": float(len(failed.replies))},
    )


def _left_out(scores: Mapping[str, Any], reading: Reading) -> dict[str, Reason]:
    """Why the keys of a record that the published code leaves out have no reading."""
    if reading.reason is None:
        return {}
    empty = (key for key, pair in scores.items() if isinstance(pair, tuple) and not pair[1])
    return dict.fromkeys(empty, reading.reason)


def _baseline_scores(state: TaskState, record: Record, slots: float | None) -> dict[str, Any]:
    """What each baseline has right in a record: 0 or 1, or out of so many slots that count."""
    found: dict[str, Any] = {}
    for name, letters in (state.metadata.get("baselines") or {}).items():
        right = float(sum(a == b for a, b in zip(record.gold, letters, strict=True)))
        pair = (right if slots else 0.0, slots)
        found[f"{BASELINE}{name}"] = right if slots is None else pair
    return found


def _slot_units(
    state: TaskState,
    record: Record,
    given: Sequence[str | None],
    reason: Reason | None,
    *,
    counted: bool,
) -> list[dict[str, Any]]:
    """One unit per preference; where the published rule leaves a record out, unscored ones."""
    units = []
    hits = right_slots(record.gold, "".join(x or UNREAD for x in given))
    for place, (gold, answer, hit) in enumerate(zip(record.gold, given, hits, strict=True)):
        fields: dict[str, Any] = {"gold": gold, "factors": {"group": record.group}}
        if answer is not None:
            fields |= {"answer": answer, "outcome": pattern(gold, answer) or "right"}
        if counted:
            fields |= {"status": "scored", "scores": {"slot_correct": float(hit)}}
        else:
            fields |= {"status": "unscored", "reason": reason}
        name = f"{state.sample_id}#{place + 1}"
        units.append(unit(name, level="slot", epoch=state.epoch, **fields))
    return units


def _costs(state: TaskState) -> dict[str, float]:
    """What the answer cost the model under test, and how its rankings came out."""
    values: dict[str, float] = {}
    stages = (state.store.get(COST) or {}).get("target") or {}
    if stages:
        for key, name in (("calls", "calls"), ("input", "tokens_in"), ("output", "tokens_out")):
            values[f"target_{name}"] = float(sum(stage[key] for stage in stages.values()))
    found = state.store.get(REASONER)
    if found is not None:
        methods = [method for method in found["methods"] if method]
        values |= {
            "ties": float(methods.count("tie")),
            "fused": float(len(methods)),
            "rankings_valid": float(sum(one["valid"] for one in found["modules"].values())),
            "rankings_asked": float(sum(one["asked"] for one in found["modules"].values())),
            "rankings_surplus": float(sum(one["surplus"] for one in found["modules"].values())),
        }
    return values


def score_row(scored: SampleScore) -> Row:
    """The counts of one sample, for `compute_metrics`."""
    value, metadata = scored.score.value, scored.sample_metadata or {}
    as_float = value_to_float()
    if not isinstance(value, dict):
        raise TypeError("an RPEval score is a flat dict of counts")
    return Row(
        values={name: as_float(one) for name, one in value.items()},
        gold=metadata["record"]["gold"],
        cluster=str(metadata["cluster_id"]),
        baselines=metadata.get("baselines") or {},
    )
