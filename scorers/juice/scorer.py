"""The JuICE scorer: locates what the judge marked, matches it with the gold, keeps the counts."""

from collections.abc import Mapping, Sequence
from typing import Any, Never

from inspect_ai.model import ModelName
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

from propensity.common.params import Checks
from propensity.common.units import score_metadata, unit
from propensity.scorers.juice.answers import Answer, read_answer
from propensity.scorers.juice.comparison import Comparison, Gold, compare
from propensity.scorers.juice.explanation import explain, quoted
from propensity.scorers.juice.metrics import Row, compute_metrics, logged_names
from propensity.scorers.juice.records import (
    GOLD_MARKS,
    LOGICAL_ERRORS,
    MATCHINGS,
    SPANS_ONLY,
    UNITS,
    GoldMarks,
    LogicalError,
    Matching,
    Response,
    Settings,
    Unit,
)
from propensity.scorers.juice.taxonomy import CATEGORIES, CRITICALITIES

SPANS = "juice:spans"
RESPONSE_FORMAT = "juice:response_format"
"""Keys of the sample store: where the spans lie, and the form of answer that was asked for."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "gold": GOLD_MARKS,
    "logical_error": LOGICAL_ERRORS,
    "unit": UNITS,
    "matching": MATCHINGS,
}
"""Options of the scorer and their values; `threshold` is a number."""
ANNOTATOR_FAMILIES = ("gemini-3", "gpt-5")
"""Families of the two models that annotated the official data."""
FAVOURED = "A model of this judge's family annotated part of the gold: it may be favoured."


@metric
def juice_metrics() -> Metric:
    """Pooled precision, recall and F1: 0 nothing right, 1 all right, nan nothing to divide by."""

    def compute(scores: list[SampleScore]) -> Value:
        rows = [score_row(one) for one in scores]
        values = compute_metrics(rows)
        return {name: values[name] for name in logged_names(values)}

    return compute


@scorer(metrics=[juice_metrics()])
def juice_score(
    *,
    gold: GoldMarks | None = None,
    logical_error: LogicalError | None = None,
    unit: Unit | None = None,
    threshold: float | None = None,
    matching: Matching | None = None,
    **unknown: Never,
) -> Scorer:
    """Compare a judge's spans or sentences with the gold of the response.

    The value holds counts, every key on every sample; all metrics are sums of them. Settings are
    those of the run, unless given here: `inspect score LOG --scorer propensity/juice_score
    -S threshold=0.3` scores anew without asking the judge.

    Args:
        gold: Marks that count, `all` or `human`.
        logical_error: Whether groups labelled Logical Error alone count.
        unit: Unit of IoU.
        threshold: Least IoU of a match, in (0, 1].
        matching: `one_to_one` or `any_overlap`.
        **unknown: Rejected.

    Raises:
        TypeError: an option that does not exist, or a value that is not allowed. Inspect hides
            the text of a `ValueError` here.
    """
    given: dict[str, Any] = {
        "gold": gold,
        "logical_error": logical_error,
        "unit": unit,
        "threshold": threshold,
        "matching": matching,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    _check_options(changed, unknown, list(given))

    async def score(state: TaskState, target: Target) -> Score:
        settings = Settings.model_validate(state.metadata["scoring"] | changed)
        if settings.protocol == "sentences" and (idle := [n for n in SPANS_ONLY if n in changed]):
            raise ValueError(
                f"{', '.join(idle)}: for spans; leave it out, the log is of protocol=sentences"
            )
        response = Response.model_validate(state.metadata["response"])
        if settings.gold == "human" and any(
            mark.finder == "synthetic" for group in response.groups for mark in group.marks
        ):
            # As the task does: without gold every judge would have F1 0.
            raise ValueError("gold=human leaves no group: the marks are synthetic")
        prepared = Gold(response, settings)
        answer = read_answer(state.output, settings.protocol)
        comparison = compare(prepared, answer)
        facts = _judge_facts(state, prepared.response)
        explanation = explain(prepared, answer, comparison)
        if "annotator_family" in facts:
            explanation += f"\n\n{FAVOURED}"
        state.store.set(SPANS, _located(prepared, comparison))
        return Score(
            value={**comparison.values, "self": float("self" in facts)},
            answer=_answered(settings, comparison),
            explanation=explanation,
            reason=answer.reason,
            metadata=score_metadata(
                units=unit_records(state, prepared, answer, comparison, facts),
                scoring=settings.model_dump(mode="json"),
            ),
        )

    return score


def _check_options(
    changed: Mapping[str, object], unknown: Mapping[str, object], known: Sequence[str]
) -> None:
    checks = Checks("juice_score")
    checks.unknown(unknown, known)
    for name, allowed in OPTIONS.items():
        if name in changed:
            checks.one_of(name, changed[name], allowed)
    if "threshold" in changed:
        checks.number("threshold", changed["threshold"], above=0, high=1)
    try:
        checks.done()
    except ValueError as error:
        raise TypeError(str(error)) from None


def unit_records(
    state: TaskState,
    gold: Gold,
    answer: Answer,
    comparison: Comparison,
    facts: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Records for the results store: the response, then (spans) each group that counts."""
    response = unit(
        str(state.sample_id),
        level="sample",
        epoch=state.epoch,
        status="scored",
        reason=answer.reason,
        factors=dict(facts),
        scores=_pooled(gold.settings, comparison.values),
    )
    if gold.settings.protocol == "sentences":
        return [response]
    return [response, *(_group_record(state, gold, comparison, row) for row in gold.rows())]


def _pooled(settings: Settings, values: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Keys of a response as numerator and denominator."""
    right, found = values["right"], values["found"]
    n_pred, n_gold = values["n_pred"], values["n_gold"]
    pooled = {"precision": (right, n_pred), "recall": (found, n_gold)}
    if settings.matching == "one_to_one":
        # Under any_overlap the two numerators differ, and F1 is no quotient of sums.
        pooled["f1"] = (right + found, n_pred + n_gold)
    if settings.protocol == "spans":
        for name in CATEGORIES:
            pooled[f"recall_{name}"] = (values[f"hit_{name}"], values[f"n_{name}"])
    return pooled


def _group_record(state: TaskState, gold: Gold, comparison: Comparison, row: int) -> dict[str, Any]:
    group = gold.groups[row]
    hit = row in comparison.found
    finders = sorted({placed.mark.finder for placed in group.marks})
    factors = {"labels": ", ".join(group.labels), "finders": ", ".join(finders)}
    slices = gold.slices(row)
    gravest = [level for level in CRITICALITIES if f"crit_{level.lower()}" in slices]
    if gravest:
        factors["criticality"] = gravest[0]
    return unit(
        f"{state.sample_id}#{group.id}",
        level="group",
        epoch=state.epoch,
        status="scored",
        outcome="found" if hit else "missed",
        gold=quoted(group.marks[0].mark.span),
        factors=factors,
        scores={"hit": float(hit)},
    )


def _judge_facts(state: TaskState, response: Response) -> dict[str, str]:
    """What a reader must know of this judge and this response."""
    facts: dict[str, str] = {}
    asked_for = state.store.get(RESPONSE_FORMAT)
    if isinstance(asked_for, str):
        facts["response_format"] = asked_for
    judge = _model_name(state.model)
    if judge == response.model.rpartition("/")[2].casefold():
        facts["self"] = "true"
    finders = {mark.finder for group in response.groups for mark in group.marks}
    if "model" in finders and judge.startswith(ANNOTATOR_FAMILIES):
        facts["annotator_family"] = "true"
    return facts


def _model_name(model: ModelName) -> str:
    return model.name.rpartition("/")[2].casefold()


def _located(gold: Gold, comparison: Comparison) -> dict[str, Any]:
    """Offsets for panels and readers; they do not depend on unit, threshold and matching."""
    return {
        "gold": [
            {
                "group": group.id,
                "labels": list(group.labels),
                "spans": [list(span) for span in group.spans],
                "levels": [place.level for mark in group.marks for place in mark.locations],
                "moved": any(mark.moved for mark in group.marks),
            }
            for group in gold.groups
        ],
        "predicted": [
            {
                "span": list(prediction.location.span),
                "level": prediction.location.level,
                "moved": prediction.moved,
                "label": prediction.item.label,
            }
            for prediction in comparison.located
            if prediction.location is not None
        ],
        "nowhere": len(comparison.nowhere),
        "sentences": [list(span) for span in gold.sentences],
        "gold_sentences": sorted(gold.erroneous),
        "predicted_sentences": sorted(comparison.sentences),
    }


def _answered(settings: Settings, comparison: Comparison) -> str:
    what = "spans" if settings.protocol == "spans" else "sentences"
    return f"{comparison.values['n_pred']:g} {what}, {comparison.values['right']:g} right"


def score_row(scored: SampleScore) -> Row:
    """The counts of one response, for `compute_metrics`."""
    value, metadata = scored.score.value, scored.sample_metadata or {}
    as_float = value_to_float()
    if not isinstance(value, dict):
        raise TypeError("a JuICE score is a flat dict of counts")
    return Row(
        values={name: as_float(one) for name, one in value.items()},
        cluster=str(metadata.get("cluster_id", scored.sample_id)),
        factors=metadata.get("factors") or {},
    )
