"""One command in a container: its own socket to the engine, its streams, its exit code."""

import json
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from propensity.sandboxes.provider.client import CALL_SECONDS, client, engine_address, limiter
from propensity.sandboxes.provider.streams import STDERR, STDOUT, Frames, Tail

_commands: RunVar[anyio.CapacityLimiter] = RunVar("propensity_engine_commands")
AT_ONCE = 256
CHUNK = 1 << 18


class EngineHung(TimeoutError):
    """The engine itself did not answer in time."""


class ContainerLost(RuntimeError):
    """The container takes no commands; carries the engine's words."""


@dataclass(frozen=True)
class Done:
    """How a command ended.

    Attributes:
        code: exit code; 126 or 127 also if the engine could not start the command.
        stdout: the last bytes of the stream, as many as the limit allows.
        stderr: likewise; the engine's words if the command was not started.
        started: whether the command ran at all.
        sent: whether the whole input was taken.
        seconds: wall-clock time from start to the end of the streams.
    """

    code: int
    stdout: bytes
    stderr: bytes
    started: bool
    sent: bool
    seconds: float


class Command:
    """One command, run in a thread; cancelling the caller closes its socket.

    Args:
        container: id of the container.
        words: program and arguments.
        data: standard input, or None for none.
        settings: further arguments of `docker.APIClient.exec_create`.
    """

    def __init__(
        self, container: str, words: list[str], data: bytes | None = None, **settings: Any
    ) -> None:
        self._container = container
        self._words = words
        self._data = data
        self._settings = settings
        self._connection: socket.socket | None = None
        self._stopped = False

    async def run(self, limit: int, seconds: float | None = None) -> Done:
        """Run to the end.

        Args:
            limit: bytes kept of each stream.
            seconds: longest wait for the streams to end; None waits for ever.

        Raises:
            EngineHung: if the engine did not end the streams in time.
            ContainerLost: if the container takes no commands.
        """
        try:
            return await anyio.to_thread.run_sync(
                self._run,
                limit,
                seconds,
                limiter=limiter(_commands, AT_ONCE),
                abandon_on_cancel=True,
            )
        except anyio.get_cancelled_exc_class():
            self._stopped = True
            if self._connection is not None:
                _quietly(self._connection.shutdown, socket.SHUT_RDWR)
            raise

    def _run(self, limit: int, seconds: float | None) -> Done:
        import requests
        from docker.errors import APIError

        api = client()
        out, err = Tail(limit), Tail(limit)
        try:
            exec_id = api.exec_create(
                self._container, self._words, stdin=self._data is not None, **self._settings
            )["Id"]
            begun = time.monotonic()
            with _connect(engine_address()) as connection:
                self._connection = connection
                if self._stopped:
                    raise EngineHung("cancelled before it began")
                frames = Frames()
                rest = _start(connection, f"/v{api.api_version}/exec/{exec_id}/start")
                _sort(frames.feed(rest), out, err)
                sent = _exchange(
                    connection,
                    self._data,
                    lambda data: _sort(frames.feed(data), out, err),
                    None if seconds is None else begun + seconds,
                )
            taken = time.monotonic() - begun
            state = self._ended(api, exec_id)
        except APIError as error:
            raise ContainerLost(str(error.explanation or error)) from error
        except (requests.RequestException, ConnectionError, FileNotFoundError) as error:
            raise ContainerLost(f"the engine does not answer: {error}") from error
        started = bool(state["Pid"])
        return Done(
            code=int(state["ExitCode"]),
            stdout=out.bytes() if started else b"",
            stderr=err.bytes() if started else out.bytes() + err.bytes(),
            started=started,
            sent=sent,
            seconds=taken,
        )

    def _ended(self, api: Any, exec_id: str) -> dict[str, Any]:
        """The command's last state, which may be written a moment after its streams end."""
        for _ in range(200):
            state: dict[str, Any] = api.exec_inspect(exec_id)
            if self._stopped or (not state["Running"] and state["ExitCode"] is not None):
                return state
            time.sleep(0.02)
        raise EngineHung("the command's streams ended, but the engine still calls it running")


def _quietly(function: Callable[..., None], *arguments: Any) -> None:
    try:
        function(*arguments)
    except OSError:
        pass


def _connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CALL_SECONDS)
        connection.connect(parts.path)
        return connection
    return socket.create_connection((parts.hostname, parts.port or 2375), CALL_SECONDS)


def _start(connection: socket.socket, path: str) -> bytes:
    """Ask for the command's streams; return what follows the head of the answer.

    The head is read here and not by an HTTP client, whose read-ahead could swallow the first
    frames.
    """
    body = json.dumps({"Detach": False, "Tty": False})
    connection.sendall(
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        try:
            received = connection.recv(CHUNK)
        except TimeoutError as error:
            raise EngineHung(f"the engine said nothing for {CALL_SECONDS} s") from error
        if not received:
            raise ContainerLost("the engine closed the connection")
        head += received
    head, _, rest = head.partition(b"\r\n\r\n")
    if head.split(b" ", 2)[1] != b"101":
        raise ContainerLost(f"{head.splitlines()[0].decode()}: {rest.decode(errors='replace')}")
    return rest


def _sort(pieces: list[tuple[int, bytes]], out: Tail, err: Tail) -> None:
    for stream, data in pieces:
        if stream == STDOUT:
            out.add(data)
        elif stream == STDERR:
            err.add(data)


def _exchange(
    connection: socket.socket,
    data: bytes | None,
    receive: Callable[[bytes], None],
    deadline: float | None,
) -> bool:
    """Send the input and take the streams at once, to their end; was all input taken?"""
    connection.setblocking(False)
    waiting = memoryview(data or b"")
    sending = data is not None
    poll = select.poll()
    poll.register(connection, select.POLLIN | (select.POLLOUT if sending else 0))
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        events = poll.poll(left)
        if not events:
            raise EngineHung("the engine did not end the command's streams in time")
        ready = events[0][1]
        if sending and ready & select.POLLOUT:
            try:
                waiting = waiting[connection.send(waiting[:CHUNK]) :] if waiting else waiting
                if not waiting:
                    connection.shutdown(socket.SHUT_WR)
                    sending = False
            except BlockingIOError:
                pass
            except OSError:
                sending = False
            if not sending:
                poll.modify(connection, select.POLLIN)
        if ready & ~select.POLLOUT:
            try:
                received = connection.recv(CHUNK)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                received = b""
            if not received:
                return not waiting
            receive(received)
