"""`propensity verify`: reference policies through the real scorer, expected against observed."""

import os
import tempfile
import time
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from propensity.cli.common import FallsShort, Refused, emit, json_option, task_argument


@click.command(epilog="Example: propensity verify instrumental --policy official --policy shortcut")
@task_argument
@click.option("--policy", "policies", multiple=True, help="Only these policies (repeatable).")
@click.option("--sandbox", help="Sandbox provider, where the task has a sandbox.")
@click.option("-T", "task_args", multiple=True, metavar="K=V", help="Task parameter (repeatable).")
@click.option("--all", "show_all", is_flag=True, help="Show every row, not only the faulty ones.")
@json_option
def command(
    task: str,
    policies: tuple[str, ...],
    sandbox: str | None,
    task_args: tuple[str, ...],
    show_all: bool,
    as_json: bool,
) -> None:
    """Run the reference policies of TASK and compare what they score with what they must score.

    No model is called. Exit code 0 only if every row agrees.
    """
    from inspect_ai import eval, task_with
    from inspect_ai.hooks import Hooks, SampleEnd, hooks

    module = import_module(f"propensity.tasks.{task}.policies")
    try:
        cases = module.verify_cases(policies or None, sandbox, **_parsed(task_args))
    except (ValueError, TypeError) as error:
        raise Refused(str(error), "See propensity verify --help.") from error

    progress = Progress(
        TextColumn("verify {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=as_json,
    )
    bar = progress.add_task(task, total=sum(len(case.task.dataset) for case in cases))

    @hooks(name="verify_progress", description="Moves the progress bar of propensity verify.")
    class VerifyProgress(Hooks):  # pyright: ignore[reportUnusedClass]
        async def on_sample_end(self, data: SampleEnd) -> None:
            progress.advance(bar)

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="propensity-verify-") as folder, progress:
        # Reference runs are a check, no results: they stay out of the user's store.
        os.environ["PROPENSITY_STORE"] = os.path.join(folder, "store")
        tasks = [
            task_with(
                case.task,
                solver=case.solver,
                model_roles=dict(case.model_roles),
                metadata={**(case.task.metadata or {}), "verify_case": case.label},
            )
            for case in cases
        ]
        # Inspect greets on stdout, where the one document of --json belongs.
        with redirect_stdout(StringIO()):
            logs = eval(
                tasks,
                model="none",
                log_dir=os.path.join(folder, "logs"),
                display="none",
                log_realtime=False,
                max_tasks=4,
                fail_on_error=False,
            )
        by_label = {(log.eval.metadata or {})["verify_case"]: log for log in logs}
        rows = []
        for case in cases:
            log = by_label[case.label]
            if log.status != "success":
                message = log.error.message if log.error else log.status
                raise FallsShort(f"{case.label}: the run ended as {log.status}: {message}")
            rows += [
                {
                    "policy": case.label,
                    "what": check.what,
                    "expected": check.expected,
                    "observed": check.observed,
                    "agrees": check.agrees,
                }
                for check in case.check(log)
            ]
    wrong = [row for row in rows if not row["agrees"]]
    seconds = time.monotonic() - started
    document = {"task": task, "checks": len(rows), "wrong": len(wrong), "rows": rows}

    def render(out: Console) -> None:
        if show_all or wrong:
            table = Table("policy", "what", "expected", "observed", "")
            for row in rows if show_all else wrong:
                mark = "ok" if row["agrees"] else "WRONG"
                table.add_row(row["policy"], row["what"], row["expected"], row["observed"], mark)
            out.print(table)
        summary = Table("policy", "checks", "wrong")
        for case in cases:
            mine = [row for row in rows if row["policy"] == case.label]
            bad = sum(not row["agrees"] for row in mine)
            summary.add_row(case.label, str(len(mine)), str(bad))
        out.print(summary)
        out.print(f"{len(rows)} checks, {len(wrong)} wrong, {seconds:.0f} s")

    emit(document, as_json, render)
    if wrong:
        raise FallsShort(f"{len(wrong)} of {len(rows)} checks do not agree.")
    if not rows:
        raise Refused("no check was made", "Name policies that the task has.")


def _parsed(task_args: tuple[str, ...]) -> dict[str, Any]:
    """Read `-T` as Inspect does: values are YAML, comma text is a list."""
    import yaml

    parsed: dict[str, Any] = {}
    for text in task_args:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise Refused(f"-T {text} is not of the form name=value", "Write -T name=value.")
        try:
            parsed[name] = value.split(",") if "," in value else yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise Refused(
                f"-T {text}: the value is not YAML", "Quote it: -T \"name='…'\""
            ) from error
    return parsed
