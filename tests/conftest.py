"""Every test runs offline, in its own folders; skips say why."""

import os
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


class NetworkInTest(RuntimeError):
    """A test tried to reach something that is not on this machine."""


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache, logs and store of a test lie under its temporary folder."""
    monkeypatch.setenv("PROPENSITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("PROPENSITY_STORE", str(tmp_path / "results-store"))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets reach loopback and Unix sockets only."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            if not str(address[0]).startswith(LOOPBACK):
                raise NetworkInTest(f"connect to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


class _Words:
    """Stands in for a tokenizer whose vocabulary would have to be downloaded."""

    def encode(self, text: str, **options: Any) -> list[int]:
        return [len(word) for word in text.split()]


@pytest.fixture(autouse=True)
def word_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tiktoken` counts words instead of downloading a vocabulary."""
    import tiktoken

    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: _Words())
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: _Words())


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@cache
def docker_fault() -> str | None:
    """Why Docker cannot be used here, or None."""
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no docker client ({type(error).__name__})"
    return None if done.returncode == 0 else "no Docker engine answers"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip Docker tests where there is no engine; fail instead when it was promised."""
    if item.get_closest_marker("docker") and (fault := docker_fault()):
        if os.environ.get("PROPENSITY_REQUIRE_DOCKER") == "1":
            pytest.fail(f"PROPENSITY_REQUIRE_DOCKER=1, but {fault}")
        pytest.skip(f"{fault}; run make setup")


@pytest.fixture(scope="session")
def repository() -> Iterator[Path]:
    """The checkout's folder."""
    yield Path(__file__).parent.parent
