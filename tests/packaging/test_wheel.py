"""Both installs are the same package: names, files, commands, whatever folder one stands in."""

import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from propensity.common.datafiles import read_yaml
from tests.packaging.support import (
    REPOSITORY,
    ROOTS,
    build_wheel,
    copy_project,
    environment,
    packaged_files,
    project_files,
    run,
)

REGISTRY_NAMES = """
import json
from inspect_ai.util import registry_info
from propensity import _registry
names = set()
for entry in vars(_registry).values():
    try:
        names.add(registry_info(entry).name)
    except (ValueError, TypeError, AttributeError):
        pass
print(json.dumps(sorted(names)))
"""

LOGGED = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log
for info in list_eval_logs(sys.argv[1]):
    log = read_eval_log(info)
    print(json.dumps({
        "task": log.eval.task, "status": log.status, "display": log.eval.task_display_name,
        "version": (log.eval.metadata or {}).get("propensity_version"),
    }))
"""

SMOKE = ["--solver", "propensity/hirewatch_policy", "-S", "name=first_k", "--model", "none"]
SMOKE += ["-T", "preset=smoke", "--display", "none"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(source, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("env") / "wheel", [str(wheel)])


@pytest.fixture(scope="module")
def editable_python(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("env") / "editable", ["--editable", str(source)])


def test_every_package_is_named_in_pyproject() -> None:
    found = {
        name.rpartition("/")[0].replace("/", ".")
        for name in packaged_files()
        if name.endswith("/__init__.py")
    }
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["packages"]
    assert sorted(found) == listed, "the list is sorted and complete"


def test_every_file_is_in_the_wheel(wheel: Path) -> None:
    members = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(members) == packaged_files()
    assert {name.partition("/")[0] for name in members} == {"propensity"}


def test_both_installs_give_the_same_names(
    wheel_python: Path, editable_python: Path, tmp_path: Path
) -> None:
    by_wheel, by_editable = (
        json.loads(run([str(python), "-c", REGISTRY_NAMES], cwd=tmp_path))
        for python in (wheel_python, editable_python)
    )
    assert by_wheel == by_editable
    assert len(by_wheel) >= 4 and all(name.startswith("propensity/") for name in by_wheel)
    assert {f"propensity/{name}" for name in card_tasks()} <= set(by_wheel)


def card_tasks() -> list[str]:
    cards = [name for name in project_files() if name.endswith("/eval.yaml")]
    return [
        task["name"] for name in cards for task in read_yaml(REPOSITORY / name)[0].data["tasks"]
    ]


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_task_runs_by_name_beside_a_users_own_files(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A folder may hold tasks.py, scorers.py, results/ and an empty propensity/ of its own."""
    python: Path = request.getfixturevalue(f"{kind}_python")
    for name in ("tasks", "scorers", "sandboxes"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')", encoding="utf-8")
    (tmp_path / "propensity").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mine.txt").write_text("mine", encoding="utf-8")
    inspect = [str(python), "-c", "from inspect_ai._cli.main import main; main()"]
    store = {"PROPENSITY_STORE": str(tmp_path / "store")}
    run([*inspect, "eval", "propensity/hirewatch", *SMOKE, "--log-dir", "l"], tmp_path, **store)
    log = json.loads(run([str(python), "-c", LOGGED, "l"], tmp_path))
    assert (log["task"], log["status"]) == ("propensity/hirewatch", "success")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["mine.txt"]
    assert (tmp_path / "results" / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_by_path_and_by_name_are_one_task(
    editable_python: Path, source: Path, tmp_path: Path
) -> None:
    inspect = [str(editable_python), "-c", "from inspect_ai._cli.main import main; main()"]
    path = f"{source}/tasks/hirewatch/hirewatch.py@hirewatch"
    for index, name in enumerate((path, "propensity/hirewatch")):
        run([*inspect, "eval", name, *SMOKE, "--log-dir", f"l{index}"], tmp_path)
    by_path, by_name = (
        json.loads(run([str(editable_python), "-c", LOGGED, f"l{index}"], tmp_path))
        for index in (0, 1)
    )
    assert (by_path["task"], by_name["task"]) == ("hirewatch", "propensity/hirewatch")
    assert by_path["display"] == by_name["display"] == "HireWatch (our reconstruction)"
    assert by_path["version"] == by_name["version"] is not None


def test_the_command_knows_its_version(wheel_python: Path, wheel: Path, tmp_path: Path) -> None:
    command = wheel_python.parent / "propensity"
    assert run([str(command), "--version"], tmp_path).split()[-1] == wheel.name.split("-")[1]


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_compose_files_are_found_from_any_folder(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    python: Path = request.getfixturevalue(f"{kind}_python")
    script = "from propensity.sandboxes import compose_file; print(compose_file('instrumental'))"
    path = Path(run([str(python), "-c", script], tmp_path).strip())
    assert path.is_absolute() and path.is_file()


def test_roots_are_mapped_as_the_wheel_names_them() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        mapping = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    assert {folder: name.replace(".", "/") for name, folder in mapping.items()} == ROOTS
