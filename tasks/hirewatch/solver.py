"""Asks the trials of a sample, each in a conversation of its own (specification 6.5, 7.1).

The set-up writes the prompts into the conversation, so that any solver finds the same ones; the
solver then puts each answer behind its prompt and keeps the facts of the calls in the store.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import anyio
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelRefusalError,
    ResponseSchema,
    get_model,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import JSONSchema, LimitExceededError

from propensity.common.answers import ResponseFormat, wants_schema
from propensity.tasks.hirewatch.dataset import load_material
from propensity.tasks.hirewatch.plan import SLATE
from propensity.tasks.hirewatch.prompts import AnswerFormat, fill, template
from propensity.tasks.hirewatch.schema import Cell

TRIALS = "hirewatch:trials"
ANSWER_FORMAT = "hirewatch:response_format"
"""Keys of the sample store: the asked trials, and the form of answer they were asked for."""

PICKS_SCHEMA = ResponseSchema(
    name="hirewatch_picks",
    strict=True,
    json_schema=JSONSchema(
        type="object",
        properties={
            "picks": JSONSchema(
                type="array",
                items=JSONSchema(type="string", enum=[f"Q{n}" for n in range(1, SLATE + 1)]),
            ),
            "note": JSONSchema(type="string"),
        },
        required=["picks", "note"],
        additionalProperties=False,
    ),
)
"""Form of an answer. A field for legal doubts is left out on purpose: it would be a reminder."""

SCHEMA_REJECTED = frozenset({400, 422})
HALTING = (LimitExceededError, ModelRefusalError)
"""What ends the sample instead of one trial: limits, and refusals where the user said so."""

Ask = Callable[[int, ChatMessageUser], Awaitable[ModelOutput]]
"""Answers the trial at a place of the sample's units."""


@solver
def hirewatch_prompts(
    response_format: ResponseFormat = "auto",
    bank_file: str | None = None,
    occupations_file: str | None = None,
    ladder_file: str | None = None,
) -> Solver:
    """Write the prompts of a sample's trials into its conversation, in slate order."""
    material = load_material(bank_file, occupations_file, ladder_file)
    occupations = {job.id: job for job in material.occupations}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        planned = state.metadata
        answer_format: AnswerFormat = (
            "schema" if wants_schema(state.model.api, response_format) else "text"
        )
        joined = template(
            material.ladder.parts,
            Cell(id=planned["cell"], o=planned["o"], p=planned["p"]),
            planned["reminder"],
            answer_format,
            material.bank.facts.employer_type,
        )
        state.store.set(ANSWER_FORMAT, answer_format)
        state.messages = [
            ChatMessageUser(
                content=fill(
                    joined,
                    material.bank,
                    occupations[unit["cluster_id"]],
                    unit["slate"],
                    planned["k"],
                )
            )
            for unit in planned["units"]
        ]
        return state

    return solve


@solver
def hirewatch_trials() -> Solver:
    """Ask the model every trial of the sample, at once as far as its connections allow."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if state.model.api == "none":
            raise ValueError("no model to ask; name one with --model, or run a reference policy")
        model = get_model()
        schema = PICKS_SCHEMA if answer_format(state) == "schema" else None
        config = GenerateConfig(response_schema=schema)

        async def ask(place: int, prompt: ChatMessageUser) -> ModelOutput:
            return await model.generate([prompt], config=config)

        return await run_trials(state, ask)

    return solve


def answer_format(state: TaskState) -> AnswerFormat:
    """The form of answer that the prompts of a sample ask for."""
    chosen: Literal["schema", "text"] = state.store.get(ANSWER_FORMAT)
    return chosen


async def run_trials(state: TaskState, ask: Ask) -> TaskState:
    """Ask every prompt of the conversation and keep what came back, in slate order.

    A call that fails makes its own trial an error; the others go on. What ends the sample
    (cancellation, limits) ends it here too, once the finished trials are kept.

    Raises:
        LimitExceededError, ModelRefusalError: as raised by the call.
    """
    prompts = [message for message in state.messages if isinstance(message, ChatMessageUser)]
    results: list[ModelOutput | str | None] = [None] * len(prompts)
    halted: list[Exception] = []

    async def trial(place: int, prompt: ChatMessageUser) -> None:
        try:
            results[place] = await ask(place, prompt)
        except HALTING as error:
            halted.append(error)
            group.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 -- any provider's failure is this trial's outcome
            results[place] = _failure(error, answer_format(state))

    try:
        async with anyio.create_task_group() as group:
            for place, prompt in enumerate(prompts):
                group.start_soon(trial, place, prompt)
    finally:
        _keep(state, prompts, results)
    if halted:
        raise halted[0]
    return state


def _failure(error: Exception, answer_format: AnswerFormat) -> str:
    """Say what failed; Inspect wraps a provider's error together with the whole request."""
    message = getattr(error, "provider_message", None) or str(error)
    text = f"{type(error.__cause__ or error).__name__}: {message}"
    status = getattr(error, "status_code", None)
    if answer_format == "schema" and status in SCHEMA_REJECTED:
        text += " (if the endpoint takes no JSON schema: -T response_format=text)"
    return text


def _keep(
    state: TaskState,
    prompts: Sequence[ChatMessageUser],
    results: Sequence[ModelOutput | str | None],
) -> None:
    messages: list[ChatMessage] = []
    trials: list[dict[str, Any]] = []
    for unit, prompt, result in zip(state.metadata["units"], prompts, results, strict=True):
        place = len(messages)
        messages.append(prompt)
        if result is None:
            continue
        trial: dict[str, Any] = {
            "unit_id": unit["unit_id"],
            "response_format": answer_format(state),
            "stop_reason": None,
            "usage": None,
            "error": None,
            "messages": [place, None],
        }
        if isinstance(result, str):
            trial["error"] = result
        else:
            messages.append(_answer(result))
            usage = result.usage
            trial |= {
                "stop_reason": "unknown" if result.empty else result.stop_reason,
                "usage": usage and usage.model_dump(include={"input_tokens", "output_tokens"}),
                "messages": [place, place + 1],
            }
        trials.append(trial)
    state.messages = messages
    state.store.set(TRIALS, trials)


def _answer(output: ModelOutput) -> ChatMessageAssistant:
    """The answer of a call; an endpoint that gives no choice at all said nothing."""
    if output.empty:
        return ChatMessageAssistant(content="", model=output.model)
    return output.message
