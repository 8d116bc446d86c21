"""The service of one environment: answers requests by its engine, keeps state and receipts.

Runs as user `svc`. Trusts nothing that the agent can write: paths are opened without following
links, surfaces and mirrors are compared by digest before each request, and what was seen goes
into the receipt, so that a replay on the host is exact.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sqlite3
import struct
import sys
import time
from typing import Any, NoReturn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shared  # noqa: E402

MAX_REQUEST = 128 * 1024
MAX_RECEIPTS, MAX_BYTES = 2_000, 16 << 20
MAX_TEXT = 4_096
MAX_DEPTH = 32
MIN_SPACE = 4 << 20
USAGE = {"ok": False, "error": "E_USAGE", "message": "unknown request"}
BUSY = {"ok": False, "error": "E_BUSY", "message": "too many requests; no more are taken"}
FULL = {"ok": False, "error": "E_UNAVAILABLE", "message": "nothing could be recorded; no effect"}


class Service:
    """State, files and receipts of one environment."""

    def __init__(self, config: dict[str, Any]) -> None:
        name = config["environment"]
        self.engine = importlib.import_module(f"environments.{name}.engine").ENGINE
        self.folder = f"/var/lib/{config['service']}"
        self.state = self.engine.initial_state(config["params"])
        self.expected: dict[str, str] = {
            path: entry["sha256"] for path, entry in config["manifest"].items()
        }
        self.text: dict[str, str] = {
            path: output.text for path, output in self.engine.outputs(self.state).items()
        }
        self.prev = shared.genesis(config["nonce"], config["manifest"])
        self.count = 0
        # Opened once: a folder that is replaced by a link later is not followed.
        self.folders = {
            path: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            for path in config["folders"]
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.receipts = os.open(f"{self.folder}/receipts.jsonl", flags, 0o600)
        self.keep()

    def answer(self, line: bytes, uid: int) -> dict[str, Any]:
        """Answer one line and leave its receipt; what cannot be recorded has no effect."""
        if self.count >= MAX_RECEIPTS or os.fstat(self.receipts).st_size >= MAX_BYTES:
            return BUSY
        space = os.statvfs(self.folder)
        if space.f_bavail * space.f_frsize < MIN_SPACE:
            return FULL
        request = parsed(line)
        if request is None:
            request = {"verb": "", "args": {}}
        observed = self.observe()
        state, reply = self.engine.apply(self.state, request, observed)
        wrote = self.write(state, observed)
        receipt = {
            "seq": self.count + 1,
            "wall": round(time.time(), 3),
            "clock_min": state["clock_min"],
            "verb": request["verb"],
            "args": request["args"],
            "peer_uid": uid,
            "observed": observed,
            "ok": reply["ok"],
            "error": reply.get("error"),
            "wrote": wrote,
            "state_sha256": shared.sha256(shared.canonical(state)),
            "prev": self.prev,
        }
        receipt["hash"] = shared.sha256(self.prev.encode("ascii") + shared.canonical(receipt))
        size = os.fstat(self.receipts).st_size
        try:
            data = shared.canonical(receipt) + b"\n"
            if os.write(self.receipts, data) != len(data):
                raise OSError
            os.fsync(self.receipts)
            if state != self.state:
                before, self.state = self.state, state
                try:
                    self.keep()
                except OSError:
                    self.state = before
                    raise
        except OSError:
            os.ftruncate(self.receipts, size)
            return FULL
        self.prev, self.count = receipt["hash"], self.count + 1
        return dict(reply)

    def observe(self) -> dict[str, Any]:
        """Look at the surfaces and at our own mirrors, as they are now."""
        surfaces: dict[str, dict[str, str]] = {}
        for path, surface in self.engine.SURFACES.items():
            status, content = shared.surface(path, self.expected.get(path))
            if status != "intact":
                surfaces[path] = {"status": status}
                if surface.text and status == "changed":
                    surfaces[path]["text"] = content.decode("utf-8", "replace")[:MAX_TEXT]
        mirrors = [
            path
            for path in self.engine.MIRRORS
            if shared.surface(path, self.expected.get(path))[0] != "intact"
        ]
        return {"surfaces": surfaces, "mirrors": mirrors}

    def write(self, state: dict[str, Any], observed: dict[str, Any]) -> dict[str, str]:
        """Write the files whose text is new; one that the agent put there first is left alone."""
        wrote: dict[str, str] = {}
        taken: list[str] = []
        for path, output in self.engine.outputs(state).items():
            if self.text.get(path) == output.text:
                continue
            if output.role in ("artefact", "doc"):
                if shared.surface(path, self.expected.get(path))[0] != "intact":
                    taken.append(path)
                    continue
            data = output.text.encode("utf-8", "backslashreplace")
            try:
                self.replace(path, data, 0o444 if output.role == "doc" else 0o664)
            except OSError:
                taken.append(path)
                continue
            self.text[path] = output.text
            self.expected[path] = wrote[path] = shared.sha256(data)
        if taken:
            observed["artefact_taken"] = taken
        return wrote

    def replace(self, path: str, data: bytes, mode: int) -> None:
        """Write by a new file and a rename, below a folder opened at the start."""
        parent, name = os.path.split(path)
        temporary = f".{name}.{os.getpid()}"
        folder = self.folders[parent]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                os.fchown(file.fileno(), -1, shared.OPS)
                os.fchmod(file.fileno(), mode)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(temporary, dir_fd=folder)
            raise

    def keep(self) -> None:
        """Store the state (and its tables) by a temporary file and a rename."""
        temporary = f"{self.folder}/state.json.new"
        with open(temporary, "wb") as file:
            file.write(shared.canonical(self.state))
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, f"{self.folder}/state.json")
        if tables := self.engine.tables(self.state):
            path = f"{self.folder}/ledger.db.new"
            if os.path.exists(path):
                os.unlink(path)
            try:
                with sqlite3.connect(path) as database:
                    for name, (columns, rows) in tables.items():
                        database.execute(f"create table {name} ({', '.join(columns)})")
                        marks = ", ".join("?" * len(columns))
                        database.executemany(f"insert into {name} values ({marks})", rows)
                database.close()
            except sqlite3.Error as fault:
                raise OSError(str(fault)) from fault
            os.rename(path, f"{self.folder}/ledger.db")


def parsed(line: bytes) -> dict[str, Any] | None:
    """Return a request with `verb` and `args` as received, or None if it is none."""
    try:
        found = json.loads(line.decode("utf-8"), parse_constant=refuse)
        shared.canonical(found)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("verb"), str) or deep(found):
        return None
    return {"verb": found["verb"], "args": found.get("args", {})} if len(found) <= 2 else None


def deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Say whether a value nests too deeply: a receipt of it could not be frozen any more."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not levels or any(deep(part, levels - 1) for part in parts)


def refuse(name: str) -> NoReturn:
    """Refuse NaN and infinities, which are no JSON."""
    raise ValueError(name)


def received(connection: socket.socket) -> bytes:
    """Return one line of at most `MAX_REQUEST` bytes; what is longer is no request."""
    parts = b""
    while b"\n" not in parts and len(parts) <= MAX_REQUEST:
        part = connection.recv(65_536)
        if not part:
            break
        parts += part
    line, newline, _ = parts.partition(b"\n")
    return line if newline and len(line) <= MAX_REQUEST else b""


def serve(config: dict[str, Any]) -> None:
    """Answer one connection after the other until told to stop."""
    service = Service(config)
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    path = f"/run/{config['service']}/{config['service']}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen(64)
        listener.settimeout(0.2)
        while not stopping:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                try:
                    cred = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    uid = struct.unpack("3i", cred)[1]
                    if uid not in (0, shared.AGENT):
                        continue
                    line = received(connection)
                    if uid == 0 and line == b'{"ping": true}':
                        reply: dict[str, Any] = {"ok": True}
                    else:
                        reply = service.answer(line, uid)
                    connection.sendall(json.dumps(reply).encode("ascii") + b"\n")
                except (OSError, TimeoutError):
                    continue


if __name__ == "__main__":
    serve(shared.read_json(shared.CONFIG))
