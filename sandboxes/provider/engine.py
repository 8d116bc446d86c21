"""Sandbox provider `engine`: one hardened container per sample over the Docker Engine API.

It does what Inspect's `docker` provider does without starting a process per call, reads the same
`compose.yaml` (see `compose.py`), and removes what it made: at the end of a sample, at the end
of an interrupted run, and at the start of the next run after a killed one.
"""

import atexit
import os
import posixpath
import secrets
import shlex
import threading
from pathlib import Path
from typing import Any, Literal, overload

import anyio
import click
from inspect_ai.util import (
    ComposeConfig,
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel
from typing_extensions import override

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers, images
from propensity.sandboxes.provider.client import (
    MINIMUM,
    EngineUnavailable,
    ask,
    client,
    engine_version,
)
from propensity.sandboxes.provider.command import Command, ContainerLost, Done, EngineHung
from propensity.sandboxes.provider.compose import Service, service, service_of_file
from propensity.sandboxes.provider.disk import disk_watch
from propensity.sandboxes.provider.files import (
    SHELL,
    SYSTEM_PATH,
    TOO_LARGE,
    file_error,
    read_command,
    write_command,
)

FILE_SECONDS = 600
GRACE = 5
MARK = "EXEC_ID"
TIMEOUT = "/usr/bin/timeout"

# Why a command could not be started: 3 no such working directory, 4 no `timeout`,
# 126 not executable, 127 not found.
_PROBE = """cd "$2" 2>/dev/null || exit 3
[ -x "$3" ] || exit 4
found=
case $1 in
  */*) found=$1;;
  *) IFS=:; for folder in $PATH; do
       [ -e "$folder/$1" ] && { found=$folder/$1; break; }
     done;;
esac
[ -n "$found" ] && [ -e "$found" ] || exit 127
[ -d "$found" ] && exit 126
[ -x "$found" ] || exit 126
"""
# Children that left the process group of `timeout` still carry the mark.
_SWEEP = f"""PATH={SYSTEM_PATH}
for round in 1 2 3; do
  found=
  for process in /proc/[0-9]*; do
    if {{ tr '\\0' '\\n' < "$process/environ" | grep -qxF "$1"; }} 2>/dev/null; then
      kill -KILL "${{process#/proc/}}" 2>/dev/null && found=1
    fi
  done
  [ -n "$found" ] || exit 0
done
"""

_lock = threading.Lock()
_prepared: dict[str, tuple[str, str]] = {}
_live: dict[str, "EngineSandbox"] = {}
_interrupted: set[str] = set()


@sandboxenv(name="engine")
class EngineSandbox(SandboxEnvironment):
    """One container; see the module."""

    def __init__(self, container: str, name: str, working_dir: str) -> None:
        super().__init__()
        self.container = container
        self.name = name
        self._working_dir = working_dir

    # What Inspect asks about the provider

    @classmethod
    @override
    def config_files(cls) -> list[str]:
        return [
            "compose.yaml",
            "compose.yml",
            "docker-compose.yaml",
            "docker-compose.yml",
            "Dockerfile",
        ]

    @classmethod
    @override
    def is_docker_compatible(cls) -> bool:
        return True

    @classmethod
    @override
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return ComposeConfig.model_validate(config)

    @classmethod
    @override
    def default_concurrency(cls) -> int | None:
        return default_sandboxes()

    @override
    def default_polling_interval(self) -> float:
        return 0.2

    # Life of a task

    @classmethod
    @override
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        """Check the engine, remove what dead runs left, and see that the image is there.

        Raises:
            EngineUnavailable: if no engine answers, or it is too old.
            ComposeError: if the Compose file asks for what is not carried out.
            ImageMissing: if the image is not there and cannot be had.
        """
        await ask(_check_engine)
        await ask(containers.remove_dead)
        await ask(_prepare, _service(config), True)

    @classmethod
    @override
    async def task_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool
    ) -> None:
        if cleanup:
            async with anyio.create_task_group() as group:
                for container in tuple(_interrupted):
                    group.start_soon(ask, _remove, container)
        else:
            await ask(_keep_all)

    @classmethod
    @override
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove one container by name or id, or all of this provider, of live runs too."""
        wanted = [
            one
            for one in await ask(containers.found)
            if id is None or one.name == id or one.id.startswith(id)
        ]
        for one in wanted:
            await ask(containers.remove, one.id)
            click.echo(f"removed {one.name} ({one.task}, sample {one.sample})")
        if not wanted:
            click.echo(
                "no container of the engine provider" + (f" is called {id}" if id else " is left")
            )

    # Life of a sample

    @classmethod
    @override
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        wanted = _service(config)
        image, working_dir = await ask(_prepare, wanted)
        sample = str(metadata.get("__sample_id__", ""))
        sandbox = await ask(_start, wanted, image, working_dir, task_name, sample)
        return {wanted.name: sandbox}

    @classmethod
    @override
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            sandbox = environment.as_type(EngineSandbox)
            if interrupted:
                # Whether containers are kept is known at the end of the task only.
                _interrupted.add(sandbox.container)
            else:
                await ask(_remove, sandbox.container)

    # Commands and files

    @override
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
        """Run a command; see `SandboxEnvironment.exec`.

        Of output above the limit the last bytes come back. A command still running after
        `timeout` seconds is ended inside the container with all its children, and is not
        repeated; `timeout_retry` repeats only a command for which the engine itself hung.
        `concurrency` has no effect: no process is started on this machine.

        Raises:
            TimeoutError: the command took longer than `timeout`; what it had said is in
                `truncated_output`.
            PermissionError: the program may not be executed.
            SandboxUserUnsupportedError: the container has no such user.
            SandboxUnavailableError: the container is gone, or can run nothing at all.
            ValueError: an empty command, or a NUL in it.
        """
        texts = [*cmd, cwd or "", user or "", *(env or {}), *(env or {}).values()]
        if not cmd or any("\0" in text for text in texts):
            raise ValueError("the command is empty, or an argument holds a NUL")
        folder = posixpath.join(self._working_dir, cwd or "")
        data = input.encode("utf-8", "replace") if isinstance(input, str) else input
        waits: list[int | None] = [timeout]
        if timeout is not None and timeout_retry:
            waits += [min(timeout, 60), min(timeout, 30)]
        for seconds in waits[:-1]:
            try:
                return await self._exec(cmd, data, folder, env, user, seconds)
            except EngineHung:
                continue
        return await self._exec(cmd, data, folder, env, user, waits[-1])

    async def _exec(
        self,
        cmd: list[str],
        data: bytes | None,
        folder: str,
        env: dict[str, str] | None,
        user: str | None,
        timeout: int | None,
    ) -> ExecResult[str]:
        settings: dict[str, Any] = {"workdir": folder, "environment": env or {}, "user": user or ""}
        if timeout is None:
            done = await self._run(cmd, data, **settings)
        else:
            mark = secrets.token_hex(8)
            done = await self._run(
                [TIMEOUT, "-k", f"{GRACE}s", f"{timeout}s", *cmd],
                data,
                timeout + 3 * GRACE,
                **settings | {"environment": {**(env or {}), MARK: mark}},
            )
            if done.code in (124, 137) and done.seconds >= timeout:
                await self._run(
                    [SHELL, "-c", _SWEEP, "sh", f"{MARK}={mark}"],
                    None,
                    FILE_SECONDS,
                    user=user or "",
                )
                error = TimeoutError(f"Command timed out after {timeout} seconds")
                if said := _text(done.stdout) + _text(done.stderr):
                    error.truncated_output = said  # type: ignore[attr-defined]
                raise error
        code = done.code
        if code in (126, 127) and (not done.started or timeout is not None):
            wrapper = SHELL if timeout is None else TIMEOUT
            code = await self._explain(done, cmd[0], wrapper, settings)
        elif code > 128:
            await self._still_there()
        return ExecResult(code == 0, code, _text(done.stdout), _text(done.stderr))

    async def _explain(
        self, done: Done, program: str, wrapper: str, settings: dict[str, Any]
    ) -> int:
        """Exit code to report for a command that may not have been started."""
        words = [SHELL, "-c", _PROBE, "sh", program, settings["workdir"], wrapper]
        probe = await self._run(words, None, FILE_SECONDS, **settings | {"workdir": "/"})
        said = _text(done.stderr).strip()
        if not probe.started:
            anyone = await self._run([SHELL, "-c", ":"], None, FILE_SECONDS)
            if anyone.started:
                raise SandboxUserUnsupportedError(f"cannot run as {settings['user']}: {said}")
            raise SandboxUnavailableError(f"The container cannot start any command: {said}")
        if probe.code == 126:
            raise PermissionError(f"Permission denied executing {program}: {said}")
        if done.started or probe.code == 0:
            return done.code
        if probe.code == 4:
            raise SandboxUnavailableError(f"The image has no {wrapper}: {said}")
        return 127 if probe.code == 127 else done.code

    async def _run(
        self, words: list[str], data: bytes | None, seconds: float | None = None, **settings: Any
    ) -> Done:
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        return await self._run_keeping(limit, words, data, seconds, **settings)

    async def _run_keeping(
        self,
        limit: int,
        words: list[str],
        data: bytes | None,
        seconds: float | None,
        **settings: Any,
    ) -> Done:
        try:
            return await Command(self.container, words, data, **settings).run(limit, seconds)
        except ContainerLost as error:
            raise self._unavailable(str(error)) from error

    def _unavailable(self, said: str) -> SandboxUnavailableError:
        reason = disk_watch.reason(self.container) or said
        return SandboxUnavailableError(f"The container {self.name} cannot execute: {reason}")

    async def _still_there(self) -> None:
        """Tell a command that was killed from a container that was."""
        from docker.errors import NotFound

        try:
            state = (await ask(client().inspect_container, self.container))["State"]
        except NotFound:
            raise self._unavailable("it was removed") from None
        if not state["Running"]:
            killed = "for lack of memory " if state.get("OOMKilled") else ""
            raise self._unavailable(f"it ended {killed}with exit code {state['ExitCode']}")

    @override
    async def write_file(self, file: str, contents: str | bytes) -> None:
        path = posixpath.join(self._working_dir, file)
        data = contents.encode("utf-8", "replace") if isinstance(contents, str) else contents
        done = await self._run(write_command(path), data, FILE_SECONDS)
        if not done.started:
            raise self._unavailable(_text(done.stderr))
        if done.code != 0 or not done.sent:
            raise file_error(done.code, file, _text(done.stderr))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    @override
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        path = posixpath.join(self._working_dir, file)
        done = await self._run_keeping(limit + 1, read_command(path, limit), None, FILE_SECONDS)
        if not done.started:
            raise self._unavailable(_text(done.stderr))
        if done.code == TOO_LARGE or len(done.stdout) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        if done.code != 0:
            raise file_error(done.code, file, _text(done.stderr))
        return done.stdout.decode("utf-8") if text else done.stdout

    @override
    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        try:
            await self._still_there()
        except SandboxUnavailableError as error:
            raise ConnectionError(str(error)) from error
        who = ["--user", user] if user else []
        return SandboxConnection(
            type="engine",
            command=shlex.join(["docker", "exec", "-it", *who, self.name, "bash", "-l"]),
            vscode_command=(
                None if user else ["remote-containers.attachToRunningContainer", self.name]
            ),
            container=self.name,
        )


def default_sandboxes() -> int:
    """Containers at once by default: min(8, 2 × cores)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(8, 2 * (cores or 1))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _service(config: SandboxEnvironmentConfigType | None) -> Service:
    if config is None:
        return service_of_file(compose_file("instrumental"))
    if isinstance(config, str):
        return service_of_file(config)
    document = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    return service(document, "sandbox configuration", Path.cwd())


def _check_engine() -> None:
    version = str(client().version()["Version"])
    if engine_version(version) < MINIMUM:
        least = ".".join(map(str, MINIMUM))
        raise EngineUnavailable(f"Docker Engine {version} is too old: {least} or newer is needed")


def _prepare(wanted: Service, anew: bool = False) -> tuple[str, str]:
    """Image and working directory of a service; looked up once unless asked anew."""
    with _lock:
        key = repr(wanted)
        if anew or key not in _prepared:
            image = images.ensure(wanted)
            config = client().inspect_image(image).get("Config") or {}
            _prepared[key] = image, wanted.working_dir or config.get("WorkingDir") or "/"
        return _prepared[key]


def _start(wanted: Service, image: str, working_dir: str, task: str, sample: str) -> EngineSandbox:
    container, name = containers.create(wanted, image, task, sample)
    sandbox = EngineSandbox(container, name, working_dir)
    with _lock:
        if not _live:
            atexit.unregister(_remove_all)
            atexit.register(_remove_all, os.getpid())
        _live[container] = sandbox
    disk_watch.watch(container, wanted.disk)
    return sandbox


def _forget(container: str) -> None:
    disk_watch.forget(container)
    with _lock:
        _live.pop(container, None)
        _interrupted.discard(container)


def _remove(container: str) -> None:
    containers.remove(container)
    _forget(container)


def _remove_all(process: int) -> None:
    # A forked child inherits the list, but not the containers.
    if os.getpid() == process:
        for container in tuple(_live):
            _remove(container)


def _keep_all() -> None:
    for container, sandbox in tuple(_live.items()):
        sandbox.name = containers.keep(container, sandbox.name)
        _forget(container)
        click.echo(
            f"kept {sandbox.name}: docker exec -it {sandbox.name} bash -l; "
            f"remove it with: inspect sandbox cleanup engine {sandbox.name}"
        )
