"""Entry point: a click group that loads a command's file only when it is called."""

import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click

_HELPERS = {"__init__", "common", "main"}


class LazyGroup(click.Group):
    """Finds commands by file: `export.py` defines `command`, called `export`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names, sorted."""
        files = (path.stem for path in Path(__file__).parent.glob("*.py"))
        return sorted(stem.replace("_", "-") for stem in files if stem not in _HELPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's file; every command also takes `--debug`."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = import_module(f"propensity.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        if not any(param.name == "debug" for param in command.params):
            command.params.append(
                click.Option(
                    ["--debug"], is_flag=True, expose_value=False, help="Tracebacks on errors."
                )
            )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when the given one does not exist."""
        from propensity.common.params import nearest

        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            hint = nearest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("propensity"), prog_name="propensity")
def cli() -> None:
    """Compare what models choose to do.

    Run a benchmark with Inspect: inspect eval propensity/hirewatch --model PROVIDER/MODEL
    """


def main() -> None:
    """Run a command; errors are lines, not tracebacks, unless `--debug` is given."""
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback for users
        if "--debug" in sys.argv:
            traceback.print_exc()
        else:
            click.echo(f"propensity: {type(error).__name__}: {error}", err=True)
            click.echo("  Run again with --debug for the traceback.", err=True)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
