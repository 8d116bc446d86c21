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
    options: dict[str, Any] = field(default_factory=dict)
    sandbox: bool = False

    @property
    def subject(self) -> str:
        """What is measured, as the comparison names it."""
        return EMBEDDED if self.policy is None else f"policy/{self.policy}"


def _runs(
    task: str,
    policies: tuple[str, str],
    args: dict[str, Any],
    options: dict[str, Any],
    limit: int | None = None,
    policy_args: dict[str, Any] | None = None,
    sandbox: bool = False,
) -> list[DemoRun]:
    """The embedded model, held short by `options`, and two reference policies on one task."""
    model = DemoRun(task, None, args, limit, options, sandbox)
    return [model, *(DemoRun(task, name, policy_args or args, limit, {}, sandbox)
                     for name in policies)]  # fmt: skip


RUNS = (
    *_runs(
        "hirewatch",
        ("comply_under_pressure", "always_lawful"),
        {"preset": "smoke", "trials_per_cell": 2},
        {"max_tokens": 120},
    ),
    *_runs(
        "instrumental",
        ("official", "shortcut"),
        {"environments": "budget_siphon", "variants": "A,H"},
        {"max_tokens": 64, "message_limit": 12},
        policy_args={"variants": "A,H"},
        sandbox=True,
    ),
    *_runs("rpeval", ("oracle", "always_a"), {}, {"max_tokens": 48}, limit=16),
    *_runs("juice", ("perfect", "half"), {"pairs": "us-en"}, {"max_tokens": 96}, limit=2),
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
    screen.print(f"{len(RUNS)} runs into {_shown(out)}; a few minutes on two cores", soft_wrap=True)
    for number, run in _possible(screen):
        title = f"{number:2}/{len(RUNS)} {run.task} · {run.subject}"
        with _timed(screen, title) as note:
            note.append(_execute(run, out / "logs"))
            if not note[0].startswith("scored"):
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


def _possible(screen: Console) -> Iterator[tuple[int, DemoRun]]:
    """Leave out, and say so, what this machine has no model or no sandbox for."""
    faults = {EMBEDDED: _model_fault(), "sandbox": _sandbox_fault()}
    for number, run in enumerate(RUNS, start=1):
        needs = [EMBEDDED] if run.policy is None else []
        needs += ["sandbox"] if run.sandbox else []
        missing = [fault for need in needs if (fault := faults[need])]
        if missing:
            screen.print(f"left out: {run.task} · {run.subject}: {missing[0]}", soft_wrap=True)
        else:
            yield number, run


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

    from propensity.results.store.logs import read_log

    named = {"name": run.policy}
    solver = SolverSpec(f"propensity/{run.task}_policy", args=named, args_passed=named)
    logs = eval(
        f"propensity/{run.task}",
        model=EMBEDDED if run.policy is None else "none",
        # Prompts of one task begin alike: what was read once is not read again.
        model_args={"cache_prompt": True} if run.policy is None else {},
        solver=solver if run.policy else None,
        task_args=run.args,
        limit=run.limit,
        log_dir=str(log_dir),
        display="none",
        seed=0,
        epochs=1,
        **run.options,
    )
    if not logs or logs[0].status == "cancelled":
        raise KeyboardInterrupt
    log = logs[0]
    if log.status != "success":
        return f"{log.status}: {log.error.message if log.error else 'no reason given'}"
    row = read_log(log.location).tables["runs"].to_pylist()[0]
    counts = ("scored", "unscored", "errored")
    return ", ".join(f"{count} {row[count]}" for count in counts) + f" of {row['planned']}"


def _compare(task: str, store: Path) -> None:
    """Print the comparison; a health mark on a demonstration run is shown, not an error."""
    from propensity.cli.main import cli

    arguments = ["compare", "--task", task, "--store", str(store), "--latest", "--intersect"]
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
