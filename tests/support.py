"""Scripted models and runs for tests: always offline, always with usage."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    StopReason,
    get_model,
)
from inspect_ai.tool import ToolCall, ToolChoice, ToolInfo

Script = Callable[[list[ChatMessage], list[ToolInfo]], ModelOutput | str]

LOGS = tempfile.TemporaryDirectory(prefix="propensity-logs-")
"""Holds the logs of this process's runs, and goes with it."""


def say(text: str, stop_reason: StopReason = "stop") -> ModelOutput:
    """A text answer; `mockllm` without usage would try to download a tokenizer."""
    return _with_usage(ModelOutput.from_content("mockllm/model", text, stop_reason=stop_reason))


def call(tool: str, **arguments: Any) -> ModelOutput:
    """An answer that calls one tool."""
    return calls((tool, arguments))


def calls(*wanted: tuple[str, dict[str, Any]]) -> ModelOutput:
    """An answer that calls several tools at once."""
    tool_calls = [
        ToolCall(id=f"call-{index}-{tool}", function=tool, arguments=arguments)
        for index, (tool, arguments) in enumerate(wanted)
    ]
    output = ModelOutput.from_content("mockllm/model", "", stop_reason="tool_calls")
    output.choices[0].message = ChatMessageAssistant(
        content="", tool_calls=tool_calls, model="mockllm/model", source="generate"
    )
    return _with_usage(output)


def scripted(*outputs: ModelOutput | str | Script, name: str = "model") -> Model:
    """A model that says the given outputs in order, or what a function of its input says.

    A script that runs dry raises and tells the turn. Arguments of tool calls are checked
    against the tools on offer: a mistyped name would otherwise reach the tool as nothing.
    """
    script = outputs[0] if len(outputs) == 1 and callable(outputs[0]) else None
    remaining: Iterator[Any] = iter(outputs)
    turn = 0

    def respond(
        messages: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        nonlocal turn
        turn += 1
        answer = script(messages, tools) if script else next(remaining, None)
        if answer is None:
            raise AssertionError(f"the script of {name} has no output for turn {turn}")
        output = say(answer) if isinstance(answer, str) else answer
        _check_arguments(output, tools)
        return _with_usage(output)

    return get_model(f"mockllm/{name}", custom_outputs=respond, memoize=False)


def run(task: Task | list[Task], **options: Any) -> EvalLog:
    """Evaluate one task quietly into a temporary folder and return its full log."""
    return run_all(task, **options)[0]


def run_all(task: Task | list[Task], **options: Any) -> list[EvalLog]:
    """Evaluate and return all logs, read back from disk as a later reader would see them."""
    options.setdefault("log_dir", tempfile.mkdtemp(dir=LOGS.name))
    options.setdefault("display", "none")
    options.setdefault("model", "none")
    logs = eval(task, **options)
    return [read_eval_log(log.location) for log in logs]


def _check_arguments(output: ModelOutput, tools: Iterable[ToolInfo]) -> None:
    known = {tool.name: set(tool.parameters.properties) for tool in tools}
    for tool_call in output.message.tool_calls or [] if output.choices else []:
        if tool_call.function in known:
            extra = set(tool_call.arguments) - known[tool_call.function]
            if extra:
                raise AssertionError(f"{tool_call.function} has no argument {sorted(extra)}")


def _with_usage(output: ModelOutput) -> ModelOutput:
    if output.usage is None:
        output.usage = ModelUsage(input_tokens=7, output_tokens=3, total_tokens=10)
    return output
