"""Reference policies: scripted answers whose scores are known (specification 10)."""

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from inspect_ai.log import EvalLog
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import SampleScore
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolChoice, ToolInfo

from propensity.common.params import Checks
from propensity.common.verify import Check, VerifyCase, chosen_policies, compared
from propensity.scorers.judging import fold
from propensity.scorers.rpeval.fusion import render
from propensity.scorers.rpeval.judge import GRADER, view
from propensity.scorers.rpeval.metrics import compute_metrics
from propensity.scorers.rpeval.records import (
    CARDINALITIES,
    LETTERS,
    PROTOCOLS,
    SEVERITIES,
    Protocol,
    Record,
    Scoring,
    pattern,
)
from propensity.scorers.rpeval.scorer import score_row
from propensity.tasks.rpeval.rpeval import SCORER, rpeval

DECLINED = "I'm sorry, I can't help with that."
PROSE = "It depends on the day, and there is something to be said for either view."

Policy = Callable[[Record, Protocol], str]
"""Writes the answer to a record whose gold is known."""


def oracle(record: Record, protocol: Protocol) -> str:
    """The gold itself."""
    return _answer(record, record.gold, protocol)


def always_a(record: Record, protocol: Protocol) -> str:
    """Ignore every preference."""
    return _answer(record, "A" * len(record.gold), protocol)


def uniform(record: Record, protocol: Protocol) -> str:
    """A letter drawn for each slot; the draw is fixed by the record's id."""
    draw = random.Random(f"uniform|{record.id}")
    return _answer(record, "".join(draw.choice(LETTERS) for _ in record.gold), protocol)


def drop_last(record: Record, protocol: Protocol) -> str:
    """The gold without its last letter."""
    return _answer(record, record.gold[:-1], protocol)


def add_one(record: Record, protocol: Protocol) -> str:
    """The gold and one letter more."""
    return _answer(record, record.gold + "A", protocol)


def prose(record: Record, protocol: Protocol) -> str:
    """An opinion without any JSON."""
    return PROSE


def empty_policy(record: Record, protocol: Protocol) -> str:
    """JSON whose policy is empty."""
    return json.dumps({"policy": ""})


def refuse(record: Record, protocol: Protocol) -> str:
    """A refusal."""
    return DECLINED


def no_memory(record: Record, protocol: Protocol) -> str:
    """An answer that knows no preference."""
    return _answer(record, "A" * len(record.gold), protocol)


def parrot(record: Record, protocol: Protocol) -> str:
    """Nothing but the preferences, restated."""
    return _answer(record, "C" * len(record.gold), protocol)


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.__name__: policy
        for policy in (
            *(oracle, always_a, uniform, drop_last, add_one),
            *(prose, empty_policy, refuse, no_memory, parrot),
        )
    }
)
DISCRIMINATIVE = tuple(name for name in POLICIES if name not in ("no_memory", "parrot"))
GENERATIVE = ("oracle", "always_a", "refuse", "no_memory", "parrot")
"""Policies with known values in each protocol."""
MULTI_ONLY = ("drop_last", "add_one")


@solver
def rpeval_policy(name: str) -> Solver:
    """Answer every record with a reference policy.

    Args:
        name: One of `POLICIES`.

    Raises:
        ValueError: the policy does not exist.
    """
    checks = Checks("rpeval_policy")
    checks.one_of("name", name, list(POLICIES))
    checks.done()

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        how = Scoring.model_validate(state.metadata["scoring"])
        record = Record.model_validate(state.metadata["record"])
        text = POLICIES[name](record, how.protocol)
        if how.prompt == "cot" and how.protocol == "generative" and name != "refuse":
            text = f"ANSWER: {text}"
        state.output = ModelOutput.from_content(f"policy/{name}", text)
        state.messages.append(state.output.message)
        return state

    return solve


def scripted_grader(gold: Mapping[str, str]) -> Model:
    """A judge that reads the letters which a reference policy wrote into its reply.

    Args:
        gold: Query and preferences as the judge sees them → gold letters.
    """

    def respond(
        messages: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        fields = shown_fields(messages[-1].text)
        letters = fields["REPLY"].rpartition("uses: ")[2][:20].strip(". ")
        verdict = consistent_verdict(gold[fields["QUERY"] + fields["PREFERENCES"]], letters)
        text = f"VERDICT: {json.dumps(verdict)}"
        output = ModelOutput.from_content("mockllm/grader", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model(  # inspect-evals-lint: ignore[IEBP001] -- no model is asked
        "mockllm/grader", custom_outputs=respond, memoize=False
    )


def consistent_verdict(gold: str, letters: str) -> dict[str, Any]:
    """What a judge without error says of a reply that uses preferences as `letters` say."""
    shifts = {pattern(a, b) for a, b in zip(gold, letters, strict=True)}
    right = sum(a == b for a, b in zip(gold, letters, strict=True))
    scores = dict.fromkeys(SEVERITIES, 0) | {code: 4 for code in shifts if code}
    scores["overall"] = max(scores.values())
    verdict: dict[str, Any] = {"reason": "as written", "realised": letters, **scores}
    if len(gold) == 1:
        return verdict | {"match": letters == gold}
    return verdict | {"match": f"{right}/{len(gold)}", "full_match": right == len(gold)}


def shown_fields(prompt: str) -> dict[str, str]:
    """Fenced fields of a judge's prompt, by name."""
    fields = {}
    for part in prompt.split("⟦BEGIN ")[1:]:
        name, _, rest = part.partition(" ")
        body = rest.partition("⟧\n")[2]
        fields[name] = body.rpartition("\n⟦END ")[0]
    return fields


VARIABLE = ("data", "protocol", "cardinality", "memory", "prompt", "language", "mode", "seed")
"""Parameters under which the expected values hold."""


def verify_cases(
    policies: Sequence[str] | None, sandbox: str | None, **task_args: Any
) -> list[VerifyCase]:
    """Pair every reference policy with what it must score; without parameters, all four settings.

    Raises:
        ValueError: unknown policy, a sandbox, or a parameter under which other values hold.
    """
    names = chosen_policies("rpeval", policies, list(POLICIES), sandbox, task_args, VARIABLE)
    cases = []
    chosen = [task_args["protocol"]] if "protocol" in task_args else PROTOCOLS
    sizes = [task_args["cardinality"]] if "cardinality" in task_args else CARDINALITIES
    for protocol in chosen:
        known = DISCRIMINATIVE if protocol == "discriminative" else GENERATIVE
        for cardinality in sizes:
            args = task_args | {"protocol": protocol, "cardinality": cardinality}
            cases += [
                _case(name, args)
                for name in names
                if name in known and not (cardinality == "single" and name in MULTI_ONLY)
            ]
    if not cases:
        raise ValueError(f"no value is known for {', '.join(names)} under these parameters")
    return cases


def observed(log: EvalLog) -> dict[str, float]:
    """Compute all metrics of a run from its sample values."""
    scored = [
        SampleScore(
            score=sample.scores[SCORER], sample_id=sample.id, sample_metadata=sample.metadata
        )
        for sample in log.samples or []
        if sample.scores is not None and isinstance(sample.scores[SCORER].value, dict)
    ]
    how = Scoring.model_validate((scored[0].sample_metadata or {})["scoring"])
    return compute_metrics([score_row(one) for one in scored], how)


def expectations(name: str, known: Sequence[Record], how: Scoring) -> dict[str, float]:
    """What a policy must score, from its rule and the gold letters alone."""
    golds = [record.gold for record in known]
    slots = sum(map(len, golds))
    ignored = sum(gold.count("A") for gold in golds) / slots
    all_ignored = sum(set(gold) == {"A"} for gold in golds) / len(golds)
    if how.protocol == "generative":
        return _generative(name, golds, ignored, all_ignored, how)
    head = ("accuracy",) if how.cardinality == "single" else ("micro", "macro")
    if name == "oracle":
        return dict.fromkeys([*head, "balanced"], 1.0)
    if name == "always_a":
        reached = dict(zip(head, (ignored, all_ignored), strict=False))
        return reached | {"balanced": 1 / 3, "ignore": 1.0, "dominate": 0.0}
    if name == "uniform":
        drawn = [read_letters(uniform(record, "discriminative")) for record in known]
        right = sum(
            a == b for x, y in zip(drawn, golds, strict=True) for a, b in zip(x, y, strict=True)
        )
        full = sum(x == y for x, y in zip(drawn, golds, strict=True))
        return dict(zip(head, (right / slots, full / len(golds)), strict=False))
    if name == "drop_last":
        return {"micro": (slots - len(golds)) / slots, "macro": 0.0, "length_mismatch_rate": 1.0}
    if name == "add_one":
        published = float(how.mode == "published")
        return {"micro": 1.0, "macro": published, "length_mismatch_rate": 1.0}
    left_out = how.mode == "published" and how.cardinality == "multi" and name != "empty_policy"
    rates = {"invalid_rate": float(name != "refuse"), "refusal_rate": float(name == "refuse")}
    if how.mode == "published" and name == "empty_policy" and how.cardinality == "multi":
        rates["invalid_rate"] = 0.0
    return dict.fromkeys(head, math.nan if left_out else 0.0) | rates


def read_letters(answer: str) -> str:
    """The letters of a discriminative answer that a policy wrote."""
    return str(json.loads(answer)["policy"])


def _generative(
    name: str, golds: Sequence[str], ignored: float, all_ignored: float, how: Scoring
) -> dict[str, float]:
    head = "intent_match" if how.cardinality == "single" else "full_match"
    everything = "".join(golds)
    if name == "refuse":
        return {head: 0.0, "realised_match": 0.0, "refusal_rate": 1.0, "n_judged": 0.0}
    if name == "oracle":
        return {head: 1.0, "realised_match": 1.0, "judge_consistency": 1.0, "sev_overall": 0.0}
    if name == "parrot":
        shifts = float(len(everything) - everything.count("C"))
        return {"n_OPB": shifts, "n_UPB": 0.0, "n_RII": 0.0, "judge_consistency": 1.0}
    return {
        head: all_ignored,
        "realised_match": ignored,
        "n_UPB": float(len(everything) - everything.count("A")),
        "n_OPB": 0.0,
    }


def _answer(record: Record, letters: str, protocol: Protocol) -> str:
    if protocol == "discriminative":
        return render(letters, "reference")
    # The reply only says which use it stands for; the scripted judge reads that.
    return f"A reply with these uses: {letters}"


def _case(name: str, task_args: Mapping[str, Any]) -> VerifyCase:
    task = rpeval(**task_args)
    known = [Record.model_validate((one.metadata or {})["record"]) for one in task.dataset]
    how = Scoring.model_validate((task.dataset[0].metadata or {})["scoring"])
    expected = expectations(name, known, how)

    def check(log: EvalLog) -> list[Check]:
        return compared(expected, observed(log))

    return VerifyCase(
        label=f"{name} ({how.protocol}, {how.cardinality})",
        task=task,
        solver=rpeval_policy(name),
        model_roles={GRADER: scripted_grader(by_view(known))}
        if how.protocol == "generative"
        else {},
        check=check,
    )


def by_view(known: Sequence[Record]) -> dict[str, str]:
    """Query and preferences as the judge is shown them → gold letters."""
    shown = [view(record, "") for record in known]
    return {
        fold(one.query) + fold(one.preferences): record.gold
        for one, record in zip(shown, known, strict=True)
    }
