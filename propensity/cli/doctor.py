"""`propensity doctor`: is this machine ready, and did dead runs leave anything?"""

import os
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from propensity.cli.common import FallsShort, emit, json_option

MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]", "note": "note"}


@click.command(epilog="Example: propensity doctor --clean")
@click.option(
    "--clean", is_flag=True, help="Remove containers and networks that dead runs left behind."
)
@json_option
def command(clean: bool, as_json: bool) -> None:
    """Check the engine, the sandbox image and its isolation, the machine and the settings.

    Exit code 0 if nothing fails, else 1. Keys are shown as set or not set, never their values.
    """
    from propensity.results.store.tables import default_store
    from propensity.sandboxes.provision.health import all_checks

    logs = os.environ.get("INSPECT_LOG_DIR") or "logs"
    constraints = Path(__file__).resolve().parents[2] / "constraints.txt"
    checks = list(all_checks(clean, default_store(logs), logs, constraints, os.environ))
    failed = [check.what for check in checks if check.state == "fail"]

    def render(out: Console) -> None:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for check in checks:
            fix = f"\n→ {check.fix}" if check.fix else ""
            table.add_row(MARKS[check.state], check.what, escape(check.found + fix))
        out.print(table)

    emit({"ready": not failed, "checks": [asdict(check) for check in checks]}, as_json, render)
    if failed:
        raise FallsShort(f"not ready: {', '.join(failed)}.")
