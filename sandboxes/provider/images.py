"""The image of a service: present, built from its folder, or pulled."""

from pathlib import Path
from typing import Any

from propensity.sandboxes.context import IMAGE
from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import Build, Service


class ImageMissing(RuntimeError):
    """The image is not there and cannot be made here; the text says what to do."""


def image_id(image: str) -> str | None:
    """Id (``sha256:…``) of a local image; None if there is none."""
    from docker.errors import ImageNotFound

    try:
        return str(client().inspect_image(image)["Id"])
    except ImageNotFound:
        return None


def build(
    folder: Path,
    dockerfile: Path,
    tag: str,
    args: dict[str, str],
    labels: dict[str, str] | None = None,
    network: str | None = None,
) -> str:
    """Build an image with the engine's own builder; return its id.

    Args:
        folder: build context.
        dockerfile: path of the Dockerfile.
        tag: name of the image.
        args: build arguments.
        labels: labels of the image.
        network: ``none`` for a build that must not reach anything.

    Raises:
        ImageMissing: with the builder's last lines, if a step fails.
    """
    said: list[str] = []
    for message in client().build(
        path=str(folder),
        dockerfile=str(dockerfile),
        tag=tag,
        buildargs=args,
        labels=labels,
        network_mode=network,
        rm=True,
        forcerm=True,
        decode=True,
    ):
        said.append(str(message.get("stream") or message.get("error") or "").strip())
        if "error" in message:
            last = " | ".join(line for line in said[-6:] if line)
            raise ImageMissing(f"{tag} cannot be built from {dockerfile}: {last}")
    made = image_id(tag)
    if made is None:
        raise ImageMissing(f"{tag}: the engine built {dockerfile}, but has no such image")
    return made


def _built(service: Service, wanted: Build) -> str:
    name = service.image or f"{IMAGE}-{wanted.context.name.lower()}:local"
    build(wanted.context, wanted.dockerfile, name, wanted.args)
    return name


def ensure(service: Service) -> str:
    """Name of the service's image, which is on the engine afterwards.

    Raises:
        ImageMissing: if it is neither there, nor built, nor pulled.
    """
    if service.build is not None:
        return _built(service, service.build)
    name = str(service.image)
    if image_id(name) is not None:
        return name
    if service.local or name.startswith(f"{IMAGE}:"):
        raise ImageMissing(
            f"the image {name} is not on this engine: run "
            "`python -m propensity.sandboxes.provision` (or `make sandbox`)"
        )
    pull(name, service.platform)
    return name


def pull(name: str, platform: str | None = None) -> None:
    """Pull an image.

    Raises:
        ImageMissing: if the registry does not give it.
    """
    import requests
    from docker.errors import APIError

    api: Any = client()
    try:
        api.pull(name, platform=platform)
    except (APIError, requests.RequestException) as error:
        raise ImageMissing(f"the image {name} cannot be pulled: {error}") from error
    if image_id(name) is None:
        raise ImageMissing(f"the image {name} was not pulled")
