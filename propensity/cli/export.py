"""`propensity export`: the store's tables as CSV or Parquet."""

from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.markup import escape

from propensity.cli.common import (
    FallsShort,
    Refused,
    emit,
    json_option,
    overwrite_option,
    store_option,
)
from propensity.cli.ingest import Bar


@click.command(epilog="Example: propensity export --out tables --format csv --task hirewatch")
@click.argument("logs", nargs=-1, metavar="[LOGS...]")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder to fill."
)
@click.option(
    "--format", "form", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True
)
@click.option("--task", help="Rows of this task only.")
@store_option
@overwrite_option
@json_option
def command(
    logs: tuple[str, ...],
    out: Path,
    form: Literal["csv", "parquet"],
    task: str | None,
    store: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the five tables of the results store (or of LOGS) to files, one each."""
    from propensity.results.store import StoreError
    from propensity.results.store.export import InTheWay, write_tables
    from propensity.results.store.source import NoLogs, read_source

    try:
        with Bar(hidden=as_json) as bar:
            source = read_source(logs, store, task=task, progress=bar)
        if task and not source.tables["runs"].num_rows:
            raise Refused(
                f"no run of task {task!r} in {source.place}",
                "Leave --task away to export everything.",
            )
        files = {out / f"{name}.{form}": table for name, table in source.tables.items()}
        written = write_tables(files, form=form, overwrite=overwrite)
    except (StoreError, NoLogs) as error:
        raise Refused(str(error), error.fix) from error
    except InTheWay as error:
        raise Refused(
            f"{error} is in the way", "Give --overwrite to replace it, or another --out."
        ) from error
    except OSError as error:
        raise Refused(
            f"{out}: {error.strerror or error}", "Choose a folder to write to."
        ) from error
    document = {
        "source": source.place,
        "files": {str(path): rows for path, rows in written.items()},
        "left_out": [{"location": one.location, "cause": one.cause} for one in source.left_out],
    }

    def render(console: Console) -> None:
        for path, rows in written.items():
            console.print(f"{rows:>9,}  {escape(str(path))}", soft_wrap=True)
        for one in source.left_out:
            console.print(f"left out  {escape(one.location)}: {escape(one.cause)}", soft_wrap=True)

    emit(document, as_json, render)
    if any(one.fault for one in source.left_out):
        raise FallsShort("some logs could not be read", "The causes stand above.")
