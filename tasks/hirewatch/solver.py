"""Asks the trials of a sample, each in a conversation of its own (specification 6.5, 7.1).

Prompts are rendered when a sample starts, from what its metadata plans, so that a reference
policy finds the same ones. Answers stand behind their prompts in the sample's conversation; the
facts of the calls stand in its store.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

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

from propensity.common.answers import wants_schema
from propensity.tasks.hirewatch.dataset import load_material
from propensity.tasks.hirewatch.plan import SLATE
from propensity.tasks.hirewatch.prompts import AnswerFormat, fill, template
from propensity.tasks.hirewatch.schema import Cell

TRIALS = "hirewatch:trials"
"""Key of the sample store: facts of the trials that were asked, in slate order."""

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


class CallsFailed(RuntimeError):
    """Every trial of a sample ended in a failed call."""


Ask = Callable[[int, ChatMessageUser], Awaitable[ModelOutput]]
"""Answers the trial at a place of the sample's units."""


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
    asked = wants_schema(state.model.api, state.metadata["response_format"])
    return "schema" if asked else "text"


def prompts(state: TaskState) -> list[ChatMessageUser]:
    """Render the prompts of a sample's trials, in slate order.

    Raises:
        DataFileError: a data file can no longer be read.
        ValueError: a data file has changed since the run was planned.
    """
    planned = state.metadata
    material = load_material(*planned["files"])
    if material.digest != planned["material"]:
        raise ValueError("a data file changed after the run was planned; start the run again")
    occupations = {job.id: job for job in material.occupations}
    joined = template(
        material.ladder.parts,
        Cell(id=planned["cell"], o=planned["o"], p=planned["p"]),
        planned["reminder"],
        answer_format(state),
        material.bank.facts.employer_type,
    )
    return [
        ChatMessageUser(
            id=unit["unit_id"],
            content=fill(
                joined,
                material.bank,
                occupations[unit["cluster_id"]],
                unit["slate"].split(),
                planned["k"],
            ),
        )
        for unit in planned["units"]
    ]


async def run_trials(state: TaskState, ask: Ask) -> TaskState:
    """Ask every planned prompt and keep what came back, in slate order.

    A call that fails makes its own trial an error; the others go on. Where every call failed the
    sample failed, so that Inspect retries it. What ends the sample (cancellation, limits) ends it
    here too, once the finished trials are kept.

    Raises:
        CallsFailed: no call came back.
        LimitExceededError, ModelRefusalError: as raised by the call.
    """
    asked = prompts(state)
    form = answer_format(state)
    results: list[ModelOutput | str | None] = [None] * len(asked)
    halted: list[Exception] = []

    async def trial(place: int, prompt: ChatMessageUser) -> None:
        try:
            results[place] = await ask(place, prompt)
        except HALTING as error:
            halted.append(error)
            group.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 -- any provider's failure is this trial's outcome
            results[place] = _failure(error, form)

    try:
        async with anyio.create_task_group() as group:
            for place, prompt in enumerate(asked):
                group.start_soon(trial, place, prompt)
    finally:
        _keep(state, form, asked, results)
    if halted:
        raise halted[0]
    failed = [result for result in results if isinstance(result, str)]
    if failed and len(failed) == len(results):
        raise CallsFailed(f"all {len(failed)} calls failed; the first: {failed[0]}")
    return state


def _failure(error: Exception, form: AnswerFormat) -> str:
    """Say what failed; Inspect wraps a provider's error together with the whole request."""
    provider_message = getattr(error, "provider_message", None)
    source = error.__cause__ if provider_message and error.__cause__ else error
    text = f"{type(source).__name__}: {provider_message or error}"
    status = getattr(error, "status_code", None)
    if form == "schema" and status in SCHEMA_REJECTED:
        text += " (if the endpoint takes no JSON schema: -T response_format=text)"
    return text


def _keep(
    state: TaskState,
    form: AnswerFormat,
    asked: Sequence[ChatMessageUser],
    results: Sequence[ModelOutput | str | None],
) -> None:
    messages: list[ChatMessage] = []
    trials: list[dict[str, Any]] = []
    for unit, prompt, result in zip(state.metadata["units"], asked, results, strict=True):
        place = len(messages)
        messages.append(prompt)
        if result is None:
            continue
        trial: dict[str, Any] = {
            "unit_id": unit["unit_id"],
            "response_format": form,
            "messages": [place, None],
        }
        if isinstance(result, str):
            trial["error"] = result
        else:
            messages.append(_answer(result))
            usage = result.usage
            trial |= {
                "stop_reason": "unknown" if result.empty else result.stop_reason,
                "messages": [place, place + 1],
            }
            if usage:
                trial |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        trials.append(trial)
    state.messages = messages
    state.store.set(TRIALS, trials)


def _answer(output: ModelOutput) -> ChatMessageAssistant:
    """The answer of a call; an endpoint that gives no choice at all said nothing."""
    if output.empty:
        return ChatMessageAssistant(content="", model=output.model)
    return output.message
