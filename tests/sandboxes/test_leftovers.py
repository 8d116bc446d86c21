"""Nothing is left: after a normal run, an interrupted one, and a killed one once cleaned."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from propensity.sandboxes import compose_file
from propensity.sandboxes.provider import containers, leftovers
from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provider.containers import Container
from propensity.sandboxes.provider.leftovers import Leftover

RUN = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox
import propensity.sandboxes.provider.engine

@solver
def waits():
    async def solve(state, generate):
        await sandbox().exec(["sleep", sys.argv[2]])
        state.completed = True
        return state
    return solve

samples = [Sample("x", id=f"sample-{number}") for number in range(2)]
task = Task(dataset=samples, solver=waits(), sandbox="engine", name=sys.argv[1])
logs = eval(
    task, model="none", log_dir=sys.argv[3], sandbox_cleanup=sys.argv[4] == "clean", display="none"
)
print(logs[0].status if logs else "interrupted")
"""


def of_task(task: str) -> list[Container]:
    """The engine's containers of a task."""
    return [one for one in containers.found() if one.task == task]


class Run:
    """An evaluation in a process of its own."""

    def __init__(self, folder: Path, seconds: str, cleanup: str = "clean") -> None:
        self.task = f"left-{os.getpid()}-{time.monotonic_ns() % 10**9}"
        script = folder / "run.py"
        script.write_text(RUN, encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, script, self.task, seconds, folder / "logs", cleanup],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**os.environ, "INSPECT_DISPLAY": "none"},
        )

    def started(self) -> list[Container]:
        """Wait until both samples' containers run."""
        for _ in range(300):
            there = [one for one in of_task(self.task) if one.status == "running"]
            if len(there) == 2:
                return there
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        pytest.fail(f"no two containers: {self.process.communicate()[0]}")

    def output(self) -> str:
        """Wait for the end; what was said."""
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    """Runs of a test; whatever they leave is removed at its end."""
    made: list[Run] = []
    yield made
    for run in made:
        run.process.kill()
        run.process.wait()
        for one in of_task(run.task):
            containers.remove(one.id)


def begin(runs: list[Run], folder: Path, seconds: str, cleanup: str = "clean") -> Run:
    """Start a run that its test's end takes care of."""
    runs.append(Run(folder, seconds, cleanup))
    return runs[-1]


@pytest.mark.docker
@pytest.mark.slow(10)
def test_normal_run(runs: list[Run], tmp_path: Path) -> None:
    run = begin(runs, tmp_path, "3")
    assert {one.sample for one in run.started()} == {"sample-0", "sample-1"}
    assert run.output().splitlines()[-1] == "success"
    assert of_task(run.task) == []


@pytest.mark.docker
@pytest.mark.slow(10)
def test_interrupted_run(runs: list[Run], tmp_path: Path) -> None:
    run = begin(runs, tmp_path, "600")
    assert {one.state for one in run.started()} == {"live"}
    run.process.send_signal(signal.SIGINT)
    assert run.output().splitlines()[-1] in {"cancelled", "interrupted"}
    assert of_task(run.task) == []


@pytest.mark.docker
@pytest.mark.slow(10)
def test_killed_run_is_cleaned_by_doctor_and_a_living_one_is_not(
    runs: list[Run], tmp_path: Path
) -> None:
    (tmp_path / "killed").mkdir()
    (tmp_path / "living").mkdir()
    killed = begin(runs, tmp_path / "killed", "600")
    living = begin(runs, tmp_path / "living", "600")
    killed.started()
    living.started()
    killed.process.kill()
    killed.process.wait()
    assert {one.state for one in of_task(killed.task)} == {"dead"}
    doctor: list[str | Path] = [Path(sys.executable).with_name("propensity"), "doctor", "--json"]
    told = subprocess.run(doctor, capture_output=True, text=True, check=False)
    [left] = [
        check for check in json.loads(told.stdout)["checks"] if check["what"] == "left by dead runs"
    ]
    assert told.returncode == 1
    assert left["state"] == "fail" and left["fix"] == "propensity doctor --clean"
    assert all(one.name in left["found"] for one in of_task(killed.task))
    subprocess.run([*doctor, "--clean"], capture_output=True, check=False)
    assert of_task(killed.task) == []
    assert len(of_task(living.task)) == 2


@pytest.mark.docker
@pytest.mark.slow(10)
def test_killed_run_is_cleaned_by_the_next_run(runs: list[Run], tmp_path: Path) -> None:
    killed = begin(runs, tmp_path, "600")
    killed.started()
    killed.process.kill()
    killed.process.wait()
    assert len(of_task(killed.task)) == 2
    following = begin(runs, tmp_path, "0.1")
    assert following.output().splitlines()[-1] == "success"
    assert of_task(killed.task) == []


@pytest.mark.docker
@pytest.mark.slow(10)
def test_containers_kept_on_purpose_outlive_the_clean_up(runs: list[Run], tmp_path: Path) -> None:
    run = begin(runs, tmp_path, "0.1", cleanup="keep")
    said = run.output()
    kept = of_task(run.task)
    assert len(kept) == 2
    assert all(one.kept and one.state == "dead" and one.status == "running" for one in kept)
    assert all(f"inspect sandbox cleanup engine {one.name}" in said for one in kept)
    assert not {one.id for one in kept} & {one.id for one in containers.remove_dead()}
    assert not {one.id for one in kept} & {one.id for one in leftovers.of_dead_runs()}
    inspect = Path(sys.executable).with_name("inspect")
    first, second = kept
    done = subprocess.run(
        [inspect, "sandbox", "cleanup", "engine", first.name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"removed {first.name}" in done.stdout
    assert [one.id for one in of_task(run.task)] == [second.id]


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
