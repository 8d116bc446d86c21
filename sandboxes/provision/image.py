"""The sandbox image: its base from a registry or from Debian's packages, then the Dockerfile."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from propensity.sandboxes import compose_file
from propensity.sandboxes.context import image_tag
from propensity.sandboxes.provider import images
from propensity.sandboxes.provider.client import client, engine_address
from propensity.sandboxes.provision import apt

Say = Callable[[str], None]
PULL_SECONDS = 20
BASE = "propensity-base"
# What an image does not need of a freshly made system.
CLUTTER = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)


class NoBase(RuntimeError):
    """No base image can be had here; the text says why and what to do."""


def pinned_base(folder: Path) -> str:
    """The digest-pinned base that a Dockerfile names as default of its argument BASE.

    Raises:
        ValueError: if there is none.
    """
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    match = re.search(r"^ARG BASE=(\S+@sha256:[0-9a-f]{64})$", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{folder / 'Dockerfile'}: no ARG BASE=<image>@sha256:<64 hex>")
    return match[1]


def _pulled(name: str) -> bool:
    """Pull an image, giving up when the registry is silent for some seconds."""
    import docker
    import requests
    from docker.errors import APIError, DockerException

    try:
        # Read times out on silence; a slow but moving download goes on.
        api = docker.APIClient(base_url=engine_address(), version="auto", timeout=PULL_SECONDS)
        for message in api.pull(name, stream=True, decode=True):
            if "error" in message:
                return False
    except (APIError, DockerException, requests.RequestException):
        return False
    return images.image_id(name) is not None


def bootstrap(name: str, say: Say) -> None:
    """Make a base image from the distribution's own packages.

    Raises:
        NoBase: if that cannot be done here.
    """
    release = apt.os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    codename = release.get("VERSION_CODENAME", "")
    try:
        home = apt.mirror(codename, apt.sources())
        if shutil.which("debootstrap") is None:
            say("image: installing debootstrap")
            apt.apt_get("update")
            apt.install("debootstrap")
    except apt.AptError as error:
        raise NoBase(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="propensity-base-", dir="/var/tmp") as scratch:
        root = Path(scratch) / "root"
        say(f"image: making a base from Debian {codename}'s packages (one or two minutes)")
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=python3", codename, root, home.uris[0]],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stdout + done.stderr).strip().splitlines()[-3:]
            raise NoBase(f"debootstrap failed: {' | '.join(last)}")
        for place in CLUTTER:
            shutil.rmtree(root / place, ignore_errors=True)
            (root / place).mkdir(parents=True, exist_ok=True)
        archive = Path(scratch) / "base.tar"
        subprocess.run(
            ["tar", "--numeric-owner", "--one-file-system", "-C", root, "-cf", archive, "."],
            check=True,
        )
        repository, _, tag = name.partition(":")
        client().import_image_from_file(str(archive), repository=repository, tag=tag)


def base(folder: Path, say: Say) -> str:
    """Name of a base image that is on the engine afterwards.

    Raises:
        NoBase: if it can neither be pulled nor made.
    """
    pinned = pinned_base(folder)
    if images.image_id(pinned):
        return pinned
    codename = ""
    if Path("/etc/debian_version").exists():
        release = apt.os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
        codename = release.get("VERSION_CODENAME", "") if release.get("ID") == "debian" else ""
    own = f"{BASE}:{codename}"
    if codename and images.image_id(own):
        return own
    say(f"image: pulling {pinned.partition('@')[0]}, pinned by digest")
    if _pulled(pinned):
        return pinned
    if not codename or os.geteuid() != 0:
        raise NoBase(
            "the registry does not give the base image, and making one from packages needs root "
            f"on Debian. Load it from elsewhere (docker save {pinned} | docker load), or name "
            "any image with bash, coreutils and python3 >= 3.11: --base IMAGE"
        )
    say("image: the registry cannot be reached")
    bootstrap(own, say)
    return own


def ensure(say: Say, base_image: str | None = None, rebuild: bool = False) -> str:
    """Build the sandbox image unless it is there; return its name.

    Args:
        say: gets one line per step.
        base_image: used as base instead of the pinned one.
        rebuild: build even if the image is there.

    Raises:
        NoBase: if no base can be had.
        ImageMissing: if the build fails.
        ValueError: if the Compose file names another image than the build context gives.
    """
    compose = Path(compose_file("instrumental"))
    tag = image_tag(compose.parent)
    check_tag(compose, tag)
    if images.image_id(tag) and not rebuild:
        return tag
    chosen = base_image or base(compose.parent, say)
    say(f"image: building {tag} on {chosen.partition('@')[0]}")
    images.build(
        compose.parent,
        compose.parent / "Dockerfile",
        tag,
        {"BASE": chosen},
        labels={"propensity.base": chosen},
        network="none",
    )
    return tag


def check_tag(compose: Path, tag: str) -> None:
    """Compare the image that a Compose file names with the tag of its build context.

    Raises:
        ValueError: if they differ.
    """
    document = yaml.safe_load(compose.read_text(encoding="utf-8"))
    for name, service in document["services"].items():
        if service.get("image") != tag:
            raise ValueError(
                f"{compose}: services.{name}.image must be {tag} (the Dockerfile changed)"
            )
