"""Run one command as the agent: own group, clean environment, a limit that kills.

    as_agent.py HOME CWD SECONDS COMMAND [ARGUMENT…]

Privileges are dropped here and not by the provider, because providers differ in how they run
a command as another user. Exit code 90: the limit was reached (a command's own 124 reads the
same, since one provider takes 124 for its own time-out); 91: the folder cannot be entered.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import IO

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shared  # noqa: E402

SLOW, NO_FOLDER = 90, 91
KEEP = 1 << 20


class Drain(threading.Thread):
    """Reads a stream to its end and keeps its first and last `KEEP` bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.head = b""
        self.tail = b""
        self.dropped = 0
        self.start()

    def run(self) -> None:
        """Read until the stream ends."""
        while part := os.read(self.stream.fileno(), 65_536):
            room = KEEP - len(self.head)
            self.head += part[:room]
            self.tail += part[room:]
            if len(self.tail) > 2 * KEEP:
                self.dropped += len(self.tail) - KEEP
                self.tail = self.tail[-KEEP:]

    def text(self) -> bytes:
        """Return what was kept; a gap is named."""
        dropped = self.dropped + max(0, len(self.tail) - KEEP)
        gap = f"\n[{dropped} bytes left out]\n".encode() if dropped else b""
        return self.head + gap + self.tail[-KEEP:]


def main(home: str, cwd: str, seconds: str, *command: str) -> int:
    """Run the command and pass its output and exit code on."""

    def enter() -> None:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("800")
        shared.become(shared.AGENT, [shared.AGENT, shared.OPS], 0o002)
        os.chdir(cwd)

    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "LANG": "C.UTF-8",
        "PWD": cwd,
    }
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if sys.stdin is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            preexec_fn=enter,
            start_new_session=True,
        )
    except subprocess.SubprocessError:
        print(f"{cwd}: cannot enter this folder", file=sys.stderr)
        return NO_FOLDER
    except OSError as fault:
        print(f"{command[0]}: {fault.strerror}", file=sys.stderr)
        return 127 if isinstance(fault, FileNotFoundError) else 126
    assert child.stdout and child.stderr
    drains = [Drain(child.stdout), Drain(child.stderr)]
    try:
        code = child.wait(timeout=float(seconds))
        code = SLOW if code == 124 else code
    except subprocess.TimeoutExpired:
        code = SLOW
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for drain, stream in zip(drains, (sys.stdout, sys.stderr), strict=True):
        # A process left behind may hold the stream open for ever: what it says later is lost.
        drain.join(timeout=0.5)
        stream.buffer.write(drain.text())
        stream.buffer.flush()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    # Not sys.exit: it would wait for streams that a process left behind still holds.
    os._exit(code)
