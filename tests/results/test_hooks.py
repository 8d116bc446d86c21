"""The hook: finished logs land in the store, and no evaluation ever suffers from it."""

import logging
import time
from pathlib import Path

import pytest
from inspect_ai import eval, eval_retry, eval_set
from inspect_ai.log import read_eval_log

from propensity.results.hooks import ResultsStoreHook
from propensity.results.store import open_store
from tests.results.toys import metadata, sample, toy
from tests.support import run, run_all


def test_a_finished_log_is_in_the_store_when_the_run_ends() -> None:
    log = run(toy([sample("a"), sample("b")], epochs=2))
    frames = open_store().read()
    assert frames.runs["eval_id"].tolist() == [log.eval.eval_id]
    assert (len(frames.samples), len(frames.units), len(frames.scores)) == (4, 4, 4)


def test_several_tasks_and_failed_ones_too() -> None:
    good, bad = run_all([toy([sample("a")]), toy([sample("b", RuntimeError("x"))])])
    assert (good.status, bad.status) == ("success", "error")
    runs = open_store().runs().set_index("eval_id")
    assert runs.loc[good.eval.eval_id, "status"] == "success"
    assert runs.loc[bad.eval.eval_id, "status"] == "error"


BREAKS_ONCE = """
from pathlib import Path
from inspect_ai import Task, task
from tests.results.toys import metadata, sample, toy_policy, toy_score

@task
def breaks_once():
    flag = Path(__file__).with_suffix(".flag")
    score = 1.0 if flag.exists() else RuntimeError("the machinery failed")
    flag.touch()
    return Task(
        dataset=[sample("a", score)], solver=toy_policy(), scorer=toy_score(), metadata=metadata()
    )
"""


def test_a_set_of_runs_and_a_retry(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(repository))
    done, logs = eval_set(
        [toy([sample("a")])], log_dir=str(tmp_path / "set"), model="none", display="none"
    )
    assert done
    monkeypatch.chdir(tmp_path)
    Path("breaks_once.py").write_text(BREAKS_ONCE, encoding="utf-8")
    (broken,) = eval("breaks_once.py", model="none", display="none")
    (again,) = eval_retry(broken, display="none")
    assert (broken.status, again.status) == ("error", "success"), again.error
    runs = open_store().runs()
    assert {logs[0].eval.eval_id, broken.eval.eval_id, again.eval.eval_id} == set(runs["eval_id"])
    assert runs["task_id"].nunique() == 2


def test_logs_of_other_packages_stay_out(tmp_path: Path) -> None:
    about = {key: value for key, value in metadata().items() if key != "propensity_version"}
    run(toy([sample("a")], about=about))
    assert not (tmp_path / "results-store").exists()


def test_by_default_the_store_lies_beside_the_log_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROPENSITY_STORE")
    run(toy([sample("a")]), log_dir=str(tmp_path / "mine" / "logs"))
    assert len(open_store(tmp_path / "mine" / "results-store").runs()) == 1


def test_an_empty_setting_turns_the_store_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROPENSITY_STORE", "")
    run(toy([sample("a")]), log_dir=str(tmp_path / "logs"))
    assert not (tmp_path / "results-store").exists()


def test_an_unreachable_store_fails_nothing_and_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("PROPENSITY_STORE", str(tmp_path / "file" / "store"))
    start = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="propensity.results.hooks"):
        logs = run_all([toy([sample("a")]), toy([sample("b")]), toy([sample("c")])])
    assert time.monotonic() - start < 20
    assert [log.status for log in logs] == ["success"] * 3
    said = [one.getMessage() for one in caplog.records if "results store" in one.getMessage()]
    assert len(said) == 1
    assert "cannot be reached" in said[0] and "propensity ingest catches up" in said[0]
    assert "\n" not in said[0]


def test_a_remote_log_folder_without_a_store_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("PROPENSITY_STORE")
    hook = ResultsStoreHook()
    with caplog.at_level(logging.WARNING, logger="propensity.results.hooks"):
        for name in ("a", "b"):
            hook._write("run", f"s3://bucket/logs/{name}.eval")
    (said,) = [one.getMessage() for one in caplog.records]
    assert "set PROPENSITY_STORE" in said


def test_a_log_that_cannot_be_stored_is_named(caplog: pytest.LogCaptureFixture) -> None:
    from inspect_ai.scorer import Score

    with caplog.at_level(logging.WARNING, logger="propensity.results.hooks"):
        log = run(toy([sample("a", Score(value={"hit": "harmful"}))]))
    assert read_eval_log(log.location).status == "success"
    assert any("not written" in one.getMessage() for one in caplog.records)
