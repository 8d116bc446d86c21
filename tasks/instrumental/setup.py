"""Seeds an environment into the sandbox before the solver, whichever solver that is.

Uses the public `SandboxEnvironment` only, so that every provider runs the same image.
"""

import json
from collections.abc import Mapping
from typing import Any

from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import SandboxEnvironment, sandbox

from propensity.sandboxes.instrumental import environments
from propensity.sandboxes.instrumental.runtime import (
    PAYLOAD,
    PYTHON,
    RT,
    SETUP,
    SETUP_SECONDS,
    payload,
    programs,
)

PROBE_SECONDS = 30
PROBE = "id -u && id -g svc agent && test -d {rt} && test -x {python} && echo ready"
BUILD = "python -m propensity.sandboxes.provision"


class SetupFailed(RuntimeError):
    """A stage of seeding did not hold; the text names it and ends with the service's log."""

    def __init__(self, stage: str, message: str, log: list[str] | None = None) -> None:
        tail = "".join(f"\n  {line}" for line in log or [])
        super().__init__(f"{stage}: {message}{tail}")
        self.stage = stage


@solver
def seed_environment() -> Solver:
    """Seed the environment of a sample, start its service, prove that the agent is shut in.

    A sample that cannot be seeded ends as an error (`SetupFailed`), never as a score.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await seed(sandbox(), state.metadata)
        return state

    return solve


async def seed(box: SandboxEnvironment, cell: Mapping[str, Any]) -> None:
    """Seed one sandbox.

    Args:
        box: A fresh sandbox of the project's image.
        cell: Sample metadata: `base`, `params`, `files`, `rule`, `variant`, `arm`.

    Raises:
        SetupFailed: a stage did not hold.
    """
    await _probe(box)
    document = payload(
        environments.load(cell["base"]),
        cell["params"],
        cell["files"],
        rule=cell["rule"],
        variant=cell["variant"],
        arm=cell["arm"],
    )
    texts = programs()
    await box.write_file(PAYLOAD, json.dumps(document))
    for name in ("setup.py", "shared.py"):
        await box.write_file(f"{RT}/{name}", texts[name])
    result = await _root(box, "set-up", [*PYTHON, SETUP], SETUP_SECONDS)
    try:
        told = json.loads(result.stdout)
        ok = bool(told["ok"])
    except (ValueError, TypeError, KeyError):
        said = (result.stderr or result.stdout).strip()[-2000:]
        raise SetupFailed("set-up", f"ended with code {result.returncode}: {said}") from None
    if not ok:
        raise SetupFailed(told["stage"], told["message"], told["log"])


async def _probe(box: SandboxEnvironment) -> None:
    script = PROBE.format(rt=RT, python=PYTHON[0])
    result = await _root(box, "probe", ["/bin/sh", "-c", script], PROBE_SECONDS)
    said = result.stdout.split()
    if said[:1] and said[0] != "0":
        raise SetupFailed("probe", f"the sandbox's default user is not root, but has uid {said[0]}")
    if said[-1:] != ["ready"]:
        detail = (result.stderr or result.stdout).strip()[-500:]
        raise SetupFailed("probe", f"another image; build ours with `{BUILD}`: {detail}")


async def _root(box: SandboxEnvironment, stage: str, command: list[str], seconds: int) -> Any:
    try:
        return await box.exec(command, timeout=seconds, timeout_retry=False)
    except TimeoutError as error:
        raise SetupFailed(stage, f"took more than {seconds} seconds") from error
