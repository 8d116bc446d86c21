"""Same task or not, run by path or by name."""

from pathlib import Path

import pytest
from inspect_ai.log import EvalLog

from propensity.results.identity import TaskRun, same_task, task_identity
from propensity.results.store.logs import read_log
from tests.results.toys import sample, toy
from tests.support import run

OURS = {"propensity_version": "0.3.0"}


def ran(name: str, metadata: dict[str, str] | None = None, **args: object) -> TaskRun:
    return TaskRun(task_identity(name, name, metadata), args)


def test_by_path_and_by_name_are_one_task() -> None:
    assert same_task(ran("propensity/rpeval"), ran("rpeval", OURS)).same
    assert same_task(ran("propensity/rpeval", OURS), ran("rpeval", OURS)).same


def test_a_bare_name_could_be_anybodys() -> None:
    for other in (ran("rpeval"), ran("propensity/rpeval"), ran("rpeval", OURS)):
        verdict = same_task(ran("rpeval"), other)
        assert not verdict.same
        assert "cannot tell which package ran" in verdict.message
        assert "re-run it by name" in verdict.message


def test_another_package_is_another_task() -> None:
    verdict = same_task(ran("propensity/rpeval"), ran("other/rpeval", OURS))
    assert (verdict.same, verdict.message) == (False, "propensity/rpeval is not other/rpeval")
    assert not same_task(ran("propensity/rpeval"), ran("propensity/juice")).same


def test_a_later_parameter_stands_for_its_noted_value() -> None:
    old, new = ran("propensity/juice"), ran("propensity/juice", unit="codepoint")
    defaults = {"unit": "codepoint"}
    assert same_task(old, new, defaults).same and same_task(new, old, defaults).same
    assert not same_task(old, ran("propensity/juice", unit="word"), defaults).same
    assert "only one of them has the parameter 'unit'" in same_task(old, new).message


def test_different_values_are_still_one_task() -> None:
    assert same_task(ran("propensity/x", seed=0), ran("propensity/x", seed=1)).same


@pytest.fixture
def by_path(tmp_path: Path) -> EvalLog:
    return run(toy([sample("a")]), log_dir=str(tmp_path / "path"))


def test_a_log_run_by_path_is_stored_without_a_doubt(by_path: EvalLog) -> None:
    assert by_path.eval.task_registry_name == "toy"
    (row,) = read_log(by_path.location).tables["runs"].to_pylist()
    assert (row["task"], row["package"]) == ("toy", "propensity")
