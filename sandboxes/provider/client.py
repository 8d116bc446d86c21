"""The Docker Engine API, asked from threads over one pool of connections."""

import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

MINIMUM = (24, 0, 6)
CALL_SECONDS = 120
_pool_lock = threading.Lock()
_calls: RunVar[anyio.CapacityLimiter] = RunVar("propensity_engine_calls")


class EngineUnavailable(RuntimeError):
    """No Docker engine that the provider can work with; the text says what to do."""


def engine_address() -> str:
    """Address of the engine: ``DOCKER_HOST``, else the client's current context, else the default.

    Raises:
        EngineUnavailable: if it is reached in a way that the provider does not speak.
    """
    address = os.environ.get("DOCKER_HOST") or ""
    if not address:
        from docker.context import ContextAPI

        context = ContextAPI.get_current_context()
        address = (context.Host if context else None) or "unix:///var/run/docker.sock"
    address = address.replace("http+unix://", "unix://").replace("http://", "tcp://")
    if urlsplit(address).scheme not in {"unix", "tcp"} or os.environ.get("DOCKER_TLS_VERIFY"):
        raise EngineUnavailable(
            f"the engine provider speaks to a Unix socket or plain TCP, not to {address}: "
            "use --sandbox docker"
        )
    return address


@cache
def _client(address: str) -> Any:
    import docker

    return docker.APIClient(
        base_url=address, version="auto", timeout=CALL_SECONDS, max_pool_size=64
    )


def client() -> Any:
    """The process's `docker.APIClient`.

    Raises:
        EngineUnavailable: if no engine answers.
    """
    import requests
    from docker.errors import DockerException

    address = engine_address()
    try:
        with _pool_lock:
            return _client(address)
    except (DockerException, requests.RequestException) as error:
        path = address.removeprefix("unix://")
        if path != address and os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK):
            raise EngineUnavailable(
                f"this user may not use the Docker socket {path}: add it to the group `docker`, "
                "or set DOCKER_HOST"
            ) from error
        raise EngineUnavailable(
            f"no Docker engine answers at {address}: start one, or run "
            "`python -m propensity.sandboxes.provision`"
        ) from error


def engine_version(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: ``26.1.5+dfsg1`` gives (26, 1, 5)."""
    numbers = []
    for part in version.split("+")[0].split("-")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def limiter(variable: RunVar[anyio.CapacityLimiter], total: int) -> anyio.CapacityLimiter:
    """The event loop's own limiter of that name, made on first use."""
    try:
        return variable.get()
    except LookupError:
        made = anyio.CapacityLimiter(total)
        variable.set(made)
        return made


async def ask(function: Callable[..., T], *arguments: Any) -> T:
    """Run a short blocking call in a thread; at most 32 at once, never abandoned half-way."""
    result: list[T] = []
    with anyio.CancelScope(shield=True):
        result.append(
            await anyio.to_thread.run_sync(function, *arguments, limiter=limiter(_calls, 32))
        )
    return result[0]
