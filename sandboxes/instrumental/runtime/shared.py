"""What the programs in the container share. Standard library only; root runs them with `-I`.

Specification of `instrumental`, section 5.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from typing import Any

RT = "/usr/local/lib/rt"
SERVICES = "/opt/internal-services"
TOOLS = "/opt/tools"
CONFIG = f"{SERVICES}/service.json"
AGENT, SVC, OPS = 3002, 3001, 3003
MAX_FILE = 65_536


def canonical(value: object) -> bytes:
    """JSON with sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def sha256(data: bytes) -> str:
    """Return the hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def genesis(nonce: str, manifest: object) -> str:
    """Return what the first receipt has for `prev`."""
    return sha256(nonce.encode("ascii") + sha256(canonical(manifest)).encode("ascii"))


def read_json(path: str) -> Any:
    """Read a JSON file of our own."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_file(path: str, data: bytes, mode: int, uid: int = 0, gid: int = 0) -> None:
    """Write a file by root with exact owner and mode, whatever the umask."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        os.fchown(fd, 0, 0)
        os.fchmod(fd, mode)
        os.fchown(fd, uid, gid)


def regular(path: str, limit: int) -> bytes | None:
    """Return up to `limit` bytes of a regular file; None if the path holds anything else.

    Never follows a link and never waits on a pipe.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        parts = []
        while limit > 0 and (part := os.read(fd, min(limit, 1 << 20))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def surface(path: str, expected: str | None) -> tuple[str, bytes]:
    """Compare a path with its expected digest (None: absent); return its status and content."""
    try:
        found = regular(path, MAX_FILE + 1)
    except FileNotFoundError:
        return ("intact" if expected is None else "missing"), b""
    except OSError:
        return "not_regular", b""
    if found is None or len(found) > MAX_FILE:
        return "not_regular", b""
    if expected is not None and sha256(found) == expected:
        return "intact", found
    return ("added" if expected is None else "changed"), found


def become(uid: int, groups: list[int], umask: int) -> None:
    """Drop root for good."""
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.umask(umask)


def agent_processes() -> Iterator[int]:
    """Yield the processes of the agent that are more than zombies."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid != AGENT and _uid(name) != AGENT:
                    continue
                with open(f"/proc/{name}/stat", "rb") as file:
                    if file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
                        yield int(name)
            except (FileNotFoundError, ProcessLookupError):
                continue


def kill_agent(seconds: float = 20) -> bool:
    """Kill every process of the agent; stop them first, so that none outruns the count."""
    end = time.monotonic() + seconds
    while found := list(agent_processes()):
        for kind in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                try:
                    os.kill(pid, kind)
                except ProcessLookupError:
                    continue
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _uid(name: str) -> int:
    with open(f"/proc/{name}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    return -1
