"""What `propensity doctor` looks at: the engine and its sandbox, the machine, the settings."""

import locale
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers, images, leftovers
from propensity.sandboxes.provider.client import (
    MINIMUM,
    EngineUnavailable,
    client,
    engine_address,
    engine_version,
)
from propensity.sandboxes.provider.compose import Service, service_of_file
from propensity.sandboxes.provision import engine

State = Literal["ok", "warn", "fail", "note"]
GIB = 1024**3
LEAST_DISK = 10 * 10**9
LEAST_FILES = 4096
LEAST_COMPOSE = (2, 21)
SET_UP = "run `make setup` or `python -m propensity.sandboxes.provision`"
KEYS = (
    "ANTHROPIC_API_KEY",
    "AZUREAI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
)


@dataclass(frozen=True)
class Check:
    """One thing looked at: `fail` falls short, `warn` limits something, `note` only tells."""

    what: str
    state: State
    found: str
    fix: str = ""


# Run in a container of the provider; prints one fact a line.
PROBE = """
import os, socket
def tried(what, call):
    try:
        call()
        print(what, "yes")
    except OSError as error:
        print(what, "no", type(error).__name__)
tried("connects", lambda: socket.create_connection(("192.0.2.1", 80), 3))
tried("resolves", lambda: socket.getaddrinfo("example.com", 80))
print("interfaces", ",".join(sorted(name for _, name in socket.if_nameindex())))
for line in open("/proc/self/status", encoding="ascii"):
    if line.startswith(("CapBnd", "NoNewPrivs")):
        print(*line.replace(":", "").split())
"""


def probe(service: Service) -> dict[str, str]:
    """Facts seen from inside a container of the service, which is removed afterwards."""
    container, _ = containers.create(service, images.ensure(service), "doctor", "probe")
    try:
        api = client()
        command = api.exec_create(container, ["/usr/local/bin/python3", "-I", "-c", PROBE])["Id"]
        said = api.exec_start(command).decode("utf-8", "replace")
    finally:
        containers.remove(container)
    return {key: value for key, _, value in (line.partition(" ") for line in said.splitlines())}


def isolation(facts: Mapping[str, str], service: Service) -> Iterator[Check]:
    """Judge the facts of `probe`."""
    refused = all(facts.get(key, "").startswith("no") for key in ("connects", "resolves"))
    only_loopback = facts.get("interfaces") == "lo"
    yield Check(
        "egress from a container",
        "ok" if refused and only_loopback else "fail",
        "refused; only loopback" if refused and only_loopback else f"open: {dict(facts)}",
        "" if refused and only_loopback else "do not run agents on this engine",
    )
    capabilities = int(facts.get("CapBnd", "f" * 16), 16).bit_count()
    bound = capabilities == len(service.cap_add) and facts.get("NoNewPrivs") == "1"
    yield Check(
        "privileges in a container",
        "ok" if bound else "fail",
        f"{capabilities} capabilities, no-new-privileges {facts.get('NoNewPrivs', '?')}",
        "" if bound else "the engine does not keep to the Compose file",
    )


def of_engine(clean: bool) -> Iterator[Check]:
    """Engine, Compose, limits, image, isolation, leftovers."""
    try:
        api = client()
        address = engine_address()
    except EngineUnavailable as error:
        yield Check("Docker engine", "fail", str(error), SET_UP)
        return
    version = str(api.version()["Version"])
    fresh = engine_version(version) >= MINIMUM
    yield Check(
        "Docker engine",
        "ok" if fresh else "fail",
        f"{version} at {address}",
        "" if fresh else f"{'.'.join(map(str, MINIMUM))} or newer is needed",
    )
    compose = engine.compose_version()
    usable = compose is not None and engine_version(compose) >= LEAST_COMPOSE
    yield Check(
        "Docker Compose",
        "ok" if usable else "warn",
        compose or "the docker client on PATH finds none",
        "" if usable else "only --sandbox docker needs it (2.21 or newer)",
    )
    info = api.info()
    limits = {
        "memory": info.get("MemoryLimit"),
        "CPU": info.get("CpuCfsQuota"),
        "processes": info.get("PidsLimit"),
    }
    missing = [name for name, there in limits.items() if not there]
    root = Path(info.get("DockerRootDir") or "/nonexistent")
    if address.startswith("unix:") and root.is_dir():
        yield free_disk(root)
    service = service_of_file(compose_file("instrumental"))
    yield Check(
        "limits of a container",
        "fail" if missing else "ok",
        f"the engine cannot limit {', '.join(missing)}"
        if missing
        else f"{service.memory / GIB:g} GiB memory, {service.cpus:g} CPU, {service.pids} "
        f"processes, {service.disk / GIB:g} GiB disk (driver {info.get('Driver')}, kept by "
        "the provider)",
        "the kernel's cgroup controllers are not all there" if missing else "",
    )
    identity = images.image_id(str(service.image))
    if identity is None:
        yield Check("sandbox image", "fail", f"{service.image} is not there", SET_UP)
    else:
        labels = (api.inspect_image(service.image).get("Config") or {}).get("Labels") or {}
        base = labels.get("propensity.base", "a base not recorded")
        yield Check("sandbox image", "ok", f"{service.image} = {identity}, made on {base}")
        yield from isolation(probe(service), service)
    left = leftovers.of_dead_runs()
    for one in left if clean else []:
        leftovers.remove(one)
    names = ", ".join(f"{one.kind} {one.name}" for one in left)
    yield Check(
        "left by dead runs",
        "fail" if left and not clean else "ok",
        (f"removed {names}" if clean else names) if left else "nothing",
        "propensity doctor --clean" if left and not clean else "",
    )
    if kept := [one.name for one in containers.found() if one.kept]:
        yield Check(
            "kept on purpose", "note", ", ".join(kept), "inspect sandbox cleanup engine NAME"
        )


def free_disk(folder: Path) -> Check:
    """Free space where `folder` is, or will be."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Check(
        f"free disk at {folder}",
        "ok" if free >= LEAST_DISK else "fail",
        f"{free / 10**9:.1f} GB",
        "" if free >= LEAST_DISK else f"{LEAST_DISK // 10**9} GB are advised",
    )


def writable(what: str, place: str | None) -> Check:
    """Whether a folder can be written, or made; remote places are not touched."""
    if not place:
        return Check(what, "note", "not set: nothing is written")
    if "://" in place:
        return Check(what, "note", f"{place} (remote, not tried)")
    folder = Path(place).resolve()
    there = folder
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Check(what, "fail", f"{folder}: {error.strerror}", "choose another folder")
    return Check(what, "ok", str(folder))


def of_machine(environ: Mapping[str, str]) -> Iterator[Check]:
    """Open files, encoding, keys."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    many = files == resource.RLIM_INFINITY or files >= LEAST_FILES
    yield Check(
        "open files",
        "ok" if many else "fail",
        "no limit" if files == resource.RLIM_INFINITY else str(files),
        "" if many else f"ulimit -n {LEAST_FILES}",
    )
    encodings = {sys.getfilesystemencoding().lower(), locale.getencoding().lower()}
    utf8 = encodings == {"utf-8"}
    yield Check(
        "encoding",
        "ok" if utf8 else "fail",
        ", ".join(sorted(encodings)),
        "" if utf8 else "export LC_ALL=C.UTF-8",
    )
    present = [key for key in KEYS if environ.get(key)]
    others = sorted(
        key
        for key in environ
        if re.fullmatch(r"[A-Z][A-Z0-9_]*_API_KEY", key) and environ[key] and key not in KEYS
    )
    absent = [key for key in KEYS if not environ.get(key)]
    yield Check(
        "keys",
        "note",
        f"set: {', '.join(present + others) or 'none'}; not set: {', '.join(absent) or 'none'}",
    )


def packages(constraints: Path) -> Check:
    """Installed versions against those that the tests ran with."""
    if not constraints.is_file():
        return Check("package versions", "note", "no constraints.txt here to compare with")
    differing = []
    for line in constraints.read_text(encoding="utf-8").splitlines():
        name, _, wanted = line.partition("#")[0].strip().partition("==")
        if not wanted:
            continue
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if installed != wanted:
            differing.append(f"{name} {installed} (tested: {wanted})")
    return Check(
        "package versions",
        "warn" if differing else "ok",
        ", ".join(differing) or "as in constraints.txt",
        "pip install -c constraints.txt -e ." if differing else "",
    )


def all_checks(
    clean: bool, store: str | None, logs: str, constraints: Path, environ: Mapping[str, str]
) -> Iterator[Check]:
    """Every check, in the order in which they are shown."""
    parts: tuple[Callable[[], Iterator[Check]], ...] = (
        lambda: of_engine(clean),
        lambda: iter([free_disk(Path.cwd())]),
        lambda: of_machine(environ),
        lambda: iter([packages(constraints)]),
        lambda: iter([writable("log folder", logs), writable("results store", store)]),
    )
    for part in parts:
        yield from part()
