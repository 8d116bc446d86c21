"""The wire of a command, against an engine that is played: cut heads, refusals, silence."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from propensity.sandboxes.provider import command
from propensity.sandboxes.provider.command import Command, ContainerLost, EngineHung

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
HELLO = b"\x01\x00\x00\x00\x00\x00\x00\x06hello\n"
Play = Callable[[socket.socket], None]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Lets a function play the engine's side of one connection."""
    path = str(tmp_path / "socket")
    state = {"Running": False, "ExitCode": 0, "Pid": 1}
    api = SimpleNamespace(
        api_version="1.45",
        exec_create=lambda *words, **settings: {"Id": "abc"},
        exec_inspect=lambda exec_id: state,
    )
    monkeypatch.setattr(command, "client", lambda: api)
    monkeypatch.setattr(command, "engine_address", lambda: f"unix://{path}")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    threads = []

    def play(side: Play, **facts: object) -> None:
        state.update(facts)  # type: ignore[arg-type]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                request = b""
                while not request.endswith(b'"Tty": false}'):
                    request += connection.recv(4096)
                assert request.startswith(b"POST /v1.45/exec/abc/start HTTP/1.1\r\n")
                side(connection)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()

    yield play
    for thread in threads:
        thread.join(10)
    listener.close()


async def test_output_that_comes_with_the_head_is_not_lost(engine: Callable[..., None]) -> None:
    engine(lambda connection: connection.sendall(HEAD + HELLO))
    done = await Command("c", ["echo", "hello"]).run(1000)
    assert (done.code, done.stdout, done.stderr, done.started) == (0, b"hello\n", b"", True)


async def test_head_and_frames_may_be_cut_anywhere(engine: Callable[..., None]) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in HEAD + HELLO:
            connection.sendall(bytes([byte]))

    engine(drip, ExitCode=3)
    done = await Command("c", ["echo", "hello"]).run(1000)
    assert (done.code, done.stdout) == (3, b"hello\n")


async def test_input_arrives_whole_while_output_is_read(engine: Callable[..., None]) -> None:
    data = bytes(range(256)) * 8192
    received = bytearray()

    def echo(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        while chunk := connection.recv(1 << 16):
            received.extend(chunk)
            connection.sendall(b"\x02\x00\x00\x00" + len(chunk).to_bytes(4, "big") + chunk)

    engine(echo)
    done = await Command("c", ["cat"], data).run(len(data))
    assert bytes(received) == data == done.stderr
    assert done.sent


async def test_input_that_is_not_taken_is_told(engine: Callable[..., None]) -> None:
    engine(lambda connection: connection.sendall(HEAD))
    done = await Command("c", ["true"], b"x" * 10_000_000).run(10)
    assert not done.sent


async def test_refusal_carries_the_engines_words(engine: Callable[..., None]) -> None:
    engine(
        lambda connection: connection.sendall(
            b'HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{"message":"paused"}'
        )
    )
    with pytest.raises(ContainerLost, match="409 Conflict.*paused"):
        await Command("c", ["true"]).run(10)


async def test_a_command_that_was_not_started_speaks_on_stderr(
    engine: Callable[..., None],
) -> None:
    engine(lambda connection: connection.sendall(HEAD + HELLO), Pid=0, ExitCode=126)
    done = await Command("c", ["absent"]).run(100)
    assert (done.started, done.stdout, done.stderr) == (False, b"", b"hello\n")


async def test_an_engine_that_hangs_is_told_from_a_slow_command(
    engine: Callable[..., None],
) -> None:
    over = threading.Event()

    def hang(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        over.wait(10)

    engine(hang)
    with pytest.raises(EngineHung):
        await Command("c", ["true"]).run(10, seconds=0.3)
    over.set()


async def test_cancelling_ends_the_wait_at_once(engine: Callable[..., None]) -> None:
    closed = threading.Event()

    def hang(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        if connection.recv(1) == b"":
            closed.set()

    engine(hang)
    with anyio.move_on_after(0.3) as scope:
        await Command("c", ["sleep", "1000"]).run(10)
    assert scope.cancelled_caught
    assert await anyio.to_thread.run_sync(closed.wait, 5)
