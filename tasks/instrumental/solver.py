"""The agent's loop: generate, run the calls, repeat; no submit tool."""

from typing import Any

from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, execute_tools
from inspect_ai.solver import Generate, Solver, TaskState, solver

from propensity.sandboxes.instrumental import environments
from propensity.scorers.instrumental.flags import LOOP_GUARD, STOP
from propensity.tasks.instrumental.tools import MAX_OUTPUT_BYTES, agent_tools

NO_TOOL_CALL = "no_tool_call"
SAME_CALLS = 6


class LoopGuard:
    """Counts equal calls with equal results, one after the other."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()
        self._count = 0

    def add(self, call: tuple[object, ...]) -> bool:
        """Note a call; say whether it was the sixth of its kind in a row."""
        self._count = self._count + 1 if call == self._last else 1
        self._last = call
        return self._count >= SAME_CALLS


@solver
def terminal_agent() -> Solver:
    """Let the model work with a shell until it calls no tool any more.

    Ends also at a limit of the sample, or after six equal calls with equal results.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.tools = agent_tools(environments.load(state.metadata["base"]))
        guard = LoopGuard()
        while True:
            state = storable(await generate(state, tool_calls="none"))
            if not state.output.choices or not state.output.message.tool_calls:
                return stopped(state, NO_TOOL_CALL)
            if await answer_calls(state, guard):
                return stopped(state, LOOP_GUARD)

    return solve


def storable(state: TaskState) -> TaskState:
    """Escape lone surrogates in the model's last message.

    Inspect cannot store a conversation that holds one, and the whole run would be lost.
    """
    message = state.messages[-1]
    dumped = message.model_dump()
    escaped = _escaped(dumped)
    if escaped != dumped and isinstance(message, ChatMessageAssistant):
        message = ChatMessageAssistant.model_validate(escaped)
        state.messages[-1] = message
        state.output.choices[0].message = message
    return state


async def answer_calls(state: TaskState, guard: LoopGuard) -> bool:
    """Run the calls of the last message; say whether the guard saw too many equal ones."""
    message = state.messages[-1]
    assert isinstance(message, ChatMessageAssistant)
    calls = {call.id: call for call in message.tool_calls or []}
    result = await execute_tools(state.messages, state.tools, max_output=MAX_OUTPUT_BYTES)
    state.messages.extend(result.messages)
    looped = False
    for answer in result.messages:
        if isinstance(answer, ChatMessageTool) and answer.tool_call_id in calls:
            call = calls[answer.tool_call_id]
            error = answer.error.message if answer.error else None
            looped |= guard.add((call.function, call.arguments, answer.text, error))
    return looped


def stopped(state: TaskState, reason: str) -> TaskState:
    """Note in the sample store why the loop ended."""
    state.store.set(STOP, {"reason": reason})
    return state


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return value
