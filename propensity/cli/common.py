"""What every command shares: errors as two lines, `--json`, the store option, the console."""

import json
import os
from collections.abc import Callable
from typing import IO, Any, TypeVar

import click
from rich.console import Console

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
store_option = click.option(
    "--store",
    metavar="URL",
    help="Results store: a folder or an object-store URL (default: PROPENSITY_STORE, "
    "else results-store/).",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace files in the way.")


class Refused(click.ClickException):
    """Usage, unreadable input, or a request refused with nothing computed: exit code 2."""

    exit_code = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one line of what is wrong and one of what to do."""
        click.echo(f"propensity: {self.message}", err=True, file=file)
        if self.fix:
            click.echo(f"  {self.fix}", err=True, file=file)


class FallsShort(Refused):
    """Printed in full, but a check failed or a data file has faults: exit code 1."""

    exit_code = 1


def console() -> Console:
    """Return a console for stdout; 100 columns where the width is not known."""
    width = None if os.environ.get("COLUMNS") or Console().is_terminal else 100
    return Console(width=width, highlight=False)


def emit(document: Any, as_json: bool, render: Callable[[Console], None]) -> None:
    """Print one JSON document, or the rendering for people."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        render(console())


TASKS = ("hirewatch", "instrumental", "juice", "rpeval")
task_argument = click.argument("task", type=click.Choice(TASKS), metavar="TASK")
