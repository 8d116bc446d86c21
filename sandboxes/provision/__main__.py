"""Prepare the sandbox: a Docker engine, then the image. Idempotent; says what it does.

    python -m propensity.sandboxes.provision

Exit codes: 0 ready · 1 a step failed · 3 no working engine can be had here, what is missing is
printed.
"""

import fcntl
import os
import sys
import tempfile
from pathlib import Path

import click
from docker.errors import DockerException

from propensity.sandboxes import compose_file
from propensity.sandboxes.context import image_tag
from propensity.sandboxes.provider.images import ImageMissing, image_id
from propensity.sandboxes.provision import engine, image

NO_ENGINE = 3


@click.command(help="Prepare the sandbox: a Docker engine, then the image.")
@click.option("--base", "base_image", metavar="IMAGE", help="Base image instead of the pinned one.")
@click.option("--rebuild", is_flag=True, help="Build the image even if it is there.")
@click.option("--tag", is_flag=True, help="Print the image's name for the build context, no more.")
def main(base_image: str | None, rebuild: bool, tag: bool) -> None:
    """Run the steps."""
    if tag:
        click.echo(image_tag(Path(compose_file("instrumental")).parent))
        return
    lock = Path(tempfile.gettempdir()) / f"propensity-provision-{os.getuid()}.lock"
    with lock.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            version = engine.ensure(click.echo)
        except engine.NoEngine as error:
            click.echo(f"engine: {error}\n{engine.HELP}", err=True)
            sys.exit(NO_ENGINE)
        click.echo(f"engine: Docker {version} answers")
        if engine.compose_version() is None and (link := engine.link_compose(Path.home())):
            click.echo(f"engine: Compose linked at {link}, for --sandbox docker")
        try:
            name = image.ensure(click.echo, base_image, rebuild)
        except image.NoBase as error:
            click.echo(f"image: {error}", err=True)
            sys.exit(NO_ENGINE)
        except DockerException as error:
            click.echo(f"image: the engine answers and fails: {error}\n{engine.HELP}", err=True)
            sys.exit(NO_ENGINE)
        except (ImageMissing, ValueError) as error:
            click.echo(f"image: {error}", err=True)
            sys.exit(1)
        click.echo(f"image: {name} is there ({image_id(name)})")


if __name__ == "__main__":
    main()
