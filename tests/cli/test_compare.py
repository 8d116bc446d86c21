"""`propensity compare` as a user meets it, on real runs of a tiny task."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from propensity.cli.main import cli
from tests.results.toys import metadata, sample, toy, toy_policy
from tests.support import run


def called(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs and store of three subjects, run once."""
    folder = tmp_path_factory.mktemp("three")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROPENSITY_STORE", str(folder / "store"))
        for name, every in (("never", 99), ("often", 2), ("always", 1)):
            samples = [
                sample(
                    f"s{n:02d}",
                    float((n + 1) % every == 0),
                    variant=f"T{n % 2}",
                    cluster_id=f"c{n % 12}",
                )
                for n in range(48)
            ]
            run(toy(samples), solver=toy_policy(name=name), log_dir=str(folder / "logs"))
    return folder


@pytest.fixture
def three(made: Path, tmp_path: Path) -> Path:
    """The store of the environment holds three subjects; returns their log folder."""
    shutil.copytree(made / "store", tmp_path / "results-store")
    return made / "logs"


def test_three_subjects_from_the_store(three: Path) -> None:
    result = called("--task", "toy")
    assert result.exit_code == 0, result.output
    for name in ("never", "often", "always"):
        assert f"policy/{name}" in result.output
    assert "50.0 %" in result.output and "Differences by variant" in result.output
    assert max(map(len, result.output.splitlines())) <= 100


def test_logs_give_the_same_as_the_store(three: Path) -> None:
    stored, given = (json.loads(called(*what, "--json").stdout) for what in ([], [three]))
    assert stored["tasks"] == given["tasks"]
    assert given["source"] == str(three)


def test_json_holds_rates_pairs_health_and_no_nan(three: Path) -> None:
    document = json.loads(called("--json").stdout)
    (task,) = document["tasks"]
    assert [one["subject"] for one in task["rates"]] == [
        "policy/always",
        "policy/never",
        "policy/often",
    ]
    assert task["rates"][2]["estimate"] == 0.5 and task["rates"][2]["coverage"] == 1.0
    assert len(task["pairs"]) == 3 and len(task["health"]) == 3
    assert task["faults"] == []


def test_a_baseline_and_a_pair(three: Path) -> None:
    baseline = json.loads(called("--baseline", "policy/never", "--json").stdout)["tasks"][0]
    assert [(one["a"], one["b"]) for one in baseline["pairs"]] == [
        ("policy/never", "policy/always"),
        ("policy/never", "policy/often"),
    ]
    result = called("--pair", "policy/never", "policy/often", "--flips", "2")
    assert "Flips, policy/often - policy/never: 24 to B, 0 to A, first 2" in result.output
    assert "s01" in result.output


def test_csv_and_markdown(three: Path, tmp_path: Path) -> None:
    file = tmp_path / "out" / "table.csv"
    result = called("--csv", file, "--markdown", "--models", "policy/never,policy/often")
    assert "| subject | hit |" in result.output
    with file.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["kind"] for row in rows].count("rate") == 2 + 4
    assert rows[0]["low"] and rows[0]["warnings"]
    again = called("--csv", file)
    assert again.exit_code == 2 and "is in the way" in again.stderr
    assert called("--csv", file, "--overwrite").exit_code == 0


def test_what_differs_is_listed_and_nothing_is_computed(three: Path) -> None:
    other = metadata(factors={"seed": 1, "mode": "ours"})
    run(toy([sample("s00")], about=other), solver=toy_policy(name="other"))
    result = called()
    assert result.exit_code == 2
    assert "not comparable; they differ in" in result.stderr
    assert "seed: 0 (3 runs: policy/always, policy/never, policy/often) | 1 (1 run" in result.stderr
    assert result.stdout == ""


def test_a_refused_task_does_not_hide_the_others(three: Path, tmp_path: Path) -> None:
    from propensity.results.store import open_store
    from propensity.results.store.logs import read_log
    from propensity.results.store.schema import LogTables

    store = open_store()
    for seed in (0, 1):
        about = metadata(factors={"seed": seed})
        log = run(toy([sample("x")], about=about), log_dir=str(tmp_path / "zoo"))
        tables = read_log(log.location).tables
        renamed = {
            name: table.set_column(
                table.schema.get_field_index("task"), "task", [["zoo"] * table.num_rows]
            )
            for name, table in tables.items()
        }
        store.write(LogTables(log.eval.eval_id, "zoo", renamed))
    result = called("--models", "policy/never,policy/always", "--json", "--latest")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [one["task"] for one in document["tasks"]] == ["toy"]
    assert "zoo" in document["refused"][0]["message"]


def test_a_health_limit_gives_exit_1(tmp_path: Path) -> None:
    samples = [sample(f"s{n}", ValueError("x") if n < 3 else 0.0) for n in range(20)]
    run(toy(samples), fail_on_error=False)
    result = called()
    assert result.exit_code == 1
    assert "FALLS SHORT: policy/always: errored 15.0 % of planned" in result.output
    assert "errored 3 (ValueError 3)" in " ".join(result.output.split())
    assert "health limits were crossed" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no such file or folder"),
        (["--store", "nowhere"], "there is no results store at"),
        (["--flips", "-1"], "--flips"),
        (["--pair", "a"], "--pair"),
    ],
)
def test_bad_requests_are_two_lines_and_exit_2(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = called(*arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "Traceback" not in result.output


def test_unknown_names_are_answered_with_the_known(three: Path) -> None:
    assert "There are: policy/always, policy/never, policy/often." in (
        called("--models", "gpt").output
    )
    assert "no run of task 'tox'" in called("--task", "tox").output
    assert "did you mean 'hit'?" in called("--metric", "hits").output
    assert "Factors of the units" in called("--by", "colour").output


def test_a_refused_run_without_readings_shows_why(tmp_path: Path) -> None:
    from inspect_ai.scorer import Score

    logs = tmp_path / "broken"
    none = Score.unscored(reason="refusal", explanation="refused")
    run(toy([sample(f"s{n}", none) for n in range(2)]), log_dir=str(logs))
    result = called(logs)
    assert result.exit_code == 2 and result.stdout == ""
    assert "health  mockllm/model" in result.stderr or "health  policy/always" in result.stderr
    assert "scored 0 · unscored 2 (refusal 2)" in result.stderr
    document = json.loads(called(logs, "--json").stdout)
    assert "unscored 2 (refusal 2)" in document["refused"][0]["health"][0]
