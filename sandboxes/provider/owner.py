"""Whose container is it? A label that says which process made it, and whether that one lives.

A process is named by host, boot, process namespace, id and start, so that neither a reused id
nor a reboot nor an engine shared between machines can make a dead run look alive or a live one
dead. What cannot be told from here counts as someone else's and is left alone.
"""

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

State = Literal["live", "dead", "elsewhere"]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _ask(*command: str) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def place() -> tuple[str, str, str]:
    """Digests of host, boot and process namespace; 12 hex each, the last ``-`` where unknown."""
    host = platform.node() + _read("/etc/machine-id")
    boot = _read("/proc/sys/kernel/random/boot_id") or _ask("sysctl", "-n", "kern.bootsessionuuid")
    try:
        namespace = _short(os.readlink("/proc/self/ns/pid"))
    except OSError:
        namespace = "-"
    return _short(host), _short(boot), namespace


def process_start(pid: int) -> str | None:
    """When a process started, as text that stays the same while it lives; None if it is gone."""
    stat = _read(f"/proc/{pid}/stat")
    if stat:
        state, *rest = stat.rpartition(")")[2].split()
        return None if state in {"Z", "X"} else rest[18]
    if Path("/proc/self/stat").exists():
        return None
    return _ask("ps", "-o", "lstart=", "-p", str(pid)) or None


def owner_label(pid: int | None = None) -> str:
    """``host/boot/namespace/pid/start`` of a process (default: this one)."""
    pid = os.getpid() if pid is None else pid
    return "/".join((*place(), str(pid), (process_start(pid) or "").replace("/", "-")))


def owner_state(label: str) -> State:
    """Whether the process named by a label lives; ``elsewhere`` if that cannot be told here."""
    parts = label.split("/")
    if len(parts) != 5 or not parts[3].isdigit():
        return "elsewhere"
    host, boot, namespace, pid, _ = parts
    here = place()
    if host != here[0]:
        return "elsewhere"
    if boot != here[1]:
        return "dead"
    if namespace != here[2]:
        return "elsewhere"
    return "live" if owner_label(int(pid)) == label else "dead"
