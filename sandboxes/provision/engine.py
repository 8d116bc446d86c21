"""A working Docker engine: the one that answers, or one installed and started here."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from propensity.sandboxes.provider.client import (
    MINIMUM,
    EngineUnavailable,
    client,
    engine_version,
)
from propensity.sandboxes.provision import apt

Say = Callable[[str], None]
LOG = Path("/var/log/propensity-dockerd.log")
START_SECONDS = 60
PLUGINS = (Path("/usr/libexec/docker/cli-plugins"), Path("/usr/lib/docker/cli-plugins"))
# From what a normal machine can do down to what a nested one may allow.
OPTIONS: tuple[list[str], ...] = (
    [],
    ["--iptables=false", "--ip6tables=false", "--bridge=none"],
    ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"],
)
LEAST = ".".join(map(str, MINIMUM))
HELP = f"""Install Docker Engine {LEAST} or newer and start it, then run `make setup` again:
  Debian 12 or 13, as root   this command installs it by itself
  other Linux                the distribution's docker engine and Compose 2.21 or newer
  macOS, Windows             Docker Desktop, or another engine with a Docker socket
Until then tasks with a sandbox do not run and their tests are skipped; all else works."""


class NoEngine(RuntimeError):
    """No engine can be had here; the text says why."""


def answering() -> str | None:
    """Version of the engine that answers; None if none does.

    Raises:
        NoEngine: if it is too old.
    """
    try:
        version = str(client().version()["Version"])
    except EngineUnavailable:
        return None
    if engine_version(version) < MINIMUM:
        raise NoEngine(f"the Docker engine that answers is {version}; {LEAST} or newer is needed")
    return version


def drop_stale(pidfile: Path, program: str, proc: Path = Path("/proc")) -> bool:
    """Remove the pid file of a daemon that was killed; return whether it was removed.

    A killed daemon's id may belong to another process by now, which the daemon would take for
    itself and refuse to start.
    """
    try:
        pid = pidfile.read_text(encoding="utf-8").strip()
    except OSError:
        return False
    try:
        if (proc / pid / "comm").read_text(encoding="utf-8").strip() == program:
            return False
    except OSError:
        pass
    pidfile.unlink(missing_ok=True)
    return True


def start(say: Say) -> str:
    """Start the installed `dockerd`; return its version once it answers.

    Raises:
        NoEngine: if it does not start, with the last lines of its log.
    """
    if Path("/run/systemd/system").is_dir():
        subprocess.run(["systemctl", "start", "docker"], capture_output=True, check=False)
        if version := _wait(None):
            return version
    drop_stale(Path("/var/run/docker.pid"), "dockerd")
    drop_stale(Path("/var/run/docker/containerd/containerd.pid"), "containerd")
    for options in OPTIONS:
        say(f"engine: starting {' '.join(['dockerd', *options])}")
        with LOG.open("ab") as log:
            # Its own session, so that it outlives the shell that ran `make`.
            daemon = subprocess.Popen(
                ["dockerd", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        if version := _wait(daemon):
            return version
        daemon.kill()
        daemon.wait()
    last = LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
    raise NoEngine(f"dockerd does not start (log: {LOG}): {' | '.join(last)}")


def _wait(daemon: "subprocess.Popen[bytes] | None") -> str | None:
    for _ in range(START_SECONDS * 4):
        if version := answering():
            return version
        if daemon is not None and daemon.poll() is not None:
            return None
        time.sleep(0.25)
    return None


def _debian() -> bool:
    try:
        release = apt.os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    except OSError:
        return False
    major = release.get("VERSION_ID", "").partition(".")[0]
    return release.get("ID") == "debian" and major.isdigit() and int(major) >= 12


def ensure(say: Say) -> str:
    """Return the version of a working engine, which is installed and started if it may be.

    Raises:
        NoEngine: if none answers and none can be installed here.
    """
    if version := answering():
        return version
    if os.environ.get("DOCKER_HOST"):
        raise NoEngine(f"no engine answers at DOCKER_HOST={os.environ['DOCKER_HOST']}")
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root can install or start one")
    if shutil.which("dockerd") is None:
        if not _debian():
            raise NoEngine("no Docker engine is installed, and this is not Debian 12 or newer")
        say("engine: installing " + " ".join(apt.ENGINE))
        try:
            apt.install_engine()
        except apt.AptError as error:
            raise NoEngine(str(error)) from error
    return start(say)


def compose_version() -> str | None:
    """Version of Compose that the `docker` client on PATH finds; None if it finds none."""
    try:
        done = subprocess.run(
            ["docker", "compose", "version", "--format", "json"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return str(json.loads(done.stdout)["version"]).lstrip("v") if done.stdout else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def link_compose(home: Path, plugins: tuple[Path, ...] = PLUGINS) -> Path | None:
    """Make Compose known to a client that does not look where the distribution puts it.

    A client that was not installed with the engine may come first on PATH. Returns the link.
    """
    for folder in plugins:
        plugin = folder / "docker-compose"
        if plugin.is_file():
            link = home / ".docker" / "cli-plugins" / "docker-compose"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(plugin)
            return link
    return None
