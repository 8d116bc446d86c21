"""`propensity validate`: check data files, all faults at once."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from propensity.cli.common import FallsShort, Refused, emit, json_option, task_argument
from propensity.common.datafiles import DataFileError


@click.command(epilog="Example: propensity validate hirewatch my-bank.yaml")
@task_argument
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@json_option
def command(task: str, files: tuple[Path, ...], as_json: bool) -> None:
    """Check data files of TASK (none given: the shipped ones) and list every fault."""
    dataset = import_module(f"propensity.tasks.{task}.dataset")
    try:
        faults, information = dataset.validate_files(files)
    except DataFileError as error:
        if error.unreadable:
            raise Refused(str(error), "Check the path and the file's encoding.") from error
        faults, information = error.faults, []
    document: dict[str, Any] = {
        "task": task,
        "files": [str(path) for path in files],
        "faults": [
            {"file": f.file, "line": f.line, "where": f.where, "message": f.message} for f in faults
        ],
        "information": list(information),
    }

    def render(out: Console) -> None:
        for fault in faults:
            out.print(str(fault), markup=False, soft_wrap=True)
        for line in information:
            out.print(line, markup=False, soft_wrap=True)
        if not faults:
            what = ", ".join(map(str, files)) or f"the shipped files of {task}"
            out.print(f"No faults in {what}.", markup=False, soft_wrap=True)

    emit(document, as_json, render)
    if faults:
        count = len(faults)
        raise FallsShort(f"{count} {'fault' if count == 1 else 'faults'}; nothing was changed.")
