"""`propensity ingest`: logs into the results store."""

from pathlib import Path

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


@click.command(epilog="Example: propensity ingest logs/ --store results-store")
@click.argument("logs", nargs=-1, required=True, metavar="LOGS...")
@store_option
@overwrite_option
@json_option
def command(logs: tuple[str, ...], store: str | None, overwrite: bool, as_json: bool) -> None:
    """Write LOGS (files, folders or URLs) into the results store.

    A log that is there already is replaced if its file has changed, and left alone if not;
    --overwrite writes it again. A log that cannot be read is listed and the rest goes on.
    """
    from propensity.results.store import StoreError, open_store
    from propensity.results.store.ingest import ingest

    try:
        target = open_store(store)
        with Bar(hidden=as_json) as bar:
            result = ingest(logs, target, overwrite=overwrite, progress=bar)
    except StoreError as error:
        raise Refused(str(error), error.fix) from error
    document = {
        "store": target.url,
        "written": result.written,
        "unchanged": result.unchanged,
        "left_out": [
            {"location": one.location, "cause": one.cause, "fault": one.fault}
            for one in result.left_out
        ],
    }

    def render(out: Console) -> None:
        out.print(
            f"[bold]{len(result.written)}[/] written · {len(result.unchanged)} unchanged · "
            f"{len(result.left_out)} left out",
        )
        for one in result.left_out:
            mark = "[yellow]left out[/]" if one.fault else "[dim]waiting[/]"
            out.print(f"{mark}  {escape(_short(one.location))}", soft_wrap=True)
            out.print(f"          {escape(one.cause)}", soft_wrap=True)
        out.print(f"store: {escape(target.url)}", soft_wrap=True)

    emit(document, as_json, render)
    if result.faults and not result.found:
        raise Refused("no log among the inputs", "Give .eval or .json files, or their folder.")
    if result.faults:
        raise FallsShort(
            f"{len(result.faults)} of {result.found + len(result.faults)} could not be stored",
            "The causes stand above; the others are in the store.",
        )


class Bar:
    """A progress bar on stderr, on a terminal only, from the first call on."""

    def __init__(self, hidden: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("reading logs"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=hidden or not console.is_terminal,
        )
        self._task = self._progress.add_task("logs", total=None)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def __call__(self, done: int, total: int) -> None:
        self._progress.start()
        self._progress.update(self._task, completed=done, total=total)


def _short(location: str) -> str:
    """A path relative to the working folder where it lies below it."""
    try:
        return str(Path(location).relative_to(Path.cwd()))
    except ValueError:
        return location
