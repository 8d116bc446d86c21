"""`propensity export`: five files that other tools read, and never half of one."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from propensity.cli.main import cli
from propensity.common.units import unit
from propensity.results.store.schema import TABLES
from tests.results.toys import sample, toy, trials
from tests.support import run


def called(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def log() -> str:
    record = unit("u", scores={"hit": (1, 2)}, parts=[("x", "U1", 1.0)], answer='a,"b"\nc;=1')
    record["answer"] += "\ud835é"
    planned = [{"unit_id": "u"}]
    return run(toy([sample("a", trials([record]), units=planned), sample("b", 0.0)])).location


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_five_files_with_every_column(log: str, tmp_path: Path, form: str) -> None:
    out = tmp_path / "new" / "tables"
    result = called("--out", out, "--format", form)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == sorted(
        f"{name}.{form}" for name in TABLES
    )
    for name, columns in TABLES.items():
        path = out / f"{name}.{form}"
        frame = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
        assert list(frame.columns) == list(columns)
        assert len(frame) == {"runs": 1, "labels": 0}.get(name, 2)


def test_csv_keeps_text_lists_and_gaps(log: str, tmp_path: Path) -> None:
    called("--out", tmp_path / "t")
    with (tmp_path / "t" / "units.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["unit_id"]: row for row in csv.DictReader(file)}
    assert rows["u"]["answer"] == 'a,"b"\nc;=1\\ud835é'
    assert json.loads(rows["u"]["parts"]) == [{"item_id": "x", "label": "U1", "value": 1.0}]
    assert rows["b"]["parts"] == "" and rows["b"]["value_max"] == ""
    with (tmp_path / "t" / "scores.csv").open(encoding="utf-8", newline="") as file:
        scores = {row["unit_id"]: row for row in csv.DictReader(file)}
    assert (scores["u"]["value"], scores["u"]["denominator"]) == ("0.5", "2")
    assert scores["b"]["denominator"] == ""


def test_files_in_the_way_are_refused_and_untouched(log: str, tmp_path: Path) -> None:
    out = tmp_path / "t"
    out.mkdir()
    (out / "scores.csv").write_text("mine", encoding="utf-8")
    result = called("--out", out)
    assert result.exit_code == 2
    assert "scores.csv is in the way" in result.stderr and "--overwrite" in result.stderr
    assert [path.name for path in out.iterdir()] == ["scores.csv"]
    assert (out / "scores.csv").read_text(encoding="utf-8") == "mine"
    assert called("--out", out, "--overwrite").exit_code == 0
    assert len(list(out.iterdir())) == 5


def test_a_stop_in_the_middle_leaves_no_part_of_a_file(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.csv

    from propensity.results.store.export import write_tables
    from propensity.results.store.source import read_source

    def stopped(table: object, path: Path) -> None:
        path.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    tables = read_source([log]).tables
    monkeypatch.setattr(pyarrow.csv, "write_csv", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_tables({tmp_path / "t" / "runs.csv": tables["runs"]}, form="csv")
    assert list((tmp_path / "t").iterdir()) == []


def test_logs_are_read_instead_of_the_store_and_one_task_is_chosen(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROPENSITY_STORE", str(tmp_path / "none"))
    result = called(log, "--out", tmp_path / "t", "--task", "toy", "--json")
    document = json.loads(result.stdout)
    assert document["files"][str(tmp_path / "t" / "units.csv")] == 2
    assert called(log, "--out", tmp_path / "u", "--task", "tox").exit_code == 2
    missing = called("--out", tmp_path / "u")
    assert missing.exit_code == 2 and "there is no results store" in missing.stderr


def test_a_damaged_log_is_told_with_exit_1(log: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.eval"
    broken.write_bytes(b"x")
    result = called(log, broken, "--out", tmp_path / "t")
    assert result.exit_code == 1
    assert "broken.eval" in result.output and (tmp_path / "t" / "runs.csv").exists()
    assert called(broken, "--out", tmp_path / "u").exit_code == 2


def test_a_folder_that_cannot_be_made(log: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = called("--out", tmp_path / "file" / "t")
    assert result.exit_code == 2 and "Choose a folder to write to." in result.stderr
