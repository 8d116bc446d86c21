"""Life of a sandbox: start, five commands, a snapshot of the state, removal; four at once.

Three ways in one run, in turns, so that a busy machine is unfair to none: Inspect's Docker
provider, the provider `engine`, and the Docker Engine API called directly from threads. All use
the project's Compose settings. Needs a Docker engine and the image.

    python benchmarks/sandbox_life/run.py [--samples 12] [--rounds 3] [--json]
"""

import argparse
import asyncio
import io
import json
import statistics
import tarfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from inspect_ai.util import SandboxEnvironment

# Inspect exports its Docker provider under no public name.
from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers
from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provider.engine import EngineSandbox

AT_ONCE = 4
COMMANDS = 5
COMMAND = ["sh", "-c", "echo hello"]
STATE = "/etc/passwd"


async def by_provider(kind: type[SandboxEnvironment], samples: int) -> None:
    """Lives of `samples` sandboxes of an Inspect provider, `AT_ONCE` at a time."""
    config = compose_file("instrumental")
    free = asyncio.Semaphore(AT_ONCE)

    async def life() -> None:
        async with free:
            environments = await kind.sample_init("sandbox_life", config, {})
            sandbox = next(iter(environments.values()))
            for _ in range(COMMANDS):
                result = await sandbox.exec(COMMAND)
                assert result.stdout == "hello\n"
            assert await sandbox.read_file(STATE)
            await kind.sample_cleanup("sandbox_life", config, environments, False)

    await kind.task_init("sandbox_life", config)
    await asyncio.gather(*(life() for _ in range(samples)))
    await kind.task_cleanup("sandbox_life", config, True)


async def by_api(samples: int) -> None:
    """The same lives by direct calls of the `docker` package."""
    service = service_of_file(compose_file("instrumental"))
    body = containers.settings(service, str(service.image), {})
    api = client()

    def life(_: int) -> None:
        container = api.create_container_from_config(body)["Id"]
        api.start(container)
        for _ in range(COMMANDS):
            command = api.exec_create(container, COMMAND)["Id"]
            # The package's own reading loses the output of about one command in a thousand
            # when the machine is busy (it reads ahead past the head of the answer).
            assert api.exec_start(command) in (b"hello\n", b"")
            assert api.exec_inspect(command)["ExitCode"] == 0
        chunks, _ = api.get_archive(container, STATE)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            assert archive.next()
        api.remove_container(container, v=True, force=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: list(pool.map(life, range(samples)))
        )


WAYS: dict[str, Callable[[int], Awaitable[None]]] = {
    "docker": lambda samples: by_provider(DockerSandboxEnvironment, samples),
    "engine": lambda samples: by_provider(EngineSandbox, samples),
    "bare": by_api,
}


async def measure(samples: int, rounds: int) -> dict[str, Any]:
    """Seconds per sample (wall-clock time / samples) of each way, one figure a round.

    Ratios are of the fastest rounds: what else runs on a machine only ever adds time.
    """
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, run in WAYS.items():
            begun = time.perf_counter()
            await run(samples)
            seconds[way].append((time.perf_counter() - begun) / samples)
    least = {way: min(values) for way, values in seconds.items()}
    return {
        "at_once": AT_ONCE,
        "samples": samples,
        "rounds": rounds,
        "seconds_per_sample": seconds,
        "times_faster_than_docker": least["docker"] / least["engine"],
        "times_the_bare_api": least["engine"] / least["bare"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(measure(options.samples, options.rounds))
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for way, values in result["seconds_per_sample"].items():
        middle = statistics.median(values)
        print(f"{way:>7}  {min(values):.3f} s a sample in the fastest round (median {middle:.3f})")
    print(f"engine is {result['times_faster_than_docker']:.1f} times as fast as docker (goal: 5)")
    print(f"engine takes {result['times_the_bare_api']:.2f} times the bare API (goal: 1.3)")


if __name__ == "__main__":
    main()
