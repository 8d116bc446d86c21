"""A sandbox without a container: a function of the test answers every command."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv


@dataclass(frozen=True)
class Call:
    """One command as the sandbox got it."""

    cmd: list[str]
    input: str | bytes | None
    timeout: int | None
    timeout_retry: bool

    @property
    def agent(self) -> list[str]:
        """The agent's own command, behind `as_agent.py HOME CWD SECONDS`; [] if it is none."""
        place = next((i for i, word in enumerate(self.cmd) if word.endswith("/as_agent.py")), None)
        return [] if place is None else self.cmd[place + 4 :]

    @property
    def folder(self) -> str:
        """Where the agent's command runs."""
        place = next(i for i, word in enumerate(self.cmd) if word.endswith("/as_agent.py"))
        return self.cmd[place + 2]


Answer = ExecResult[str] | str | BaseException


@dataclass
class Strings:
    """What moves the puppet: an answer for each command; what it got."""

    answer: Callable[[Call], Answer] = lambda call: ""
    calls: list[Call] = field(default_factory=list)
    files: dict[str, str | bytes] = field(default_factory=dict)


STRINGS = Strings()


def pull(answer: Callable[[Call], Answer]) -> Strings:
    """Begin anew with a function that answers."""
    STRINGS.answer = answer
    STRINGS.calls.clear()
    STRINGS.files.clear()
    return STRINGS


def done(code: int, stdout: str = "", stderr: str = "") -> ExecResult[str]:
    """A finished command."""
    return ExecResult(code == 0, code, stdout, stderr)


@sandboxenv(name="puppet")
class Puppet(SandboxEnvironment):
    """See the module."""

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """One puppet for each sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: Any, interrupted: bool
    ) -> None:
        """Nothing to clean up."""

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Answer as the test says; a text is the output of a command that went well."""
        assert user is None, "privileges are dropped inside the image"
        call = Call(list(cmd), input, timeout, timeout_retry)
        STRINGS.calls.append(call)
        answer = STRINGS.answer(call)
        if isinstance(answer, BaseException):
            raise answer
        return done(0, answer) if isinstance(answer, str) else answer

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Keep the content."""
        STRINGS.files[file] = contents

    async def read_file(self, file: str, text: bool = True) -> Any:
        """No tool may read as root."""
        raise AssertionError(f"{file} is read as root")
