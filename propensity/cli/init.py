"""`propensity init`: a data file to start from."""

from importlib import import_module
from pathlib import Path

import click

from propensity.cli.common import Refused, console

KINDS = {
    "hirewatch-bank": "hirewatch",
    "instrumental-environment": "instrumental",
    "instrumental-variant": "instrumental",
    "juice-set": "juice",
    "rpeval-set": "rpeval",
}


@click.command(epilog="Example: propensity init instrumental-variant my-variant")
@click.argument("kind", type=click.Choice(sorted(KINDS)), metavar="KIND")
@click.argument("name")
def command(kind: str, name: str) -> None:
    """Write a starting point of KIND called NAME into the current folder.

    KIND is hirewatch-bank, instrumental-environment, instrumental-variant, juice-set or
    rpeval-set. What is written passes `propensity validate`.
    """
    task = KINDS[kind]
    templates = import_module(f"propensity.tasks.{task}.dataset").templates()
    given = Path(name).suffix
    suffix = given if given in (".yaml", ".yml", ".json") else ""
    try:
        files: dict[str, str] = templates[kind](name.removesuffix(suffix))
    except ValueError as error:
        raise Refused(str(error), "Choose another name.") from error
    only, *more = files
    if suffix == ".yml" and not more:
        files = {name: files[only]}
    elif suffix and not any(Path(file).suffix == suffix for file in files):
        raise Refused(f"{kind} makes no {suffix} file", f"Leave {suffix} out.")
    for file in files:
        if Path(file).exists():
            raise Refused(f"{file} exists", "Choose another name, or move the file away.")
    for file, text in files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    paths = list(files)
    folder = Path(paths[0]).parent
    target = paths[0] if len(paths) == 1 else str(folder)
    out = console()
    out.print(f"Wrote {', '.join(paths)}", markup=False, soft_wrap=True)
    out.print(f"Next: edit, then propensity validate {task} {target}", markup=False, soft_wrap=True)
