"""What the `engine` provider reads of a Compose file, and what it refuses.

A setting that is absent gets the hardened default; a key or value that would weaken the
isolation, or that this provider does not carry out, is refused by name.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CAPABILITIES = ("SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "KILL")
"""All that seeding a sandbox needs; nothing else can be added."""

LABEL = "propensity"
ELSEWHERE = "use --sandbox docker for it"
IGNORED = frozenset({"x-local", "x-default", "stop_grace_period"})
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
GIB = UNITS["g"]


class ComposeError(ValueError):
    """A Compose file that the `engine` provider does not carry out; lists every fault."""

    def __init__(self, source: str, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(f"{source}: {fault}" for fault in faults))


@dataclass(frozen=True)
class Build:
    """How an image is built: folder and Dockerfile, both absolute, and build arguments."""

    context: Path
    dockerfile: Path
    args: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """The one container of a sample. Sizes are bytes, CPUs are cores."""

    name: str
    image: str | None = None
    build: Build | None = None
    local: bool = False
    command: list[str] | None = None
    entrypoint: list[str] | None = None
    user: str | None = None
    working_dir: str | None = None
    hostname: str | None = None
    platform: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    init: bool = True
    memory: int = GIB
    swap: int | None = None
    cpus: float = 1.0
    pids: int = 256
    disk: int = 2 * GIB
    shm: int | None = None
    ulimits: dict[str, tuple[int, int]] = field(default_factory=dict)
    tmpfs: dict[str, str] = field(default_factory=dict)
    cap_add: tuple[str, ...] = CAPABILITIES


def size(value: Any) -> int:
    """Bytes of a Compose size (``1g``, ``256mb``, ``1048576``).

    Raises:
        ValueError: if it is no size above 0.
    """
    match = SIZE.fullmatch(str(value).strip())
    if isinstance(value, bool) or match is None or float(match[1]) < 1:
        raise ValueError("must be a size above 0 such as 512m or 1g")
    return int(float(match[1]) * UNITS[match[2].lower()])


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be text")
    if "$" in str(value).replace("$$", ""):
        raise ValueError(f"variables are not filled in; {ELSEWHERE}")
    return str(value).replace("$$", "$")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_text(word) for word in value]
    return shlex.split(_text(value))


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, list):
        pairs = (_text(item).partition("=") for item in value)
        value = {name: text if equals else None for name, equals, text in pairs}
    if not isinstance(value, dict):
        raise ValueError("must be a mapping, or a list of NAME=VALUE")
    if missing := [str(key) for key, text in value.items() if text is None]:
        raise ValueError(f"{', '.join(missing)} would be taken from the host; write the value")
    return {str(key): _text(text) for key, text in value.items()}


def _number(low: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if isinstance(value, bool) or not low <= number < float("inf"):
            raise ValueError(f"must be a number of at least {low:g}")
        return number

    return parse


def _pids(value: Any) -> int:
    return int(_number(1)(value))


def _ulimits(value: Any) -> dict[str, tuple[int, int]]:
    if not isinstance(value, dict):
        raise ValueError("must be a mapping")
    limits = {}
    for name, limit in value.items():
        both = limit if isinstance(limit, dict) else {"soft": limit, "hard": limit}
        if set(both) != {"soft", "hard"} or any(
            isinstance(number, bool) or not isinstance(number, int) for number in both.values()
        ):
            raise ValueError(f"{name} must be a number, or soft and hard numbers")
        limits[str(name)] = (both["soft"], both["hard"])
    return limits


def _tmpfs(value: Any) -> dict[str, str]:
    mounts = [_text(item) for item in (value if isinstance(value, list) else [value])]
    return {path: options for path, _, options in (mount.partition(":") for mount in mounts)}


def _cap_add(value: Any) -> tuple[str, ...]:
    wanted = tuple(name.upper().removeprefix("CAP_") for name in _words(value))
    if other := [name for name in wanted if name not in CAPABILITIES]:
        raise ValueError(f"{', '.join(other)} is not one of {', '.join(CAPABILITIES)}")
    return wanted


def _only(*allowed: Any) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if value not in allowed:
            raise ValueError(f"{value!r} would weaken the sandbox; {ELSEWHERE}")

    return check


KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "image": ("image", _text),
    "command": ("command", _words),
    "entrypoint": ("entrypoint", _words),
    "user": ("user", _text),
    "working_dir": ("working_dir", _text),
    "hostname": ("hostname", _text),
    "platform": ("platform", _text),
    "environment": ("environment", _pairs),
    "labels": ("labels", _pairs),
    "init": ("init", _flag),
    "mem_limit": ("memory", size),
    "memswap_limit": ("swap", size),
    "cpus": ("cpus", _number(0.01)),
    "pids_limit": ("pids", _pids),
    "shm_size": ("shm", size),
    "x-disk-limit": ("disk", size),
    "ulimits": ("ulimits", _ulimits),
    "tmpfs": ("tmpfs", _tmpfs),
    "cap_add": ("cap_add", _cap_add),
}
FIXED: Mapping[str, Callable[[Any], None]] = {
    "network_mode": _only("none"),
    "cap_drop": _only(["ALL"], "ALL"),
    "security_opt": _only(
        ["no-new-privileges:true"], ["no-new-privileges"], ["no-new-privileges=true"]
    ),
    "privileged": _only(False),
    "restart": _only("no", False),
}


def _build(value: Any, folder: Path) -> Build:
    settings = {"context": value} if isinstance(value, str) else value
    if not isinstance(settings, dict):
        raise ValueError("must be a folder, or a mapping")
    if unknown := set(settings) - {"context", "dockerfile", "args"}:
        raise ValueError(f"{', '.join(sorted(unknown))} is not carried out; {ELSEWHERE}")
    context = (folder / _text(settings.get("context", "."))).resolve()
    return Build(
        context,
        context / _text(settings.get("dockerfile", "Dockerfile")),
        _pairs(settings.get("args", {})),
    )


def service(document: Any, source: str, folder: Path) -> Service:
    """The one service of a Compose document; relative paths start at `folder`.

    Raises:
        ComposeError: listing every key and value that is not carried out.
    """
    if not isinstance(document, dict) or not isinstance(document.get("services"), dict):
        raise ComposeError(source, ["no mapping `services`"])
    faults = [
        f"{key}: not carried out by the engine provider; {ELSEWHERE}"
        for key in document
        if key not in {"services", "name", "version"} and not str(key).startswith("x-")
    ]
    services = document["services"]
    if len(services) != 1:
        faults.append(
            f"services: {', '.join(map(str, services)) or 'none'}: the engine provider runs "
            f"exactly one container per sample; {ELSEWHERE}"
        )
    for name, settings in services.items():
        if not isinstance(settings, dict):
            faults.append(f"services.{name}: must be a mapping")
    if faults:
        raise ComposeError(source, faults)
    [(name, settings)] = services.items()

    fields: dict[str, Any] = {"local": settings.get("x-local") is True}
    for key, value in settings.items():
        if key in IGNORED or value is None:
            continue
        try:
            if key in KEYS:
                into, parse = KEYS[key]
                fields[into] = parse(value)
            elif key in FIXED:
                FIXED[key](value)
            elif key == "build":
                fields["build"] = _build(value, folder)
            elif not str(key).startswith("x-"):
                raise ValueError(f"not carried out by the engine provider; {ELSEWHERE}")
        except ValueError as error:
            faults.append(f"services.{name}.{key}: {error}")
    if not (fields.get("image") or fields.get("build")) and not faults:
        faults.append(f"services.{name}: neither image nor build")
    if faults:
        raise ComposeError(source, faults)
    return Service(name=str(name), **fields)


def service_of_file(file: str) -> Service:
    """The one service of a Compose file, or of a Dockerfile built with hardened defaults.

    Raises:
        FileNotFoundError: if there is no such file.
        ComposeError: if it is no YAML, or asks for what is not carried out.
    """
    path = Path(file).resolve()
    text = path.read_text(encoding="utf-8")
    if path.suffix not in {".yaml", ".yml"}:
        return Service(name="default", build=Build(path.parent, path), command=IDLE)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ComposeError(file, [f"not YAML: {error}"]) from error
    return service(document, file, path.parent)


IDLE = ["tail", "-f", "/dev/null"]
"""Command of a container that was given none: it waits."""
