"""What runs left on the engine: our containers, and those and the networks of Inspect's provider.

Inspect's Docker provider does not say which process made a container. Such a container counts
as left by a dead run only if no process that could have made it lives: one that has Inspect's
compiled parts loaded and is older than the container. Where that cannot be told, it stays.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from propensity.sandboxes.provider import containers
from propensity.sandboxes.provider.client import client

PROJECT = re.compile(r"inspect-[a-z\d\-_]*-i[a-z\d]{6,}")
COMPOSE = "com.docker.compose.project"
LOADED = "pydantic_core"


@dataclass(frozen=True)
class Leftover:
    """One thing left: a container or network, and what made it."""

    kind: str
    id: str
    name: str
    made_by: str


def _boot_time(proc: Path) -> float:
    stat = (proc / "stat").read_text(encoding="utf-8")
    return float(re.findall(r"^btime (\d+)$", stat, re.MULTILINE)[0])


def oldest_owner(proc: Path = Path("/proc")) -> float | None:
    """Start of the oldest process that may run an evaluation, in seconds since the epoch.

    None if there is none; minus infinity where processes cannot be looked at: then anything
    may be owned.
    """
    if not (proc / "stat").exists():
        return float("-inf")
    boot = _boot_time(proc)
    starts = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if "python" not in (folder / "cmdline").read_bytes().decode(errors="replace"):
                continue
            stat = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            start = boot + int(stat[19]) / os.sysconf("SC_CLK_TCK")
            loaded = LOADED in (folder / "maps").read_text(encoding="utf-8", errors="replace")
        except PermissionError:
            loaded = True
        except (OSError, IndexError):
            continue
        if loaded:
            starts.append(start)
    return min(starts, default=None)


def of_inspect() -> list[Leftover]:
    """Containers and networks of Inspect's Docker provider that no living run can own."""
    owner = oldest_owner()
    # A second or two of doubt between the clocks keeps a thing.
    latest = float("inf") if owner is None else owner - 2
    api = client()
    left, owned = [], set()
    for entry in api.containers(all=True, filters={"label": COMPOSE}):
        project = entry["Labels"][COMPOSE]
        if not PROJECT.fullmatch(project):
            continue
        if entry["Created"] < latest:
            left.append(Leftover("container", entry["Id"], entry["Names"][0].lstrip("/"), project))
        else:
            owned.add(project)
    for entry in api.networks(filters={"label": COMPOSE}):
        project = entry["Labels"][COMPOSE]
        created = datetime.fromisoformat(entry["Created"][:19]).replace(tzinfo=UTC).timestamp()
        if PROJECT.fullmatch(project) and project not in owned and created < latest:
            left.append(Leftover("network", entry["Id"], entry["Name"], project))
    return left


def of_dead_runs() -> list[Leftover]:
    """All that dead runs left; containers kept on purpose are not among it."""
    ours = [
        Leftover("container", one.id, one.name, f"{one.task}, sample {one.sample}")
        for one in containers.found()
        if one.state == "dead" and not one.kept
    ]
    return ours + of_inspect()


def remove(left: Leftover) -> None:
    """Remove one leftover; one that is gone already is no error."""
    from docker.errors import NotFound

    if left.kind == "container":
        containers.remove(left.id)
        return
    try:
        client().remove_network(left.id)
    except NotFound:
        pass
