"""Inspect's own checks of a sandbox provider, on ours and on its Docker provider.

Both with the project's Compose file, in one container each. What a check expects and our
hardening forbids is listed with its reason and must stay so.
"""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import anyio
import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider.engine import EngineSandbox

pytestmark = [pytest.mark.docker, pytest.mark.anyio]

PROVIDERS: dict[str, type[SandboxEnvironment]] = {
    "engine": EngineSandbox,
    "docker": DockerSandboxEnvironment,
}
ADDUSER = "adduser changes the mode of a folder it gave away: that needs FOWNER, which is dropped"
ROOT = "the user is root with DAC_OVERRIDE, and Inspect's Docker provider asks only the kernel"
DEVIATIONS = {
    ("engine", "test_exec_as_user"): ADDUSER,
    ("docker", "test_exec_as_user"): ADDUSER,
    ("docker", "test_write_text_file_without_permissions"): ROOT,
    ("docker", "test_write_binary_file_without_permissions"): ROOT,
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module's containers."""
    return "asyncio"


@pytest.fixture(scope="module", params=list(PROVIDERS))
async def container(
    request: pytest.FixtureRequest,
) -> AsyncIterator[tuple[str, SandboxEnvironment]]:
    """One container of a provider."""
    provider = PROVIDERS[request.param]
    config = compose_file("instrumental")
    await provider.task_init("self_check", config)
    environments = await provider.sample_init("self_check", config, {})
    yield request.param, next(iter(environments.values()))
    await provider.sample_cleanup("self_check", config, environments, False)
    await provider.task_cleanup("self_check", config, True)


@pytest.fixture
def sandbox_env(
    container: tuple[str, SandboxEnvironment],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> SandboxEnvironment:
    """The sandbox that a check gets."""
    name, sandbox = container
    if reason := DEVIATIONS.get((name, request.node.originalname)):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    # The checks wait five seconds for a killed process to be gone; one must do.
    monkeypatch.setattr(
        self_check, "anyio", SimpleNamespace(sleep=lambda seconds: anyio.sleep(min(seconds, 1)))
    )
    return sandbox
