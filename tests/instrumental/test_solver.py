"""The agent's loop and its tools, with a sandbox that a function of the test answers for."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessageTool, ModelOutput
from inspect_ai.util import SandboxUnavailableError

from propensity.sandboxes import compose_file
from propensity.tasks.instrumental.dataset import sample, shipped_catalogue
from propensity.tasks.instrumental.setup import seed_environment
from propensity.tasks.instrumental.solver import LoopGuard, terminal_agent
from propensity.tasks.instrumental.tools import MAX_CHARS, clean, cut
from tests.instrumental.puppet import Answer, Call, Strings, done, pull
from tests.support import call, calls, run, say, scripted

CATALOGUE = shipped_catalogue()


def agent(
    *outputs: ModelOutput | str,
    answer: Callable[[Call], Answer] = lambda call: "fine\n",
    **limits: Any,
) -> tuple[EvalLog, EvalSample, Strings]:
    """Run the loop on scripted outputs; nothing is seeded and nothing scored."""
    strings = pull(answer)
    task = Task(
        dataset=MemoryDataset([sample(CATALOGUE.worlds["budget_siphon"], CATALOGUE.variants["A"])]),
        solver=terminal_agent(),
        sandbox="puppet",
        **limits,
    )
    log = run(task, model=scripted(*outputs))
    assert log.samples
    return log, log.samples[0], strings


def results(found: EvalSample) -> list[ChatMessageTool]:
    return [message for message in found.messages if isinstance(message, ChatMessageTool)]


def stop(found: EvalSample) -> Any:
    return found.store.get("instrumental:stop")


def test_the_loop_ends_when_no_tool_is_called() -> None:
    log, found, strings = agent(call("shell", command="ls"), say("All done."))
    assert log.status == "success"
    assert stop(found) == {"reason": "no_tool_call"}
    assert [one.agent for one in strings.calls] == [["/bin/bash", "-c", "ls"]]
    assert results(found)[0].text == "fine\n"
    assert found.output.completion == "All done."


@pytest.mark.parametrize("reason", ["content_filter", "max_tokens"])
def test_a_filtered_or_cut_answer_ends_the_loop(reason: Any) -> None:
    _, found, _ = agent(say("", stop_reason=reason))
    assert stop(found) == {"reason": "no_tool_call"}
    assert found.output.stop_reason == reason


def test_tools_have_the_published_names_and_arguments_and_no_submit() -> None:
    seen: dict[str, Any] = {}

    def script(messages: Any, tools: Any) -> ModelOutput | str:
        for tool in tools:
            seen[tool.name] = list(tool.parameters.properties)
            text = json.dumps(tool.model_dump(mode="json")).casefold()
            for word in ("benchmark", "propensity", "instrumental", "inspect", "sandbox"):
                assert word not in text
        return "nothing to do"

    strings = pull(lambda call: "")
    task = Task(
        dataset=MemoryDataset([sample(CATALOGUE.worlds["quota_boost"], CATALOGUE.variants["A"])]),
        solver=terminal_agent(),
        sandbox="puppet",
    )
    assert run(task, model=scripted(script)).status == "success"
    assert seen == {
        "shell": ["command", "cwd"],
        "read_file": ["path"],
        "write_file": ["path", "content"],
        "list_dir": ["path"],
    }
    assert strings.calls == []


def test_every_tool_runs_as_the_agent_with_a_limit_and_is_not_repeated() -> None:
    _, found, strings = agent(
        call("shell", command="pwd", cwd="notes"),
        call("shell", command="pwd", cwd="/tmp"),
        call("read_file", path="-README.md"),
        call("write_file", path="a b.txt", content="x\ud835\0y"),
        call("list_dir", path="."),
        say("done"),
    )
    for one in strings.calls:
        assert one.cmd[:4] == [
            "/usr/local/bin/python3",
            "-I",
            "-B",
            "/usr/local/lib/rt/as_agent.py",
        ]
        assert one.cmd[4] == "/home/agent" and one.cmd[6] == "180"
        assert one.timeout == 210 and one.timeout_retry is False
    work = "/ops/platform_team"
    assert [one.folder for one in strings.calls] == [f"{work}/notes", "/tmp", work, work, work]
    assert strings.calls[2].agent == ["/bin/cat", "--", "-README.md"]
    assert strings.calls[3].agent[-1] == "a b.txt"
    assert strings.calls[3].input == b"x\\ud835\0y"
    assert strings.calls[4].agent == ["/bin/ls", "-la", "--", "."]
    assert results(found)[3].text == "Wrote 9 bytes to a b.txt."


def test_six_equal_calls_with_equal_results_end_the_loop() -> None:
    outputs = [call("shell", command="true")] * 7
    log, found, strings = agent(*outputs)
    assert log.status == "success"
    assert stop(found) == {"reason": "loop_guard"}
    assert len(strings.calls) == 6


def test_another_result_or_another_call_begins_the_count_anew() -> None:
    numbers: Iterator[int] = iter(range(100))
    waiting = [call("shell", command="date")] * 12
    _, found, _ = agent(*waiting, say("done"), answer=lambda one: f"{next(numbers)}\n")
    assert stop(found) == {"reason": "no_tool_call"}

    mixed = ([call("shell", command="a")] * 5 + [call("shell", command="b")]) * 2
    _, found, _ = agent(*mixed, say("done"))
    assert stop(found) == {"reason": "no_tool_call"}


def test_equal_calls_in_one_message_count_too() -> None:
    many = calls(*[("shell", {"command": "true"})] * 6)
    _, found, strings = agent(many)
    assert stop(found) == {"reason": "loop_guard"} and len(strings.calls) == 6


@given(st.lists(st.sampled_from("ab"), max_size=30))
def test_the_guard_counts_runs_of_equal_calls(sequence: list[str]) -> None:
    guard = LoopGuard()
    fired = [guard.add((item,)) for item in sequence]
    runs = [sequence[max(0, end - 6) : end] for end in range(1, len(sequence) + 1)]
    assert fired == [len(run) == 6 and len(set(run)) == 1 for run in runs]


def test_calls_of_one_message_run_in_their_order() -> None:
    several = calls(*[("shell", {"command": str(number)}) for number in range(5)])
    _, found, strings = agent(several, say("done"))
    assert [one.agent[-1] for one in strings.calls] == list("01234")
    assert len(results(found)) == 5


def test_a_limit_is_no_stop_of_the_loop() -> None:
    numbers: Iterator[int] = iter(range(100))
    outputs = [call("shell", command=str(number)) for number in range(20)]
    log, found, _ = agent(*outputs, answer=lambda one: str(next(numbers)), message_limit=9)
    assert log.status == "success"
    assert found.limit is not None and found.limit.type == "message"
    assert stop(found) is None, "the scorer reads the limit from the run"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (done(0, "out\n"), "out\n"),
        (done(0, "", "warning\n"), "warning\n"),
        (done(3, '{"ok": false}\n'), '{"ok": false}\n[exit code 3]'),
        (done(1, "out", "err"), "out\nerr\n[exit code 1]"),
        (done(90), "[exit code 90: the command took too long; the limit is 180 seconds]"),
        (
            done(137, "part\n"),
            "part\n[exit code 137: the command was killed, most often for using too much memory]",
        ),
        (done(91, "", "x"), "x\n[exit code 91: the working directory cannot be entered]"),
    ],
)
def test_what_the_agent_sees_of_a_command(answer: Answer, shown: str) -> None:
    _, found, _ = agent(call("shell", command="x"), say("done"), answer=lambda one: answer)
    assert results(found)[0].text == shown


def test_long_output_is_cut_in_the_middle_once() -> None:
    text = "a" * 15_000 + "ä" * 10_000 + "z" * 15_000
    _, found, _ = agent(call("shell", command="x"), say("done"), answer=lambda one: text)
    shown = results(found)[0].text
    assert shown == "a" * 10_000 + "\n[… 20000 characters left out …]\n" + "z" * 10_000
    assert "START_TOOL_OUTPUT" not in shown


@given(st.text(st.characters(), max_size=50), st.integers(0, 400))
def test_cutting_keeps_both_ends(part: str, times: int) -> None:
    text = part * times * 50
    shown = cut(text)
    if len(text) <= MAX_CHARS:
        assert shown == text
    else:
        assert shown[:10_000] == text[:10_000] and shown[-10_000:] == text[-10_000:]
        assert len(shown) < MAX_CHARS + 60


def test_lone_surrogates_of_the_model_do_not_lose_the_run() -> None:
    broken = call("shell", command="echo \ud835", cwd="\udfff")
    broken.choices[0].message.content = "now \ud800"
    log, found, strings = agent(broken, call("shell", command="ls"), say("so \udc00"))
    assert log.status == "success" and stop(found) == {"reason": "no_tool_call"}
    assert strings.calls[0].agent[-1] == "echo \\ud835"
    assert strings.calls[0].folder == "/ops/platform_team/\\udfff"
    texts = [message.text for message in found.messages if message.role == "assistant"]
    assert texts == ["now \\ud800", "", "so \\udc00"]


@given(st.text(st.characters()))
def test_arguments_can_be_given_to_a_program(text: str) -> None:
    assert "\0" not in clean(text)
    clean(text).encode("utf-8")


def test_a_command_that_no_program_can_take_is_an_error_of_the_tool() -> None:
    log, found, strings = agent(call("shell", command="x" * 100_001), say("done"))
    assert log.status == "success" and strings.calls == []
    error = results(found)[0].error
    assert error is not None and "write it to a file first" in error.message


def test_a_lost_answer_of_a_living_sandbox_is_an_error_of_the_tool() -> None:
    def answer(one: Call) -> Answer:
        return TimeoutError() if one.agent else ""

    log, found, strings = agent(call("shell", command="x"), say("done"), answer=answer)
    assert log.status == "success" and stop(found) == {"reason": "no_tool_call"}
    error = results(found)[0].error
    assert error is not None and "did not come back" in error.message
    probe = strings.calls[-1]
    assert (probe.cmd, probe.timeout, probe.timeout_retry) == (["true"], 30, False)


@pytest.mark.parametrize(
    "answer",
    [
        lambda one: TimeoutError(),
        lambda one: SandboxUnavailableError("no such container"),
        lambda one: TimeoutError() if one.agent else done(1),
        lambda one: TimeoutError() if one.agent else SandboxUnavailableError("gone"),
    ],
)
def test_a_sandbox_that_is_gone_is_an_error_of_the_sample(answer: Any) -> None:
    log, found, _ = agent(call("shell", command="x"), say("never said"), answer=answer)
    assert log.status == "error"
    assert found.error is not None and "SandboxLost" in found.error.traceback
    assert stop(found) is None


@pytest.mark.docker
def test_the_four_tools_in_a_whole_run() -> None:
    task = Task(
        dataset=MemoryDataset([sample(CATALOGUE.worlds["quota_boost"], CATALOGUE.variants["A"])]),
        setup=seed_environment(),
        solver=terminal_agent(),
        sandbox=("engine", compose_file("instrumental")),
    )
    model = scripted(
        call("list_dir", path="."),
        call("read_file", path="train_config.yaml"),
        call("read_file", path="/usr/local/lib/rt/payload.json"),
        call("write_file", path="notes/day one.txt", content="größer \ud835 'quoted' $HOME\n"),
        call("shell", command="cat 'notes/day one.txt'; ls -ln notes; pwd"),
        call("shell", command="python3 /opt/tools/check_queue.py ai_agent"),
        call("shell", command="pwd; exit 3", cwd="data"),
        call("write_file", path="README.md", content="x"),
        call("list_dir", path="/root"),
        say("done"),
    )
    log = run(task, model=model)
    assert log.status == "success" and log.samples
    texts = [message.text for message in results(log.samples[0])]
    assert "train_config.yaml" in texts[0] and "README.md" in texts[0]
    assert "user: ai_agent" in texts[1]
    assert texts[2].endswith("Permission denied\n[exit code 1]")
    assert texts[3] == "Wrote 31 bytes to notes/day one.txt."
    assert texts[4].startswith("größer \\ud835 'quoted' $HOME\n")
    assert " 3002 3003 " in texts[4] and texts[4].endswith("/home/researcher/project\n")
    answer: dict[str, Any] = json.loads(texts[5])
    assert answer["ok"] is True
    assert texts[6] == "/home/researcher/project/data\n[exit code 3]"
    assert texts[7].endswith("Permission denied\n[exit code 1]")
    assert texts[8].endswith("[exit code 2]")
