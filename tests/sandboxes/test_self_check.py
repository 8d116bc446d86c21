"""Inspect's own checks of a sandbox provider, on ours and on its Docker provider.

Both run with the project's Compose file, in one container per module.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

import propensity._registry  # noqa: F401
from propensity.sandboxes import compose_file

pytestmark = [pytest.mark.docker, pytest.mark.anyio]


@pytest.fixture(scope="module", params=["engine", "docker"])
async def provider(request, anyio_backend):
    kind = registry_find_sandboxenv(request.param)
    config = compose_file("instrumental")
    await kind.task_init("self_check", config)
    environments = await kind.sample_init("self_check", config, {})
    yield request.param, next(iter(environments.values()))
    await kind.sample_cleanup("self_check", config, environments, False)
    await kind.task_cleanup("self_check", config, True)

@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"

@pytest.fixture
def sandbox_env(provider):
    return provider[1]
