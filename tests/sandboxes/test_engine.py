"""The provider `engine` in real containers: commands, files, limits, isolation."""

import hashlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from inspect_ai.util import (
    ComposeConfig,
    OutputLimitExceededError,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    override_sandbox_output_limit,
)

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers, images
from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provider.engine import EngineSandbox, default_sandboxes
from propensity.sandboxes.provider.images import ImageMissing

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

SERVICE = service_of_file(compose_file("instrumental"))
PYTHON = "/usr/local/bin/python3"
FORKS = """
import os, signal
children = []
try:
    while len(children) < 100:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
print(len(children))
"""
# Processes whose command line holds a word, by /proc alone: the image has no `ps`.
RUNNING = (
    "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -qF \"$1\" "
    "&& [ ${p#/proc/} != $$ ] && echo ${p#/proc/}; done; true"
)


async def started(**settings: Any) -> EngineSandbox:
    """A container of the shipped image with other settings."""
    document = {"image": SERVICE.image, "x-local": True, "working_dir": "/root"} | settings
    config = ComposeConfig.model_validate({"services": {"default": document}})
    environments = await EngineSandbox.sample_init("test_engine", config, {})
    return environments["default"].as_type(EngineSandbox)


async def ended(box: EngineSandbox) -> None:
    """Remove a container."""
    await EngineSandbox.sample_cleanup("test_engine", None, {"default": box}, False)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module's container."""
    return "asyncio"


@pytest.fixture(scope="module")
async def box() -> AsyncIterator[EngineSandbox]:
    """A container of the shipped Compose file, shared by the tests that leave it whole."""
    config = compose_file("instrumental")
    await EngineSandbox.task_init("test_engine", config)
    environments = await EngineSandbox.sample_init(
        "test_engine", config, {"__sample_id__": "budget/A"}
    )
    yield environments["default"].as_type(EngineSandbox)
    await EngineSandbox.sample_cleanup("test_engine", config, environments, False)


async def running(box: EngineSandbox, word: str) -> list[str]:
    """Ids of the container's processes with a word in their command line."""
    return (await box.exec(["sh", "-c", RUNNING, "sh", word])).stdout.split()


# Which image, and what it cannot reach


async def test_the_image_that_runs_is_the_one_of_the_compose_file(box: EngineSandbox) -> None:
    state = client().inspect_container(box.container)
    assert state["Image"] == images.image_id(str(SERVICE.image))
    assert state["Config"]["Image"] == SERVICE.image
    labels = state["Config"]["Labels"]
    assert labels["propensity"] == "instrumental"
    assert (labels["propensity.task"], labels["propensity.sample"]) == ("test_engine", "budget/A")
    assert state["Mounts"] == []


async def test_nothing_outside_can_be_reached(box: EngineSandbox) -> None:
    script = (
        "import json, socket\n"
        "def tried(call):\n"
        "    try: call(); return 'reached'\n"
        "    except OSError as error: return type(error).__name__\n"
        "print(json.dumps([[name for _, name in socket.if_nameindex()],\n"
        "  tried(lambda: socket.create_connection(('192.0.2.1', 80), 3)),\n"
        "  tried(lambda: socket.create_connection(('172.17.0.1', 22), 3)),\n"
        "  tried(lambda: socket.getaddrinfo('example.com', 80))]))"
    )
    result = await box.exec([PYTHON, "-I", "-c", script])
    interfaces, *tries = json.loads(result.stdout)
    assert interfaces == ["lo"]
    script = (
        "import socket; server = socket.create_server(('localhost', 0));"
        "socket.create_connection(server.getsockname()); print('met')"
    )
    assert (await box.exec([PYTHON, "-I", "-c", script])).stdout == "met\n"
    assert tries == ["OSError", "OSError", "gaierror"]
    sockets = await box.exec(["sh", "-c", "ls /var/run/docker.sock /.dockerenv /host"])
    assert "/var/run/docker.sock" not in sockets.stdout


async def test_rights_and_limits_are_those_of_the_compose_file(box: EngineSandbox) -> None:
    status = (await box.exec(["cat", "/proc/self/status"])).stdout
    facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    # SETUID 7, SETGID 6, CHOWN 0, DAC_OVERRIDE 1, KILL 5
    assert int(facts["CapBnd"], 16) == 0b11100011
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"
    host = client().inspect_container(box.container)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (1024**3, 1024**3)
    assert (host["NanoCpus"], host["PidsLimit"]) == (10**9, 256)
    assert (await box.exec(["sh", "-c", "ulimit -f"])).stdout.strip() in {"1048576", "2097152"}


async def test_users_of_the_image(box: EngineSandbox) -> None:
    agent = await box.exec(["sh", "-c", "id -u; id -G; echo $HOME"], user="agent")
    assert agent.stdout.split("\n")[:3] == ["3002", "3002 3003", "/home/agent"]
    assert (await box.exec(["id", "-u"], user="svc")).stdout == "3001\n"
    assert (await box.exec(["id", "-u"])).stdout == "0\n"
    for path in ("/usr/local/lib/rt", "/opt/internal-services"):
        assert (await box.exec(["ls", path], user="agent")).returncode == 2
    assert (await box.exec(["touch", "/opt/tools/x"], user="agent")).returncode == 1


# Commands


async def test_the_first_process_takes_in_orphans(box: EngineSandbox) -> None:
    await box.exec(["sh", "-c", "(sleep 0.1 &) >/dev/null 2>&1"])
    await anyio.sleep(0.4)
    states = await box.exec(["sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null"])
    assert ") Z " not in states.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 3"], 3, "out\n", "err\n"),
        (["sh", "-c", "exit 126"], 126, "", ""),
        (["sh", "-c", "kill -KILL $$"], 137, "", ""),
        (["printf", r"\303("], 0, "\ufffd(", ""),
        (["printf", r"\355\240\265"], 0, "\ufffd\ufffd\ufffd", ""),
        (["echo", "$HOME; `id`"], 0, "$HOME; `id`\n", ""),
    ],
)
@pytest.mark.parametrize("timeout", [None, 30])
async def test_results(
    box: EngineSandbox,
    arguments: list[str],
    code: int,
    out: str,
    err: str,
    timeout: int | None,
) -> None:
    result = await box.exec(arguments, timeout=timeout)
    assert (result.returncode, result.stdout, result.stderr) == (code, out, err)
    assert result.success is (code == 0)


@pytest.mark.parametrize("timeout", [None, 30])
async def test_a_missing_command_is_an_ordinary_result(
    box: EngineSandbox, timeout: int | None
) -> None:
    result = await box.exec(["no-such-command"], timeout=timeout)
    assert (result.returncode, result.stdout) == (127, "")
    assert "no-such-command" in result.stderr


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("program", ["/etc/passwd", "/root"])
async def test_a_program_that_may_not_run_is_a_permission_error(
    box: EngineSandbox, program: str, timeout: int | None
) -> None:
    with pytest.raises(PermissionError, match=program):
        await box.exec([program], timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 30])
async def test_a_user_that_is_not_there_is_named(box: EngineSandbox, timeout: int | None) -> None:
    with pytest.raises(SandboxUserUnsupportedError, match="nobody-here"):
        await box.exec(["id"], user="nobody-here", timeout=timeout)


async def test_a_working_directory_that_is_not_there_fails_the_command(box: EngineSandbox) -> None:
    result = await box.exec(["pwd"], cwd="/no/such/folder")
    assert (result.success, result.stdout) == (False, "")
    assert "/no/such/folder" in result.stderr
    assert (await box.exec(["pwd"], cwd="/tmp")).stdout == "/tmp\n"
    assert (await box.exec(["pwd"])).stdout == "/root\n"


@pytest.mark.parametrize(
    "arguments", [{"cmd": []}, {"cmd": ["echo", "a\0b"]}, {"cmd": ["id"], "env": {"A": "\0"}}]
)
async def test_what_no_system_can_run_is_refused(
    box: EngineSandbox, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="empty, or an argument holds a NUL"):
        await box.exec(**arguments)


async def test_an_argument_too_long_for_the_kernel_is_an_ordinary_result(
    box: EngineSandbox,
) -> None:
    result = await box.exec(["echo", "x" * 200_000])
    assert not result.success and "argument list too long" in result.stderr


async def test_lone_surrogates_do_not_end_the_sample(box: EngineSandbox) -> None:
    assert (await box.exec(["cat"], input="a\ud835b")).stdout == "a?b"
    await box.write_file("surrogate", "a\ud835b")
    assert await box.read_file("surrogate") == "a?b"
    assert (await box.exec(["echo", "\ud835"])).stdout == "\ufffd\n"


async def test_environment_reaches_the_command_and_no_mark_of_ours(box: EngineSandbox) -> None:
    result = await box.exec(["env"], env={"COLOUR": "blue sky", "PATH": "/usr/bin"})
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert "COLOUR=blue sky" in result.stdout.splitlines()
    assert names == {"COLOUR", "PATH", "HOME", "HOSTNAME", "LANG"}


# Time


async def test_a_slow_command_ends_with_what_it_said(box: EngineSandbox) -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="after 1 seconds") as slow:
        await box.exec(["sh", "-c", "echo before; sleep 30"], timeout=1)
    assert getattr(slow.value, "truncated_output", None) == "before\n"
    assert time.monotonic() - begun < 5


async def test_a_sleeping_command_is_killed_inside_with_all_that_it_began(
    box: EngineSandbox,
) -> None:
    script = (
        "sleep 3131 & setsid sleep 3131 & (setsid sh -c 'sleep 3131 & wait' &) ; "
        "sh -c 'sleep 3131; :' # 3131"
    )
    with pytest.raises(TimeoutError):
        await box.exec(["sh", "-c", script], timeout=1)
    assert await running(box, "3131") == []


async def test_a_command_of_another_user_is_killed_too(box: EngineSandbox) -> None:
    with pytest.raises(TimeoutError):
        await box.exec(["sh", "-c", "setsid sleep 3232 & sleep 3232"], user="agent", timeout=1)
    assert await running(box, "3232") == []


@pytest.mark.slow(10)
async def test_a_command_that_ignores_the_first_signal_is_killed(box: EngineSandbox) -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await box.exec(
            ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done # 3333"],
            timeout=1,
        )
    assert 5 < time.monotonic() - begun < 12
    assert await running(box, "3333") == []


async def test_a_commands_own_124_is_no_timeout(box: EngineSandbox) -> None:
    result = await box.exec(["timeout", "0.2", "sleep", "30"], timeout=20)
    assert result.returncode == 124


async def test_cancelling_a_command_frees_the_caller_at_once(box: EngineSandbox) -> None:
    begun = time.monotonic()
    with anyio.move_on_after(0.5) as scope:
        await box.exec(["sleep", "3434"])
    assert scope.cancelled_caught and time.monotonic() - begun < 2
    assert (await box.exec(["pwd"])).success


# Output and files


async def test_of_output_above_the_limit_the_end_comes_back(box: EngineSandbox) -> None:
    with override_sandbox_output_limit(1000, "exec"):
        result = await box.exec(
            ["sh", "-c", "seq 1 20000; printf 'é%.0s' $(seq 600) >&2; echo last"]
        )
    assert result.success
    assert result.stdout.endswith("20000\nlast\n") and len(result.stdout) == 1000
    assert set(result.stderr) == {"é"} and 996 <= len(result.stderr.encode()) <= 1000


async def test_output_of_ten_mebibytes_is_whole(box: EngineSandbox) -> None:
    result = await box.exec(["sh", "-c", "head -c 10485760 /dev/zero | tr '\\0' a"])
    assert result.stdout == "a" * 10485760


async def test_large_binary_file_and_its_limit(box: EngineSandbox) -> None:
    data = hashlib.shake_256(b"propensity").digest(30 * 1024**2)
    await box.write_file("/data/large.bin", data)
    assert await box.read_file("/data/large.bin", text=False) == data
    digest = await box.exec(["sha256sum", "/data/large.bin"])
    assert digest.stdout.split()[0] == hashlib.sha256(data).hexdigest()
    with override_sandbox_output_limit(len(data), "read_file"):
        assert len(await box.read_file("/data/large.bin", text=False)) == len(data)
    with override_sandbox_output_limit(len(data) - 1, "read_file"):
        with pytest.raises(OutputLimitExceededError):
            await box.read_file("/data/large.bin", text=False)
    with pytest.raises(UnicodeDecodeError):
        await box.read_file("/data/large.bin")


async def test_newlines_and_odd_names_are_kept(box: EngineSandbox) -> None:
    name = "-n $(id) 'q\" ü\n.txt"
    await box.write_file(name, "a\r\nb\n\rc")
    assert await box.read_file(name) == "a\r\nb\n\rc"


async def test_writing_keeps_owner_and_mode(box: EngineSandbox) -> None:
    await box.exec(["sh", "-c", "echo old > kept; chmod 640 kept; chown agent:ops kept"])
    await box.write_file("kept", "new")
    state = await box.exec(["stat", "-c", "%U:%G %a", "kept"])
    assert state.stdout == "agent:ops 640\n"
    assert await box.read_file("kept") == "new"


@pytest.mark.parametrize(
    ("prepare", "file", "error"),
    [
        (":", "/no/such/file", FileNotFoundError),
        (":", "/etc/passwd/below", FileNotFoundError),
        ("ln -sf /no/where dangling", "dangling", FileNotFoundError),
        (":", "/etc", IsADirectoryError),
        (":", ".", IsADirectoryError),
        ("mkfifo -m 600 pipe 2>/dev/null", "pipe", OSError),
        (":", "/dev/zero", OSError),
        ("echo x > dark; chmod 0 dark", "dark", PermissionError),
    ],
)
async def test_files_that_cannot_be_read(
    box: EngineSandbox, prepare: str, file: str, error: type[OSError]
) -> None:
    await box.exec(["sh", "-c", prepare])
    with pytest.raises(error) as failed:
        await box.read_file(file)
    assert type(failed.value) is error
    assert file in str(failed.value)


async def test_files_outside_the_root_file_system_are_read(box: EngineSandbox) -> None:
    await box.exec(["sh", "-c", "echo shared > /dev/shm/note; ln -sf /dev/shm/note link"])
    assert await box.read_file("/dev/shm/note") == "shared\n"
    assert await box.read_file("link") == "shared\n"
    assert (await box.read_file("/proc/self/comm")) == "head\n"


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("/etc", IsADirectoryError),
        ("/etc/passwd/below", NotADirectoryError),
        ("/proc/nothing", OSError),
    ],
)
async def test_files_that_cannot_be_written(
    box: EngineSandbox, file: str, error: type[OSError]
) -> None:
    with pytest.raises(error):
        await box.write_file(file, "x")


async def test_a_container_with_another_user_keeps_to_its_rights() -> None:
    box = await started(user="agent", working_dir="/home/agent")
    try:
        await box.write_file("note", "mine")
        assert await box.read_file("/home/agent/note") == "mine"
        assert (await box.exec(["id", "-u"])).stdout == "3002\n"
        assert (await box.exec(["id", "-u"], user="root")).stdout == "0\n"
        for place in ("/etc/new", "/etc/passwd", "/usr/local/lib/rt/x"):
            with pytest.raises(PermissionError):
                await box.write_file(place, "x")
        for place in ("/etc/shadow", "/usr/local/lib/rt/x"):
            with pytest.raises(PermissionError):
                await box.read_file(place)
    finally:
        await ended(box)


async def test_a_path_of_the_image_does_not_reach_our_scripts() -> None:
    box = await started(environment={"PATH": "/tmp/evil:/usr/bin:/bin", "LC_ALL": "xx"})
    try:
        for tool in ("stat", "head", "cat", "mkdir", "tr", "grep"):
            await box.write_file(f"/tmp/evil/{tool}", "#!/bin/sh\necho planted >> /tmp/planted\n")
            await box.exec(["chmod", "+x", f"/tmp/evil/{tool}"])
        await box.write_file("/srv/new/file", "text")
        assert await box.read_file("/srv/new/file") == "text"
        with pytest.raises(TimeoutError):
            await box.exec(["sleep", "9"], timeout=1)
        assert (await box.exec(["test", "-e", "/tmp/planted"])).returncode == 1
    finally:
        await ended(box)


# Many at once, and what one container may take


async def test_commands_run_at_once(box: EngineSandbox) -> None:
    results: dict[int, str] = {}

    async def one(number: int) -> None:
        results[number] = (await box.exec(["sh", "-c", f"sleep 1; echo {number}"])).stdout

    begun = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(one, number)
    assert results == {number: f"{number}\n" for number in range(12)}
    assert time.monotonic() - begun < 8


async def test_sandboxes_do_not_see_each_other() -> None:
    boxes: list[EngineSandbox] = []

    async def one() -> None:
        boxes.append(await started())

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    try:
        for number, box in enumerate(boxes):
            await box.write_file("/tmp/mine", str(number))
        for number, box in enumerate(boxes):
            assert await box.read_file("/tmp/mine") == str(number)
        assert len({(await box.exec(["hostname"])).stdout for box in boxes}) == 4
    finally:
        for box in boxes:
            await ended(box)


async def test_too_many_processes_and_too_much_memory_stay_inside() -> None:
    box = await started(mem_limit="64m", memswap_limit="64m", pids_limit=32)
    try:
        forks = await box.exec([PYTHON, "-c", FORKS], timeout=20)
        assert 10 < int(forks.stdout) < 32
        eats = await box.exec(
            [PYTHON, "-c", "x = bytearray(200 * 1024**2); print(len(x))"],
            timeout=20,
        )
        assert eats.returncode == 137 and eats.stdout == ""
        assert (await box.exec(["echo", "here"])).stdout == "here\n"
    finally:
        await ended(box)


async def test_one_file_ends_at_its_limit(box: EngineSandbox) -> None:
    result = await box.exec(
        ["sh", "-c", "truncate -s 2G /tmp/big; echo $?; rm -f /tmp/big"], timeout=20
    )
    assert result.stdout.strip() != "0"


async def test_a_container_that_fills_the_disk_is_stopped_and_told() -> None:
    box = await started(**{"x-disk-limit": "20m"})
    try:
        with pytest.raises(SandboxUnavailableError, match="disk limit of 20,971,520"):
            for number in range(100):
                await box.exec(
                    ["sh", "-c", f"head -c 5000000 /dev/zero > /tmp/{number}; sleep 0.2"]
                )
        with pytest.raises(SandboxUnavailableError, match="disk limit"):
            await box.read_file("/etc/passwd")
    finally:
        await ended(box)


async def test_a_container_that_died_is_an_error_and_no_result() -> None:
    box = await started()
    try:
        connection = await box.connection(user="agent")
        assert connection.command == f"docker exec -it --user agent {box.name} bash -l"
        assert connection.vscode_command is None and connection.container == box.name

        async def kill() -> None:
            await anyio.sleep(0.5)
            client().kill(box.container)

        with pytest.raises(SandboxUnavailableError, match="ended with exit code"):
            async with anyio.create_task_group() as group:
                group.start_soon(kill)
                try:
                    await box.exec(["sleep", "20"])
                except SandboxUnavailableError as error:
                    raised = error
            raise raised
        for call in (box.exec(["true"]), box.read_file("/etc/passwd"), box.write_file("x", "y")):
            with pytest.raises(SandboxUnavailableError, match=box.name):
                await call
        with pytest.raises(ConnectionError):
            await box.connection()
    finally:
        await ended(box)
    with pytest.raises(SandboxUnavailableError):
        await box.exec(["true"])


# Images


async def test_an_image_that_is_not_there_names_the_command_that_makes_it() -> None:
    config = ComposeConfig.model_validate(
        {"services": {"default": {"image": "propensity-sandbox:000000000000", "x-local": True}}}
    )
    with pytest.raises(ImageMissing, match="python -m propensity.sandboxes.provision"):
        await EngineSandbox.task_init("test_engine", config)


async def test_an_image_is_built_from_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM {SERVICE.image}\nRUN echo built > /built\nWORKDIR /srv\n", encoding="utf-8"
    )
    file = str(tmp_path / "Dockerfile")
    environments = await EngineSandbox.sample_init("test_engine", file, {})
    box = environments["default"].as_type(EngineSandbox)
    try:
        assert await box.read_file("/built") == "built\n"
        assert (await box.exec(["pwd"])).stdout == "/srv\n"
    finally:
        image = client().inspect_container(box.container)["Config"]["Image"]
        await ended(box)
        client().remove_image(image)
    (tmp_path / "Dockerfile").write_text(f"FROM {SERVICE.image}\nRUN false\n", encoding="utf-8")
    with pytest.raises(ImageMissing, match="cannot be built"):
        await EngineSandbox.task_init("test_engine", file)


def test_default_concurrency() -> None:
    assert EngineSandbox.default_concurrency() == default_sandboxes() <= 8
    assert EngineSandbox.is_docker_compatible()
    assert "compose.yaml" in EngineSandbox.config_files()


async def test_nothing_of_this_module_is_left(box: EngineSandbox) -> None:
    mine = [one.id for one in containers.found() if one.task == "test_engine"]
    assert mine == [box.container]
