"""Reference judges: scripted answers whose scores are known (specification 10)."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import SampleScore
from inspect_ai.solver import Generate, Solver, TaskState, solver

from propensity.common.params import Checks
from propensity.common.verify import Check, VerifyCase, chosen_policies, compared
from propensity.scorers.juice.comparison import Gold
from propensity.scorers.juice.location import Span
from propensity.scorers.juice.metrics import compute_metrics
from propensity.scorers.juice.records import Response, Settings
from propensity.scorers.juice.scorer import score_row
from propensity.tasks.juice.answers import (
    gold_answer,
    sentences_answer,
    span_item,
    spans_answer,
)
from propensity.tasks.juice.juice import SCORER, juice

ABSENT = 3
"""Spans (or sentences) that `absent_spans` invents per response."""
NOWHERE = "\u2042 not in the text \u2042"

Policy = Callable[[Gold], str]
"""Writes the answer to a response whose gold is known."""


def perfect(gold: Gold) -> str:
    """The gold itself."""
    return gold_answer(gold)


def silent(gold: Gold) -> str:
    """No error anywhere."""
    return _answer(gold, [], [])


def everything(gold: Gold) -> str:
    """Each paragraph, or each sentence."""
    paragraphs = [span for span in gold.locator.paragraphs if _text(gold, span).strip()]
    return _answer(gold, paragraphs, range(len(gold.sentences)))


def half(gold: Gold) -> str:
    """Every second error, the first among them."""
    return _answer(gold, _first_members(gold)[::2], sorted(gold.erroneous)[::2])


def shifted(gold: Gold) -> str:
    """Every error, but half a length (or one sentence) beside where it is."""
    beside = [index + 1 for index in gold.erroneous]
    return _answer(gold, [_beside(gold, span) for span in _first_members(gold)], beside)


def absent_spans(gold: Gold) -> str:
    """Texts and sentences that the response does not have."""
    n = len(gold.sentences)
    if gold.settings.protocol == "sentences":
        return sentences_answer(range(n, n + ABSENT))
    item = {"paragraph": 0, "occurrence": None, "category": None, "explanation": ""}
    return spans_answer([item | {"span": f"{NOWHERE} {place}"} for place in range(ABSENT)])


def prose(gold: Gold) -> str:
    """An opinion without any JSON."""
    return "I read the response with care, and it seems to be well written."


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.__name__: policy
        for policy in (perfect, silent, everything, half, shifted, absent_spans, prose)
    }
)


@solver
def juice_policy(name: str) -> Solver:
    """Answer every response with a reference judge.

    Args:
        name: One of `POLICIES`.

    Raises:
        ValueError: the judge does not exist.
    """
    checks = Checks("juice_policy")
    checks.one_of("name", name, list(POLICIES))
    checks.done()

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        settings = Settings.model_validate(state.metadata["scoring"])
        gold = Gold(Response.model_validate(state.metadata["response"]), settings)
        state.output = ModelOutput.from_content(f"policy/{name}", POLICIES[name](gold))
        state.messages.append(state.output.message)
        return state

    return solve


VARIABLE = ("pairs", "protocol", "prompt", "response_format", "unit", "threshold")
"""Parameters under which the expected values hold."""
PINNED: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("spans", "perfect"): {"n_pred": 204, "n_gold": 204},
    ("spans", "half"): {"n_pred": 106},
    ("spans", "everything"): {"precision": 0, "recall": 0, "precision_any": 112 / 198},
    ("spans", "shifted"): {"precision": 15 / 204, "recall": 15 / 204},
    ("sentences", "perfect"): {"n_pred": 196, "n_gold": 196},
    ("sentences", "half"): {"n_pred": 99},
    ("sentences", "everything"): {"precision": 196 / 700},
    ("sentences", "shifted"): {"precision": 47 / 196, "recall": 47 / 196, "bad_index": 8},
}
"""Protocol and judge → values on the shipped data with all defaults."""


def verify_cases(
    policies: Sequence[str] | None, sandbox: str | None, **task_args: Any
) -> list[VerifyCase]:
    """Pair every reference judge with what it must score on the shipped data.

    Raises:
        ValueError: unknown judge, a sandbox, or a parameter under which other values hold.
    """
    names = chosen_policies("juice", policies, list(POLICIES), sandbox, task_args, VARIABLE)
    return [_case(name, task_args) for name in names]


def observed(log: EvalLog) -> dict[str, float]:
    """Compute all metrics of a run from its sample values."""
    return compute_metrics(
        [
            score_row(
                SampleScore(
                    score=sample.scores[SCORER],
                    sample_id=sample.id,
                    sample_metadata=sample.metadata,
                )
            )
            for sample in log.samples or []
            if sample.scores is not None
        ]
    )


def _case(name: str, task_args: Mapping[str, Any]) -> VerifyCase:
    task = juice(**task_args)
    golds = [
        Gold(
            Response.model_validate(sample.metadata["response"]),
            Settings.model_validate(sample.metadata["scoring"]),
        )
        for sample in task.dataset
        if sample.metadata is not None
    ]
    protocol = golds[0].settings.protocol
    expected = expectations(name, golds)
    if not set(task_args) - {"protocol", "prompt", "response_format"}:
        expected |= PINNED.get((protocol, name), {})

    def check(log: EvalLog) -> list[Check]:
        return compared(expected, observed(log))

    return VerifyCase(label=name, task=task, solver=juice_policy(name), check=check)


def expectations(name: str, golds: Sequence[Gold]) -> dict[str, float]:
    """What follows for a reference judge from how it answers, and from the number of errors."""
    spans = golds[0].settings.protocol == "spans"
    errors = [len(gold.groups) if spans else len(gold.erroneous) for gold in golds]
    nothing = {"precision": math.nan, "recall": 0.0, "f1": 0.0, "n_pred": 0.0}
    if name == "perfect":
        thresholds = [f"f1_{step:02d}" for step in range(1, 11)] if spans else ["sentence_kappa"]
        return dict.fromkeys(["precision", "recall", "f1", *thresholds], 1.0)
    if name == "silent":
        return nothing | {"invalid_rate": 0.0}
    if name == "prose":
        return nothing | {"invalid_rate": 1.0}
    if name == "half":
        return {"precision": 1.0, "recall": sum(-(-n // 2) for n in errors) / sum(errors)}
    if name == "absent_spans":
        tally = "unlocatable_pred" if spans else "bad_index"
        invented = float(ABSENT * len(golds))
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0, tally: invented, "n_pred": invented}
    if name == "everything":
        return {"recall_any" if spans else "recall": 1.0}
    return {"n_pred": float(sum(errors))} if spans else {}


def _answer(gold: Gold, spans: Sequence[Span], sentences: Sequence[int]) -> str:
    if gold.settings.protocol == "sentences":
        return sentences_answer(sentences)
    return spans_answer([span_item(gold, _trimmed(gold, span)) for span in spans])


def _first_members(gold: Gold) -> list[Span]:
    """The first place of the first mark of each group."""
    return [group.spans[0] for group in gold.groups if group.spans]


def _beside(gold: Gold, span: Span) -> Span:
    """A span moved by half its length inside its paragraph, to the left if there is no room."""
    by = max(1, (span.end - span.start) // 2)
    paragraph = next(one for one in gold.locator.paragraphs if span.start < one.end)
    for moved in (Span(span.start + by, span.end + by), Span(span.start - by, span.end - by)):
        inside = paragraph.start <= moved.start and moved.end <= paragraph.end
        if inside and _text(gold, moved).strip():
            return moved
    return span


def _trimmed(gold: Gold, span: Span) -> Span:
    text = _text(gold, span)
    start = span.start + len(text) - len(text.lstrip())
    return Span(start, start + len(text.strip()))


def _text(gold: Gold, span: Span) -> str:
    return gold.locator.text[span.start : span.end]
