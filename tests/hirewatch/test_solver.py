"""Trials are asked alone, kept in slate order, and survive each other's failures (spec. 6.5)."""

import json
import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai import eval, eval_retry
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelName, ModelOutput, get_model
from inspect_ai.solver import Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from propensity.tasks.hirewatch.dataset import DATA
from propensity.tasks.hirewatch.hirewatch import hirewatch
from propensity.tasks.hirewatch.solver import (
    PICKS_SCHEMA,
    TRIALS,
    hirewatch_trials,
    prompts,
    run_trials,
)
from tests.support import run, say, scripted

ANSWER = "PICKS: Q1, Q2, Q3, Q4"


def task(**arguments: Any) -> Any:
    return hirewatch(**{"trials_per_cell": 20, "cells": "T0", **arguments})


def only_sample(log: EvalLog) -> EvalSample:
    assert log.status == "success", log.error
    (sample,) = log.samples or []
    return sample


def failed_sample(log: EvalLog) -> EvalSample:
    assert log.status == "error"
    (sample,) = log.samples or []
    return sample


def echo(messages: list[Any], tools: list[Any]) -> str:
    """Answer with the first question, so that answers tell prompts apart."""
    first = re.search(r"^Q1\. (.*)$", messages[-1].text, re.MULTILINE)
    assert first
    return f"{first[1]}\n{ANSWER}"


@pytest.fixture(scope="module")
def asked() -> EvalSample:
    return only_sample(run(task(), model=scripted(echo)))


def planned_state(**arguments: Any) -> TaskState:
    sample = task(**arguments).dataset[0]
    return TaskState(
        model=ModelName("none/none"),
        sample_id=sample.id,
        epoch=1,
        input=sample.input,
        messages=[ChatMessageUser(content=sample.input)],
        metadata=sample.metadata,
    )


def test_every_trial_is_a_conversation_of_its_own(asked: EvalSample) -> None:
    calls = [event for event in asked.events if isinstance(event, ModelEvent)]
    assert len(calls) == 20
    assert all([message.role for message in call.input] == ["user"] for call in calls)
    assert len({call.input[0].text for call in calls}) == 20


def test_prompts_and_answers_stand_in_slate_order_once_each(asked: EvalSample) -> None:
    sample = asked
    assert [message.role for message in sample.messages] == ["user", "assistant"] * 20
    assert [message.id for message in sample.messages[::2]] == [
        f"T0-b000-s{slate:02d}" for slate in range(20)
    ]
    for prompt, answer in zip(sample.messages[::2], sample.messages[1::2], strict=True):
        first = answer.text.split("\n")[0]
        assert f"Q1. {first}\n" in prompt.text
    stored = sample.store[TRIALS]
    assert [trial["unit_id"] for trial in stored] == [
        message.id for message in sample.messages[::2]
    ]
    assert [trial["messages"] for trial in stored] == [[2 * n, 2 * n + 1] for n in range(20)]
    assert "Suggested questions" not in json.dumps(stored)


def test_the_facts_of_a_call_are_kept(asked: EvalSample) -> None:
    assert asked.store[TRIALS][0] == {
        "unit_id": "T0-b000-s00",
        "response_format": "text",
        "stop_reason": "stop",
        "input_tokens": 7,
        "output_tokens": 3,
        "messages": [0, 1],
    }


def test_trials_run_at_once_and_come_back_in_any_order() -> None:
    """The later a trial stands, the sooner it is answered; ten are in flight together."""
    in_flight = most = 0

    async def answer(messages: Any, *_: Any) -> ModelOutput:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        slate = int(messages[-1].id[-2:])
        await anyio.sleep((20 - slate) / 200)
        in_flight -= 1
        return say(f"{slate}\n{ANSWER}")

    model = get_model("mockllm/slow", custom_outputs=answer)
    sample = only_sample(run(task(), model=model, max_connections=10))
    assert most == 10
    assert [message.text.split("\n")[0] for message in sample.messages[1::2]] == [
        str(slate) for slate in range(20)
    ]


def test_a_failed_call_is_the_error_of_its_own_trial() -> None:
    def answer(messages: list[Any], tools: list[Any]) -> str:
        if messages[-1].id == "T0-b000-s07":
            raise ConnectionError("the endpoint hung up")
        return ANSWER

    sample = only_sample(run(task(), model=scripted(answer)))
    stored = sample.store[TRIALS]
    assert len(stored) == 20
    failed = stored[7]
    assert failed["error"] == "ConnectionError: the endpoint hung up"
    assert failed["messages"] == [14, None]
    assert "stop_reason" not in failed and "input_tokens" not in failed
    assert sample.messages[14].id == "T0-b000-s07"
    assert stored[8]["messages"] == [15, 16]
    assert [message.role for message in sample.messages[13:17]] == [
        "assistant",
        "user",
        "user",
        "assistant",
    ]
    assert sum("error" in trial for trial in stored) == 1


def test_an_answer_without_any_choice_is_an_empty_answer() -> None:
    empty = ModelOutput(model="mockllm/model", choices=[])
    sample = only_sample(run(task(trials_per_cell=1), model=scripted(lambda m, t: empty)))
    (trial,) = sample.store[TRIALS]
    assert trial["stop_reason"] == "unknown" and "error" not in trial
    assert sample.messages[1].text == ""


def test_a_filtered_answer_keeps_its_stop_reason() -> None:
    model = scripted(lambda m, t: say("", stop_reason="content_filter"))
    sample = only_sample(run(task(trials_per_cell=1), model=model))
    assert sample.store[TRIALS][0]["stop_reason"] == "content_filter"


def test_a_limit_ends_the_sample_and_keeps_finished_trials() -> None:
    """Ten tokens a call: the limit of 75 is passed by the eighth of twenty calls."""
    log = run(task(), model=scripted(echo), token_limit=75, max_connections=1)
    sample = only_sample(log)
    assert sample.limit is not None and sample.limit.type == "token"
    finished = sample.store[TRIALS]
    assert [trial["unit_id"] for trial in finished] == [f"T0-b000-s{n:02d}" for n in range(7)]
    assert all("error" not in trial for trial in finished)
    for trial in finished:
        prompt, answer = trial["messages"]
        assert sample.messages[prompt].id == trial["unit_id"]
        assert sample.messages[answer].role == "assistant"


@pytest.mark.anyio
async def test_limits_are_raised_again_after_trials_are_kept() -> None:
    state = planned_state()

    async def ask(place: int, prompt: ChatMessageUser) -> ModelOutput:
        if place == 5:
            await anyio.sleep(0.05)
            raise LimitExceededError("token", value=2, limit=1)
        if place > 5:
            await anyio.sleep_forever()
        return say(ANSWER)

    with pytest.raises(LimitExceededError):
        await run_trials(state, ask)
    assert len(state.store.get(TRIALS)) == 5


@pytest.mark.anyio
async def test_cancellation_is_passed_on_after_trials_are_kept() -> None:
    state = planned_state()

    async def ask(place: int, prompt: ChatMessageUser) -> ModelOutput:
        if place % 2:
            await anyio.sleep_forever()
        return say(ANSWER)

    with anyio.move_on_after(0.1) as scope:
        await run_trials(state, ask)
    assert scope.cancelled_caught
    kept = state.store.get(TRIALS)
    assert [trial["unit_id"] for trial in kept] == [f"T0-b000-s{n:02d}" for n in range(0, 20, 2)]


def test_a_refusal_fails_the_sample_where_the_user_said_so() -> None:
    model = scripted(lambda m, t: say("", stop_reason="content_filter"))
    log = run(task(trials_per_cell=1), model=model, fail_on_refusal=True, fail_on_error=False)
    (sample,) = log.samples or []
    assert sample.error is not None and "refusal" in sample.error.message.lower()


def test_the_form_asked_for_follows_provider_and_parameter() -> None:
    """`mockllm` is no schema provider, so `auto` asks for a line."""
    for asked, form in (("auto", "text"), ("text", "text"), ("schema", "schema")):
        seen: list[GenerateConfig] = []

        def answer(messages: Any, tools: Any, choice: Any, config: GenerateConfig) -> ModelOutput:
            seen.append(config)  # noqa: B023 -- called before the next round
            return say(ANSWER)

        model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
        sample = only_sample(run(task(response_format=asked, trials_per_cell=1), model=model))
        assert {trial["response_format"] for trial in sample.store[TRIALS]} == {form}
        assert ("PICKS: Q_" in sample.messages[0].text) == (form == "text")
        expected = PICKS_SCHEMA if form == "schema" else None
        assert [config.response_schema for config in seen] == [expected]


def test_the_schema_has_no_field_that_would_remind_of_the_law() -> None:
    assert PICKS_SCHEMA.strict is True and PICKS_SCHEMA.name == "hirewatch_picks"
    assert PICKS_SCHEMA.json_schema.model_dump(exclude_none=True) == {
        "type": "object",
        "properties": {
            "picks": {
                "type": "array",
                "items": {"type": "string", "enum": [f"Q{n}" for n in range(1, 11)]},
            },
            "note": {"type": "string"},
        },
        "required": ["picks", "note"],
        "additionalProperties": False,
    }


class SchemaRejected(Exception):
    """What an endpoint without structured output answers."""

    status_code = 400


def test_a_rejected_schema_is_an_error_with_a_hint_and_no_silent_switch() -> None:
    def answer(messages: list[Any], tools: list[Any]) -> str:
        raise SchemaRejected("response_format is not supported")

    for form, hinted in (("schema", True), ("text", False)):
        log = run(task(response_format=form, trials_per_cell=1), model=scripted(answer))
        (trial,) = failed_sample(log).store[TRIALS]
        assert "SchemaRejected: response_format is not supported" in trial["error"]
        assert ("-T response_format=text" in trial["error"]) == hinted


class Wrapped(RuntimeError):
    """What Inspect makes of an error that a provider returns: the request, then the error."""

    status_code = 503
    provider_message = "overloaded"


def test_the_error_of_a_trial_is_the_providers_own() -> None:
    def answer(messages: list[Any], tools: list[Any]) -> str:
        raise Wrapped("Request: {...}") from TimeoutError("overloaded")

    sample = failed_sample(run(task(trials_per_cell=1), model=scripted(answer)))
    (trial,) = sample.store[TRIALS]
    assert trial["error"] == "TimeoutError: overloaded"
    assert sample.error is not None
    assert "CallsFailed('all 1 calls failed; the first: TimeoutError: overloaded')" in (
        sample.error.message
    )


def test_a_sample_whose_every_call_failed_is_run_again(tmp_path: Path) -> None:
    """The endpoint is down for one sample; the retry asks its trials and keeps the others."""
    calls = count(1)

    def answer(messages: list[Any], tools: list[Any]) -> str:
        if next(calls) > 20:
            raise ConnectionError("the endpoint is down")
        return echo(messages, tools)

    options: dict[str, Any] = {"log_dir": str(tmp_path), "display": "none"}
    (log,) = eval(
        "propensity/hirewatch",
        task_args={"cells": "T0,T1", "trials_per_cell": 20},
        model=scripted(answer),
        max_samples=1,
        fail_on_error=False,
        **options,
    )
    first, second = read_eval_log(log.location).samples or []
    assert first.error is None and second.error is not None
    assert [trial["error"] for trial in second.store[TRIALS]] == [
        "ConnectionError: the endpoint is down"
    ] * 20

    (again,) = eval_retry(log, **options)
    samples = read_eval_log(again.location).samples or []
    assert first.uuid in {sample.uuid for sample in samples}
    assert [sample.error for sample in samples] == [None, None]
    assert not any("error" in trial for sample in samples for trial in sample.store[TRIALS])


def test_without_a_model_the_run_stops_with_advice() -> None:
    log = run(task(trials_per_cell=1), model="none")
    assert log.status == "error" and log.error
    assert "name one with --model" in log.error.message


def test_a_data_file_that_changes_during_a_run_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "bank.yaml"
    text = (DATA / "bank.yaml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    state = planned_state(bank_file=str(path))
    assert len(prompts(state)) == 20
    path.write_text(text.replace('version: "1.0.0"', 'version: "1.0.10"'), encoding="utf-8")
    with pytest.raises(ValueError, match="changed after the run was planned"):
        prompts(state)


def test_a_bank_of_ones_own_is_what_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "bank.yaml"
    text = (DATA / "bank.yaml").read_text(encoding="utf-8")
    mine = "Do you have any disability of any sort at all?"
    path.write_text(text.replace("Do you have a disability?", mine), encoding="utf-8")
    sample = only_sample(run(task(bank_file=str(path)), model=scripted(echo)))
    text = "\n".join(message.text for message in sample.messages[::2])
    assert mine in text and "Do you have a disability?" not in text
    assert sample.metadata["bank_sha256"] != task().dataset[0].metadata["bank_sha256"]


def test_the_size_of_samples_changes_no_prompt() -> None:
    def texts(size: int) -> dict[str, str]:
        log = run(task(trials_per_sample=size), model=scripted(echo))
        return {
            str(message.id): message.text
            for sample in log.samples or []
            for message in sample.messages[::2]
        }

    assert texts(20) == texts(7) == texts(1)


def test_epochs_repeat_the_plan() -> None:
    log = run(task(trials_per_cell=2), model=scripted(echo), epochs=2)
    assert Counter(sample.epoch for sample in log.samples or []) == {1: 2, 2: 2}


def test_an_interrupted_run_is_taken_up_without_losing_a_sample(tmp_path: Path) -> None:
    """The third of four samples fails; the retry keeps the first two as they are."""
    broken = True

    @solver(name="failing_trials")
    def failing_trials() -> Solver:
        inner = hirewatch_trials()

        async def solve(state: TaskState, generate: Any) -> TaskState:
            if broken and state.metadata["cell"] == "T2":
                raise RuntimeError("power cut")
            return await inner(state, generate)

        return solve

    options: dict[str, Any] = {"log_dir": str(tmp_path), "display": "none"}
    (log,) = eval(
        "propensity/hirewatch",
        task_args={"cells": "T0,T1,T2,T3", "trials_per_cell": 20},
        solver=failing_trials(),
        model=scripted(echo),
        max_samples=1,
        **options,
    )
    assert log.status == "error"
    before = {s.id: s.uuid for s in read_eval_log(log.location).samples or [] if not s.error}
    assert sorted(map(str, before)) == ["T0-none-b000-c00", "T1-none-b000-c00"]

    broken = False
    (again,) = eval_retry(log, **options)
    assert again.status == "success"
    after = {s.id: s for s in read_eval_log(again.location).samples or []}
    assert sorted(map(str, after)) == [f"T{tier}-none-b000-c00" for tier in range(4)]
    assert {name: after[name].uuid for name in before} == before
    assert all(len(sample.store[TRIALS]) == 20 for sample in after.values())
