"""One task, two providers: the same image, rights and files, chosen on the command line."""

import json

import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import sandbox

import propensity.sandboxes.provider.engine  # noqa: F401
from propensity.sandboxes import compose_file
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provider.images import image_id
from tests.support import run

LOOK = """
import json, os, pwd, socket, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({
    "uid": os.getuid(), "cwd": os.getcwd(), "python": sys.executable,
    "capabilities": status["CapBnd"].strip(), "new": status["NoNewPrivs"].strip(),
    "users": {name: pwd.getpwnam(name).pw_uid for name in ("agent", "svc")},
    "interfaces": [name for _, name in socket.if_nameindex()],
    "localhost": socket.gethostbyname("localhost"),
    "file": open("/srv/given.txt").read(),
}))
"""


@solver
def looks() -> Solver:
    """Notes what the sandbox looks like from inside."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        result = await sandbox().exec(["/usr/local/bin/python3", "-I", "-c", LOOK], timeout=30)
        state.store.set("seen", json.loads(result.stdout or "null") or result.stderr)
        connection = await sandbox().connection()
        state.store.set("type", connection.type)
        state.completed = True
        return state

    return solve


@pytest.mark.docker
@pytest.mark.slow(10)
@pytest.mark.parametrize("provider", [None, "docker"])
def test_a_task_runs_unchanged(provider: str | None) -> None:
    config = compose_file("instrumental")
    task = Task(
        dataset=[Sample("x", files={"/srv/given.txt": "given"})],
        solver=looks(),
        sandbox=("engine", config),
    )
    log = run(task, sandbox=provider)
    assert log.status == "success", log.error
    assert log.samples is not None
    store = log.samples[0].store
    assert store["type"] == (provider or "engine")
    assert store["seen"] == {
        "uid": 0,
        "cwd": "/root",
        "python": "/usr/local/bin/python3",
        "capabilities": "00000000000000e3",
        "new": "1",
        "users": {"agent": 3002, "svc": 3001},
        "interfaces": ["lo"],
        "localhost": "127.0.0.1",
        "file": "given",
    }
    assert log.eval.sandbox is not None and log.eval.sandbox.type == (provider or "engine")


@pytest.mark.docker
def test_the_image_is_on_the_engine() -> None:
    name = str(service_of_file(compose_file("instrumental")).image)
    assert (image_id(name) or "").startswith("sha256:")
