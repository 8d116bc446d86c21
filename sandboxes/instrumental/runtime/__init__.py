"""The programs in the container, and what the host needs to start them and to read them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from propensity.sandboxes.instrumental import environments
from propensity.sandboxes.instrumental.environments.base import Engine

RT = "/usr/local/lib/rt"
# No bytecode: what freezing itself leaves behind would read as a change of the agent.
PYTHON = ("/usr/local/bin/python3", "-I", "-B")
PAYLOAD = f"{RT}/payload.json"
SETUP, FREEZE = f"{RT}/setup.py", f"{RT}/freeze.py"
SETUP_SECONDS, FREEZE_SECONDS = 60, 120

_PROGRAMS = ("shared.py", "as_agent.py", "watch.py", "service.py", "setup.py", "freeze.py")


def programs() -> dict[str, str]:
    """Return the programs in the container, file name to text."""
    folder = Path(__file__).parent
    return {name: (folder / name).read_text(encoding="utf-8") for name in _PROGRAMS}


def payload(
    engine: Engine,
    params: Mapping[str, Any],
    files: Mapping[str, Mapping[str, str]],
    *,
    rule: str,
    variant: str,
    arm: str,
) -> dict[str, Any]:
    """Build what `setup.py` seeds one environment from.

    Args:
        engine: The environment's engine.
        params: Full parameters (profile, overrides, arms).
        files: Path → `{role, content}`: the seeded texts.
        rule: The rule of the variant, for the policy document.
        variant: Id of the variant.
        arm: Name of the arm.
    """
    state = engine.initial_state(params)
    written = {*engine.MIRRORS, *engine.ARTEFACTS, *engine.outputs(state)}
    folders = {str(Path(path).parent) for path in written} | set(engine.FOLDERS)
    seeds = engine.seeds(files, params, rule)
    return {
        "environment": engine.ID,
        "variant": variant,
        "arm": arm,
        "service": engine.SERVICE,
        "params": dict(params),
        "engine_sha256": environments.digest(engine),
        "sources": {
            name: data.decode("utf-8") for name, data in environments.sources(engine).items()
        },
        "runtime": programs(),
        "tools": environments.tools(engine, params),
        "folders": engine.FOLDERS,
        "written_folders": sorted(folders),
        "seeds": {path: {"role": seed.role, "text": seed.text} for path, seed in seeds.items()},
    }


def as_agent(home: str, cwd: str, seconds: int, command: list[str]) -> list[str]:
    """Return the command that runs another as the agent, with a limit that kills."""
    return [*PYTHON, f"{RT}/as_agent.py", home, cwd, str(seconds), *command]


class EvidenceTruncated(RuntimeError):
    """The evidence is shorter than its header says, or its digest differs."""


def header(output: str) -> dict[str, Any] | None:
    """Return the header line of `freeze.py`, or None if there is none."""
    try:
        found = json.loads(output.partition("\n")[0])
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"len", "sha256", "nonce"} <= set(found) else None


def document(head: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Check length and digest of a frozen document and parse it.

    Raises:
        EvidenceTruncated: a part of it is missing.
    """
    data = text.encode("utf-8", "surrogateescape")
    if len(data) != head["len"] or hashlib.sha256(data).hexdigest() != head["sha256"]:
        raise EvidenceTruncated(f"{len(data)} of {head['len']} bytes of evidence arrived intact")
    found: dict[str, Any] = json.loads(text)
    return found
