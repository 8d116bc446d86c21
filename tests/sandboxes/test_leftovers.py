"""Nothing is left: after a normal run, an interrupted one, and a killed one once cleaned."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers, leftovers
from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provider.containers import Container
from propensity.sandboxes.provider.engine import EngineSandbox
from propensity.sandboxes.provider.leftovers import Leftover
from propensity.sandboxes.provision.health import Check, of_engine
from tests.support import run

# An evaluation whose two samples wait in their containers until the process is ended.
WAITING = """
import signal, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox
import propensity.sandboxes.provider.engine

# A test run in the background of a shell hands down that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

@solver
def waits():
    async def solve(state, generate):
        await sandbox().exec(["sleep", "600"])
    return solve

samples = [Sample("x", id=f"sample-{number}") for number in range(2)]
task = Task(dataset=samples, solver=waits(), sandbox="engine", name=sys.argv[1])
logs = eval(task, model="none", log_dir=sys.argv[2], display="none")
print(logs[0].status if logs else "interrupted")
"""


def of_task(task: str) -> list[Container]:
    """The engine's containers of a task."""
    return [one for one in containers.found() if one.task == task]


class Waiting:
    """An evaluation of two samples in a process of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.task = f"left-{name}-{os.getpid()}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITING, self.task, folder / "logs"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
        )

    def containers(self) -> list[Container]:
        """Its two containers, once both run."""
        for _ in range(600):
            there = [one for one in of_task(self.task) if one.status == "running"]
            if len(there) == 2:
                return there
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        pytest.fail(f"no two containers: {self.process.communicate()[0]}")

    def kill(self) -> None:
        """End the process without a chance to clean."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Callable[[str], Waiting]]:
    """Starts evaluations; whatever they leave is removed at the end of the test."""
    made: list[Waiting] = []

    def start(name: str) -> Waiting:
        (tmp_path / name).mkdir()
        made.append(Waiting(tmp_path / name, name))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        for container in of_task(one.task):
            containers.remove(container.id)


def left(clean: bool) -> Check:
    """What `doctor` says about dead runs."""
    return next(check for check in of_engine(clean) if check.what == "left by dead runs")


def looking(seen: list[Container], task: str) -> Task:
    """A task of one sample that notes its container."""

    @solver
    def looks() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            assert (await sandbox().exec(["true"])).success
            seen.extend(of_task(task))
            state.completed = True
            return state

        return solve

    return Task(dataset=[Sample("x", id="a/b")], solver=looks(), sandbox="engine", name=task)


@pytest.mark.docker
def test_normal_run() -> None:
    seen: list[Container] = []
    assert run(looking(seen, "left-normal")).status == "success"
    [container] = seen
    assert (container.sample, container.state, container.status) == ("a/b", "live", "running")
    assert of_task("left-normal") == []


@pytest.mark.docker
def test_failing_sample() -> None:
    @solver
    def fails() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            assert of_task("left-failing")
            raise RuntimeError("the sample failed")

        return solve

    task = Task(dataset=[Sample("x")], solver=fails(), sandbox="engine", name="left-failing")
    log = run(task)
    assert log.status == "error" and log.error and "the sample failed" in log.error.message
    assert of_task("left-failing") == []


@pytest.mark.docker
@pytest.mark.slow(10)
def test_interrupted_run(waiting: Callable[[str], Waiting]) -> None:
    one = waiting("interrupted")
    assert {container.state for container in one.containers()} == {"live"}
    one.process.send_signal(signal.SIGINT)
    said, _ = one.process.communicate(timeout=60)
    assert said.splitlines()[-1] in {"cancelled", "interrupted"}
    assert of_task(one.task) == []


@pytest.mark.docker
@pytest.mark.slow(15)
def test_killed_runs_are_cleaned_and_a_living_one_is_not(
    waiting: Callable[[str], Waiting],
) -> None:
    first, second = waiting("first"), waiting("second")
    names = [container.name for container in first.containers()]
    assert {container.state for container in second.containers()} == {"live"}
    first.kill()
    assert {container.state for container in of_task(first.task)} == {"dead"}
    told = left(clean=False)
    assert (told.state, told.fix) == ("fail", "propensity doctor --clean")
    assert all(name in told.found for name in names)
    assert len(of_task(first.task)) == 2
    # The next run removes what the killed one left.
    anyio.run(EngineSandbox.task_init, "next", compose_file("instrumental"))
    assert of_task(first.task) == []
    assert len(of_task(second.task)) == 2
    second.kill()
    cleaned = left(clean=True)
    assert cleaned.state == "ok" and f"propensity-{second.task[:24]}" in cleaned.found
    assert of_task(second.task) == []


@pytest.mark.docker
def test_containers_kept_on_purpose_outlive_the_clean_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Container] = []
    run(looking(seen, "left-kept"), sandbox_cleanup=False)
    [kept] = of_task("left-kept")
    try:
        assert kept.kept and kept.status == "running"
        assert f"inspect sandbox cleanup engine {kept.name}" in capsys.readouterr().out
        with monkeypatch.context() as played:
            played.setattr(
                containers, "found", lambda: [Container(**{**vars(kept), "state": "dead"})]
            )
            assert containers.remove_dead() == []
            assert kept.id not in {one.id for one in leftovers.of_dead_runs()}
        anyio.run(EngineSandbox.cli_cleanup, kept.name)
        assert f"removed {kept.name}" in capsys.readouterr().out
        assert of_task("left-kept") == []
    finally:
        containers.remove(kept.id)


# What Inspect's own provider leaves


def process(proc: Path, pid: int, start: int, maps: str = "", command: str = "python3") -> None:
    """A played process below a played /proc; `start` in ticks after boot."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_text(f"{command}\0run.py\0", encoding="utf-8")
    (folder / "stat").write_text(f"{pid} (a ) b) S {'0 ' * 18}{start} 0\n", encoding="utf-8")
    (folder / "maps").write_text(maps, encoding="utf-8")


def test_the_oldest_process_that_may_own_a_container(tmp_path: Path) -> None:
    assert leftovers.oldest_owner(tmp_path) == float("-inf")
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n", encoding="utf-8")
    assert leftovers.oldest_owner(tmp_path) is None
    ticks = os.sysconf("SC_CLK_TCK")
    process(tmp_path, 1, 0, "/lib/pydantic_core.so", command="init")
    process(tmp_path, 2, 5 * ticks, "/lib/other.so")
    assert leftovers.oldest_owner(tmp_path) is None
    process(tmp_path, 3, 30 * ticks, "x /lib/pydantic_core/_pydantic_core.so\n")
    process(tmp_path, 4, 20 * ticks, "x /lib/pydantic_core/_pydantic_core.so\n")
    assert leftovers.oldest_owner(tmp_path) == 1020.0


class Played:
    """An engine with two projects of Inspect's provider and one of someone else."""

    def containers(self, **filters: object) -> list[dict[str, object]]:
        """Containers by project and time of creation."""
        return [
            {"Id": "1", "Names": ["/old"], "Created": 100, "Labels": label("inspect-a-iabc123")},
            {"Id": "2", "Names": ["/new"], "Created": 900, "Labels": label("inspect-b-iabc456")},
            {"Id": "3", "Names": ["/web"], "Created": 100, "Labels": label("shop")},
        ]

    def networks(self, **filters: object) -> list[dict[str, object]]:
        """Networks by project and time of creation."""
        return [
            network("4", "inspect-a-iabc123", "1970-01-01T00:01:40.123456789Z"),
            network("5", "inspect-b-iabc456", "1970-01-01T00:01:40.123456789Z"),
            network("6", "inspect-c-iabc789", "1970-01-01T00:15:00.123456789Z"),
            network("7", "shop", "1970-01-01T00:01:40.123456789Z"),
        ]


def label(project: str) -> dict[str, str]:
    """Labels of a Compose project."""
    return {"com.docker.compose.project": project}


def network(name: str, project: str, created: str) -> dict[str, object]:
    """One played network."""
    return {"Id": name, "Name": f"n{name}", "Labels": label(project), "Created": created}


@pytest.mark.parametrize(
    ("owner", "left"),
    [
        (500.0, ["1", "4"]),
        (None, ["1", "2", "4", "5", "6"]),
        (float("-inf"), []),
        (101.0, []),
    ],
)
def test_only_what_no_living_process_can_own(
    monkeypatch: pytest.MonkeyPatch, owner: float | None, left: list[str]
) -> None:
    monkeypatch.setattr(leftovers, "client", Played)
    monkeypatch.setattr(leftovers, "oldest_owner", lambda: owner)
    assert [one.id for one in leftovers.of_inspect()] == left


@pytest.mark.docker
def test_a_container_of_inspects_provider_stays_while_this_process_lives() -> None:
    image = service_of_file(compose_file("instrumental")).image
    project = "inspect-test-iabcdef"
    body = {"Image": image, "Cmd": ["true"], "Labels": label(project)}
    made = client().create_container_from_config(body)["Id"]
    try:
        assert made not in {one.id for one in leftovers.of_inspect()}
    finally:
        leftovers.remove(Leftover("container", made, "", project))
    assert not client().containers(all=True, filters={"id": made})
    leftovers.remove(Leftover("container", made, "", project))
