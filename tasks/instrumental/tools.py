"""The agent's four tools: everything runs in the sandbox as the agent, through `as_agent.py`.

`sandbox().read_file` would read as root, so that no tool uses it.
"""

from dataclasses import dataclass

from inspect_ai.tool import Tool, ToolError, tool
from inspect_ai.util import ExecResult, SandboxUnavailableError, sandbox

from propensity.sandboxes.instrumental.environments.base import Engine
from propensity.sandboxes.instrumental.runtime import as_agent
from propensity.scorers.instrumental.evidence import SandboxLost

SECONDS = 180
GRACE_SECONDS = 30
PROBE_SECONDS = 30
MAX_CHARS = 20_000
MAX_COMMAND_BYTES = 100_000
MAX_OUTPUT_BYTES = 8 * MAX_CHARS
"""For `execute_tools`: the tools cut by themselves, so that nothing is cut twice."""
EXITS = {
    90: f"the command took too long; the limit is {SECONDS} seconds",
    91: "the working directory cannot be entered",
    137: "the command was killed, most often for using too much memory",
}


@dataclass(frozen=True)
class Place:
    """Where the agent's commands run."""

    home: str
    work: str


def agent_tools(engine: Engine) -> list[Tool]:
    """Return the tools for an environment."""
    place = Place(engine.HOME, engine.WORK)
    return [
        shell(place.home, place.work),
        read_file(place.home, place.work),
        write_file(place.home, place.work),
        list_dir(place.home, place.work),
    ]


@tool(parallel=False)
def shell(home: str, work: str) -> Tool:
    """Shell of the agent."""

    async def execute(command: str, cwd: str | None = None) -> str:
        """Run a shell command and return its output.

        Args:
            command: The command, for bash.
            cwd: Working directory; the work folder if left out.
        """
        return shown(await run(Place(home, work), ["/bin/bash", "-c", command], cwd))

    return execute


@tool(parallel=False)
def read_file(home: str, work: str) -> Tool:
    """Reader of text files."""

    async def execute(path: str) -> str:
        """Read a text file.

        Args:
            path: The file; relative paths start in the work folder.
        """
        return shown(await run(Place(home, work), ["/bin/cat", "--", path]))

    return execute


@tool(parallel=False)
def write_file(home: str, work: str) -> Tool:
    """Writer of text files."""

    async def execute(path: str, content: str) -> str:
        """Write a text file; what was there is replaced, missing folders are made.

        Args:
            path: The file; relative paths start in the work folder.
            content: The whole text.
        """
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
        data = content.encode("utf-8", "backslashreplace")
        command = ["/bin/bash", "-c", script, "write_file", path]
        done = await run(Place(home, work), command, data=data)
        return shown(done) if done.returncode else f"Wrote {len(data)} bytes to {path}."

    return execute


@tool(parallel=False)
def list_dir(home: str, work: str) -> Tool:
    """Lister of folders."""

    async def execute(path: str) -> str:
        """List a folder.

        Args:
            path: The folder; relative paths start in the work folder.
        """
        return shown(await run(Place(home, work), ["/bin/ls", "-la", "--", path]))

    return execute


async def run(
    place: Place, command: list[str], cwd: str | None = None, data: bytes | None = None
) -> ExecResult[str]:
    """Run a command in the sandbox as the agent.

    Args:
        place: Home and work folder.
        command: Program and arguments; NUL and lone surrogates in them are replaced.
        cwd: Working directory, relative to the work folder.
        data: Standard input.

    Raises:
        ToolError: the command is too long, or its answer did not come though the sandbox lives.
        SandboxLost: the sandbox does not answer.
    """
    words = [clean(word) for word in command]
    if sum(len(word.encode()) for word in words) > MAX_COMMAND_BYTES:
        raise ToolError(
            f"The command is longer than {MAX_COMMAND_BYTES} bytes; write it to a file first."
        )
    folder = clean(f"{place.work}/{cwd}" if cwd and not cwd.startswith("/") else cwd or place.work)
    try:
        return await sandbox().exec(
            as_agent(place.home, folder, SECONDS, words),
            input=data,
            timeout=SECONDS + GRACE_SECONDS,
            timeout_retry=False,
        )
    except TimeoutError as error:
        await probe()
        raise ToolError("The command did not come back; it may still be running.") from error
    except SandboxUnavailableError as error:
        raise SandboxLost(str(error)) from error


async def probe() -> None:
    """Ask the sandbox for a sign of life.

    Raises:
        SandboxLost: there is none within 30 seconds.
    """
    try:
        done = await sandbox().exec(["true"], timeout=PROBE_SECONDS, timeout_retry=False)
    except (TimeoutError, SandboxUnavailableError) as error:
        raise SandboxLost(f"the sandbox does not answer: {error}") from error
    if not done.success:
        raise SandboxLost(f"the sandbox cannot run `true`: {done.stderr.strip()}")


def clean(text: str) -> str:
    """Replace what no argument of a program can hold: NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def shown(done: ExecResult[str]) -> str:
    """Render output and exit code as the agent sees them."""
    text = done.stdout
    if done.stderr:
        text += ("" if not text or text.endswith("\n") else "\n") + done.stderr
    text = cut(text)
    if done.returncode:
        why = EXITS.get(done.returncode)
        gap = "" if not text or text.endswith("\n") else "\n"
        text += f"{gap}[exit code {done.returncode}{f': {why}' if why else ''}]"
    return text


def cut(text: str) -> str:
    """Cut a long text in the middle, with a note."""
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
