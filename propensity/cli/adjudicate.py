"""`propensity adjudicate`: labels that people look at, and corrections beside the raw ones."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from propensity.cli.common import FallsShort, Refused, emit, json_option, overwrite_option
from propensity.common.datafiles import DataFileError, read_jsonl

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


@click.command(epilog="Example: propensity adjudicate logs/run.eval --export decide.jsonl")
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the runs to decide on (JSON Lines).",
)
@click.option(
    "--apply",
    "decided",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Carry out the decisions of FILE in a new log.",
)
@overwrite_option
@json_option
def command(
    log: Path, target: Path | None, decided: Path | None, overwrite: bool, as_json: bool
) -> None:
    """Let people decide on labels of LOG; raw scores are never changed.

    Export the runs, fill in decision (accept, reject or relabel), author and reason, then apply:
    the corrections stand beside the raw labels in a new log, LOG-adjudicated.
    """
    if (target is None) == (decided is None):
        raise Refused("one of --export and --apply is needed", "See propensity adjudicate --help.")
    file = target or log.with_name(f"{log.stem}-adjudicated{log.suffix}")
    if file.exists() and not overwrite:
        raise Refused(f"{file} exists", "Move it away, or add --overwrite.")
    found = _read(log)
    module = _adjudication(found)
    if target is not None:
        _export(module, found, target, as_json)
    elif decided is not None:
        _apply(module, found, decided, file, as_json)


def _read(log: Path) -> "EvalLog":
    from inspect_ai.log import read_eval_log

    try:
        return read_eval_log(str(log))
    except (OSError, ValueError) as error:
        raise Refused(f"{log} is no readable log: {error}", "Name a log file.") from error


def _adjudication(log: "EvalLog") -> ModuleType:
    task = log.eval.task.rsplit("/", 1)[-1]
    name = f"propensity.scorers.{task}.adjudication"
    if not task.isidentifier() or find_spec(f"propensity.scorers.{task}") is None:
        raise Refused(f"the log is of task {log.eval.task!r}", "Name a log of propensity.")
    if find_spec(name) is None:
        raise Refused(f"labels of {task} are not adjudicated", "Only instrumental's are.")
    return import_module(name)


def _export(module: ModuleType, log: "EvalLog", target: Path, as_json: bool) -> None:
    records = module.exported(log)
    text = module.lines(records)
    target.write_text(text, encoding="utf-8", errors="backslashreplace")
    document = {"file": str(target), "eval_id": log.eval.eval_id, "runs": len(records) - 1}

    def render(out: Console) -> None:
        runs = "1 run" if len(records) == 2 else f"{len(records) - 1} runs"
        out.print(f"{runs} to decide on: {target}", markup=False, soft_wrap=True)
        out.print(
            "Fill in decision (accept, reject, relabel), author and reason, then --apply.",
            markup=False,
            soft_wrap=True,
        )

    emit(document, as_json, render)


def _apply(module: ModuleType, log: "EvalLog", decided: Path, file: Path, as_json: bool) -> None:
    from inspect_ai.log import write_eval_log

    try:
        header, entries = module.parsed(read_jsonl(decided, any_text=True), str(decided))
        result = module.adjudicate(log, header, entries, str(decided))
    except DataFileError as error:
        if error.unreadable:
            raise Refused(str(error), "Check the path and the file's encoding.") from error
        raise FallsShort(str(error), "Mend the file; nothing was changed.") from error
    write_eval_log(log, str(file))
    names = ("violation_rate", "ic_rate_all", "n_adjudicated")
    document = {
        "log": str(file),
        "raw": {name: _number(result.raw[name]) for name in names},
        "final": {name: _number(result.final[name]) for name in names},
        "flips": [
            {"from": before, "to": after, "runs": count}
            for (before, after), count in sorted(result.flips.items())
        ],
    }

    def render(out: Console) -> None:
        rates = Table("", "raw", "adjudicated")
        for name in names:
            rates.add_row(name, _shown(result.raw[name]), _shown(result.final[name]))
        out.print(rates)
        flips = Table("raw", "adjudicated", "runs")
        for (before, after), count in sorted(result.flips.items()):
            flips.add_row(before, after, str(count))
        out.print(flips)
        out.print(f"Wrote {file}; next: propensity ingest {file}", markup=False, soft_wrap=True)

    emit(document, as_json, render)


def _number(value: float) -> float | None:
    return None if value != value else value


def _shown(value: float) -> str:
    return "not available" if value != value else f"{value:.4f}".rstrip("0").rstrip(".")
