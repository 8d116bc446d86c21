"""Debian packages of a Docker engine: which, from where, and pinned so that nothing else moves.

Debian 12's own engine (20.10) is too old for Inspect, Debian 13's installs cleanly on 12. So on
12 the next release is added as a source from the machine's own mirror, with a pin that allows
it for the four packages of the engine alone.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ETC = Path("/etc/apt")
ENGINE = ("docker.io", "docker-cli", "docker-compose", "docker-buildx")
NEXT_RELEASE = {"bookworm": "trixie"}
NAME = "propensity-docker"


class AptError(RuntimeError):
    """Packages cannot be installed; the text says why."""


@dataclass(frozen=True)
class Source:
    """One entry of apt's sources."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""


def os_release(text: str) -> dict[str, str]:
    """Fields of ``/etc/os-release``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def deb822(text: str) -> list[Source]:
    """Enabled binary sources of a ``.sources`` file."""
    found = []
    for stanza in text.split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace() and key:
                fields[key] += "\n" + line.strip()
            elif ":" in line:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes") != "no":
            found.append(
                Source(
                    tuple(fields.get("uris", "").split()),
                    tuple(fields.get("suites", "").split()),
                    tuple(fields.get("components", "").split()),
                    fields.get("signed-by", ""),
                )
            )
    return found


def one_line(text: str) -> list[Source]:
    """Binary sources of a ``sources.list``."""
    found = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0] != "deb":
            continue
        options = ""
        if len(words) > 1 and words[1].startswith("["):
            end = next((at for at, word in enumerate(words) if word.endswith("]")), 1)
            options = " ".join(words[1 : end + 1]).strip("[]")
            del words[1 : end + 1]
        keys = dict(option.partition("=")[::2] for option in options.split())
        if len(words) > 2:
            found.append(
                Source((words[1],), (words[2],), tuple(words[3:]), keys.get("signed-by", ""))
            )
    return found


def sources(etc: Path = ETC) -> list[Source]:
    """All binary sources that apt is configured with, but for our own."""
    found = []
    parts = etc / "sources.list.d"
    for file in [
        etc / "sources.list",
        *sorted(parts.glob("*.list")),
        *sorted(parts.glob("*.sources")),
    ]:
        if file.is_file() and file.stem != NAME:
            text = file.read_text(encoding="utf-8", errors="replace")
            found += deb822(text) if file.suffix == ".sources" else one_line(text)
    return found


def mirror(codename: str, configured: list[Source]) -> Source:
    """The source of the distribution itself.

    Raises:
        AptError: if none of the configured sources holds that release.
    """
    for source in configured:
        if codename in source.suites and "main" in source.components and source.uris:
            return source
    raise AptError(f"apt has no source of the release {codename}")


def next_release_files(codename: str, configured: list[Source]) -> dict[str, str]:
    """Files below ``/etc/apt`` that offer the next release for the engine's packages alone.

    Raises:
        AptError: if apt knows that release already: then its pins are the user's affair.
    """
    suite = NEXT_RELEASE[codename]
    if any(suite in source.suites for source in configured):
        raise AptError(f"apt already has a source of {suite}")
    home = mirror(codename, configured)
    stanza = f"Types: deb\nURIs: {home.uris[0]}\nSuites: {suite}\nComponents: main\n"
    if home.signed_by:
        stanza += "Signed-By: " + home.signed_by.replace("\n", "\n ") + "\n"
    pins = (
        f"Package: *\nPin: release n={suite}\nPin-Priority: -1\n\n"
        f"Package: {' '.join(ENGINE)}\nPin: release n={suite}\nPin-Priority: 990\n"
    )
    return {f"preferences.d/{NAME}": pins, f"sources.list.d/{NAME}.sources": stanza}


def apt_get(*words: str) -> None:
    """Run ``apt-get`` without questions.

    Raises:
        AptError: with its last lines, if it fails.
    """
    done = subprocess.run(
        ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-5:]
        raise AptError(f"apt-get {' '.join(words)} failed: {' | '.join(last)}")


def install(*packages: str) -> None:
    """Install packages with what they depend on and nothing more.

    Raises:
        AptError: if that fails.
    """
    apt_get("install", "-y", "--no-install-recommends", *packages)


def install_engine(etc: Path = ETC) -> None:
    """Install engine, client, Compose and builder; apt stays as usable as it was.

    Raises:
        AptError: if that fails; the files added to apt are taken away again.
    """
    release = os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    codename = release.get("VERSION_CODENAME", "")
    files: dict[str, str] = {}
    if codename in NEXT_RELEASE:
        files = next_release_files(codename, sources(etc))
    try:
        for name, text in files.items():
            (etc / name).parent.mkdir(parents=True, exist_ok=True)
            (etc / name).write_text(text, encoding="utf-8")
        apt_get("update")
        install(*ENGINE, "iptables", "ca-certificates")
    except AptError:
        for name in files:
            (etc / name).unlink(missing_ok=True)
        if files:
            apt_get("update")
        raise
