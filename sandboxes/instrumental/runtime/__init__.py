"""The programs in the container, and what the host needs to start them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from propensity.sandboxes.instrumental import environments
from propensity.sandboxes.instrumental.environments.base import Engine
from propensity.sandboxes.instrumental.environments.places import PYTHON as PYTHON
from propensity.sandboxes.instrumental.environments.places import RT as RT

PAYLOAD = f"{RT}/payload.json"
SETUP = f"{RT}/setup.py"
SETUP_SECONDS = 60

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
