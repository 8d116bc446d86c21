"""`propensity demo`: every benchmark on a small real model and on reference policies, compared."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from propensity.cli.common import FallsShort, Refused, console

EMBEDDED = "embedded/smollm2-135m"


@dataclass(frozen=True)
class DemoRun:
    """One run of the demonstration: a task for one subject (a model, or a reference policy)."""

    task: str
    policy: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    max_tokens: int | None = None
    sandbox: bool = False
    epochs: int = 1

    @property
    def subject(self) -> str:
        """What is measured, as the comparison names it."""
        return EMBEDDED if self.policy is None else f"policy/{self.policy}"


SMOKE = {"preset": "smoke"}
CELLS = {"environments": "budget_siphon", "variants": "A,H"}
RUNS = (
    DemoRun("hirewatch", None, SMOKE, max_tokens=80),
    DemoRun("hirewatch", "comply_under_pressure", SMOKE),
    DemoRun("hirewatch", "always_lawful", SMOKE),
    DemoRun("instrumental", None, CELLS, max_tokens=120, sandbox=True),
    DemoRun("instrumental", "official", {"variants": "A,H"}, sandbox=True),
    DemoRun("instrumental", "shortcut", {"variants": "A,H"}, sandbox=True),
    DemoRun("rpeval", None, {}, limit=15, max_tokens=80),
    DemoRun("rpeval", "oracle", {}, limit=15),
    DemoRun("rpeval", "always_a", {}, limit=15),
    DemoRun("juice", None, {}, limit=3, max_tokens=160),
    DemoRun("juice", "perfect", {}, limit=3),
    DemoRun("juice", "half", {}, limit=3),
)


@click.command(epilog="Example: propensity demo --out my-demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-out"),
    show_default=True,
    help="Folder for logs and store; runs are added to what it holds.",
)
def command(out: Path) -> None:
    """Run the benchmarks on a small embedded model and reference policies, and compare them.

    No key, no GPU, no network. The embedded model is a demonstration subject: its scores mean
    little.
    """
    screen = console()
    out = out.resolve()
    try:
        (out / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{out} cannot be made: {error.strerror}", "Choose --out DIR.") from error
    os.environ["PROPENSITY_STORE"] = str(out / "store")

    failed = []
    for run in _possible(screen):
        with _timed(screen, f"{run.task} · {run.subject}") as note:
            note.append(_execute(run, out / "logs"))
            if not note[0].startswith("success"):
                failed.append(f"{run.task} · {run.subject}")
    for task in dict.fromkeys(run.task for run in RUNS):
        screen.rule(f"[bold]{task}")
        _compare(task, out / "store")
    screen.rule("[bold]Where to look next")
    shown = _shown(out)
    screen.print(f"inspect view --log-dir {shown}/logs", markup=False, soft_wrap=True)
    screen.print(f"propensity compare --store {shown}/store", markup=False, soft_wrap=True)
    screen.print(f"Results store (Delta tables): {shown}/store", markup=False, soft_wrap=True)
    if failed:
        raise FallsShort(f"{len(failed)} runs did not finish: {'; '.join(failed)}")


def _possible(screen: Console) -> Iterator[DemoRun]:
    """Leave out, and say so, what this machine has no model or no sandbox for."""
    faults = {EMBEDDED: _model_fault(), "sandbox": _sandbox_fault()}
    for run in RUNS:
        needs = [EMBEDDED] if run.policy is None else []
        needs += ["sandbox"] if run.sandbox else []
        missing = [fault for need in needs if (fault := faults[need])]
        if missing:
            screen.print(f"left out: {run.task} · {run.subject}: {missing[0]}", soft_wrap=True)
        else:
            yield run


def _model_fault() -> str | None:
    from importlib.util import find_spec

    from propensity.models.weights import find_weights

    try:
        find_weights(EMBEDDED.split("/")[1])
    except (ImportError, FileNotFoundError) as error:
        return str(error)
    return None if find_spec("xllamacpp") else "xllamacpp is not installed: run make setup"


def _sandbox_fault() -> str | None:
    from propensity.sandboxes import compose_file
    from propensity.sandboxes.context import image_tag
    from propensity.sandboxes.provider.images import image_id
    from propensity.sandboxes.provision.engine import NoEngine, answering

    try:
        if answering() is None:
            return "no Docker engine answers: run make setup"
    except NoEngine as error:
        return str(error)
    tag = image_tag(Path(compose_file("instrumental")).parent)
    return None if image_id(tag) else f"the image {tag} is missing: run make setup"


def _execute(run: DemoRun, log_dir: Path) -> str:
    from inspect_ai import eval
    from inspect_ai.solver import SolverSpec

    named = {"name": run.policy}
    solver = SolverSpec(f"propensity/{run.task}_policy", args=named, args_passed=named)
    options: dict[str, Any] = {}
    if run.max_tokens is not None:
        options["max_tokens"] = run.max_tokens
    log = eval(
        f"propensity/{run.task}",
        model=EMBEDDED if run.policy is None else "none",
        solver=solver if run.policy else None,
        task_args=run.args,
        limit=run.limit,
        log_dir=str(log_dir),
        display="none",
        seed=0,
        epochs=run.epochs,
        **options,
    )[0]
    if log.status != "success":
        return f"{log.status}: {log.error.message if log.error else 'no reason given'}"
    samples = log.results.completed_samples if log.results else 0
    return f"success, {samples} samples"


def _compare(task: str, store: Path) -> None:
    """Print the comparison; a health mark on a demonstration run is shown, not an error."""
    from propensity.cli.main import cli

    arguments = ["compare", "--task", task, "--store", str(store), "--latest"]
    try:
        cli.main([*arguments, "--allow-low-coverage"], standalone_mode=False)
    except FallsShort as mark:
        mark.show()


@contextmanager
def _timed(screen: Console, title: str) -> Iterator[list[str]]:
    started = time.monotonic()
    note: list[str] = []
    with screen.status(title):
        yield note
    screen.print(f"{title}: {''.join(note)}, {time.monotonic() - started:.0f} s", soft_wrap=True)


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
