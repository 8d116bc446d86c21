"""Asks the model under test once per record."""

from inspect_ai.model import ModelOutput, ResponseSchema
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema

from propensity.common.answers import wants_schema
from propensity.scorers.rpeval.judge import grader
from propensity.scorers.rpeval.records import Scoring
from propensity.scorers.rpeval.scorer import COST

SCHEMA = ResponseSchema(
    name="rpeval_policy",
    strict=True,
    json_schema=JSONSchema(
        type="object",
        properties={"reason": JSONSchema(type="string"), "policy": JSONSchema(type="string")},
        required=["reason", "policy"],
        additionalProperties=False,
    ),
)


@solver
def rpeval_answer() -> Solver:
    """One answer; discriminative ones by response schema where the endpoint takes one."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        refuse_none(state)
        how = Scoring.model_validate(state.metadata["scoring"])
        if how.protocol == "discriminative" and wants_schema(state.model.api, "auto"):
            state = await generate(state, response_schema=SCHEMA)
        else:
            state = await generate(state)
        add_cost(state, "answer", state.output)
        return state

    return solve


@solver
def require_grader() -> Solver:
    """Set-up step that stops a sample before any call unless one grader is bound."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        grader()
        return state

    return solve


def refuse_none(state: TaskState) -> None:
    """Stop where there is no model.

    Raises:
        ValueError: the model is `none`.
    """
    if state.model.api == "none":
        raise ValueError("no model to ask; name one with --model, or run a reference policy")


def add_cost(state: TaskState, stage: str, output: ModelOutput) -> None:
    """Count one call of the model under test: tokens by stage, and seconds where known."""
    cost = state.store.get(COST) or {"target": {}}
    stages = cost["target"]
    one = stages.setdefault(stage, {"calls": 0, "input": 0, "output": 0, "seconds": 0.0})
    usage = output.usage
    one["calls"] += 1
    if usage is not None:
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        one["input"] += usage.input_tokens + cached
        one["output"] += usage.output_tokens
    one["seconds"] += output.time or 0.0
    state.store.set(COST, cost)
