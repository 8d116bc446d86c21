"""`propensity compare`: subjects side by side, paired on the same items."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from propensity.cli.common import (
    FallsShort,
    Refused,
    emit,
    json_option,
    overwrite_option,
    store_option,
)
from propensity.cli.ingest import Bar

if TYPE_CHECKING:
    from propensity.results.report.select import CompareRefused

LONG_TEXTS = ("input", "output", "parts", "gold", "answer", "judge_raw", "error_message")


@click.command(epilog="Example: propensity compare logs/ --task hirewatch --baseline openai/gpt-5")
@click.argument("logs", nargs=-1, metavar="[LOGS...]")
@click.option("--task", help="This task only.")
@click.option("--models", metavar="A,B,...", help="These subjects only.")
@click.option("--metric", metavar="KEY", help="Key of the scores; default: the task's headline.")
@click.option(
    "--pair", "pairs", nargs=2, multiple=True, metavar="A B", help="Compare B with A; repeatable."
)
@click.option("--baseline", metavar="M", help="Compare all others with M.")
@click.option("--by", metavar="COLUMN", help="Slices by any factor; default: variant.")
@click.option(
    "--between",
    metavar="COLUMN",
    help="Compare the levels of one factor, such as reasoner, instead of subjects.",
)
@click.option("--intersect", is_flag=True, help="Use shared items where item sets differ.")
@click.option("--latest", is_flag=True, help="The newest run of each subject.")
@click.option(
    "--flips",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="Items listed whose outcome changed; 0 = all.",
)
@click.option("--allow-low-coverage", is_flag=True, help="Print numbers with coverage < .80.")
@click.option("--allow-version-mismatch", is_flag=True, help="Compare across task versions.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="All estimates as a table.")  # fmt: skip
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown instead of a terminal's.")
@store_option
@overwrite_option
@json_option
def command(
    logs: tuple[str, ...],
    task: str | None,
    models: str | None,
    csv_file: Path | None,
    as_markdown: bool,
    store: str | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare subjects on each task: rates with 95 % intervals, and paired differences.

    Reads LOGS (files or folders) when given, else the results store. Subjects are models, or
    policy/NAME for a reference policy. Runs that differ in what must agree are refused.
    """
    from propensity.results.report.blocks import markdown, show
    from propensity.results.report.compare import Comparison, Request, compare
    from propensity.results.report.select import CompareRefused
    from propensity.results.report.text import documents
    from propensity.results.store import StoreError
    from propensity.results.store.source import read_source

    named = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    if options["pairs"] and options["baseline"]:
        raise Refused("--pair and --baseline exclude each other", "Give one of them.")
    if options["between"] and (options["pairs"] or options["baseline"]):
        raise Refused("--between compares all levels", "Leave --pair and --baseline out.")
    if csv_file is not None and csv_file.exists() and not overwrite:
        raise Refused(f"{csv_file} is in the way", "Give --overwrite to replace it.")
    try:
        with Bar(hidden=as_json) as bar:
            source = read_source(logs, store, task=task, without=LONG_TEXTS, progress=bar)
    except StoreError as error:
        raise Refused(str(error), error.fix) from error
    frames = source.frames()
    if frames.runs.empty:
        what = f"no run of task {task!r}" if task else "no run"
        raise Refused(f"{what} in {source.place}", "Run one, or name logs: propensity compare LOGS")
    results = compare(frames, Request(models=named, **options))
    done = [one for one in results if isinstance(one, Comparison)]
    refused = [one for one in results if isinstance(one, CompareRefused)]
    if not done:
        first = refused[0]
        if as_json:
            emit({"refused": [_refusal(one) for one in refused]}, as_json, lambda out: None)
        raise Refused("\n".join(_in_words(one) for one in refused), first.fix) from first
    if csv_file is not None:
        _write_csv(done, csv_file, overwrite)
    left_out = [f"{one.location}: {one.cause}" for one in source.left_out]
    document = {
        "source": source.place,
        "tasks": [one.document() for one in done],
        "refused": [_refusal(one) for one in refused],
        "left_out": left_out,
    }

    def render(out: Console) -> None:
        blocks = documents(done)
        if as_markdown:
            click.echo(markdown(blocks), nl=False)
        else:
            show(blocks, out)
        for line in left_out:
            click.echo(f"left out  {line}", err=True)
        for one in refused:
            click.echo(f"refused  {_in_words(one)}\n  {one.fix}", err=True)

    emit(document, as_json, render)
    faults = [fault for one in done for fault in one.faults]
    if faults or refused or any(one.fault for one in source.left_out):
        raise FallsShort(
            _summary(len(faults), len(refused), len(left_out)),
            "Look into the runs named above before these numbers are used.",
        )


def _refusal(refused: "CompareRefused") -> dict[str, Any]:
    return {"message": str(refused), "fix": refused.fix, "health": list(refused.health)}


def _in_words(refused: "CompareRefused") -> str:
    return "\n  ".join([str(refused), *(f"health  {line}" for line in refused.health)])


def _write_csv(done: list[Any], path: Path, overwrite: bool) -> None:
    from propensity.results.report.compare import records
    from propensity.results.store.export import InTheWay, whole_file

    try:
        with whole_file(path, overwrite=overwrite) as temporary:
            records(done).to_csv(temporary, index=False, encoding="utf-8")
    except InTheWay as error:
        raise Refused(f"{error} is in the way", "Give --overwrite to replace it.") from error
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", "Choose a file to write to.") from error


def _summary(faults: int, refused: int, left_out: int) -> str:
    parts = []
    if faults:
        parts.append(f"{faults} health {'limit was' if faults == 1 else 'limits were'} crossed")
    if refused:
        parts.append(f"{refused} {'task was' if refused == 1 else 'tasks were'} refused")
    if left_out:
        parts.append(f"{left_out} {'input was' if left_out == 1 else 'inputs were'} left out")
    return "; ".join(parts)
