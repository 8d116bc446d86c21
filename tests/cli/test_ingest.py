"""`propensity ingest` as a user meets it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from propensity.cli.main import cli
from propensity.results.store import open_store
from tests.results.toys import sample, toy
from tests.support import run


def called(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["ingest", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    run(toy([sample("a"), sample("b")]), log_dir=str(tmp_path / "logs"))
    return tmp_path / "logs"


def test_logs_land_in_the_store_once(logs: Path, tmp_path: Path) -> None:
    first = called(logs, "--store", tmp_path / "s")
    assert first.exit_code == 0
    assert "1 written · 0 unchanged · 0 left out" in first.output
    assert f"store: {tmp_path / 's'}" in first.output
    assert "0 written · 1 unchanged" in called(logs, "--store", tmp_path / "s").output
    assert "1 written" in called(logs, "--store", tmp_path / "s", "--overwrite").output
    assert len(open_store(tmp_path / "s").scores()) == 2


def test_json_is_one_document(logs: Path, tmp_path: Path) -> None:
    document = json.loads(called(logs, "--store", tmp_path / "s", "--json").stdout)
    assert len(document["written"]) == 1
    assert document["store"] == str(tmp_path / "s") and document["left_out"] == []


def test_the_store_of_the_environment_is_the_default(logs: Path, tmp_path: Path) -> None:
    result = called(logs, "--overwrite")
    assert f"store: {tmp_path / 'results-store'}" in result.output


def test_a_damaged_log_is_named_and_the_rest_is_stored(logs: Path, tmp_path: Path) -> None:
    (logs / "broken.eval").write_bytes(b"broken")
    result = called(logs, "--store", tmp_path / "s")
    assert result.exit_code == 1
    assert "1 written" in result.output and "broken.eval" in result.output
    assert "cannot be read as an Inspect log" in result.output
    assert "1 of 2 could not be stored" in result.stderr


@pytest.mark.parametrize("name", ["nowhere", "empty", "broken.eval"])
def test_no_log_among_the_inputs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.eval").write_bytes(b"")
    result = called(tmp_path / name, "--store", tmp_path / "s")
    assert result.exit_code == 2
    assert "propensity: no log among the inputs" in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "s").exists()


def test_a_newer_store_is_refused(logs: Path, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    called(logs, "--store", tmp_path / "s")
    table = DeltaTable(f"{tmp_path}/s/runs")
    table.alter.set_table_properties({"propensity.schema": "9"}, raise_if_not_exists=False)
    result = called(logs, "--store", tmp_path / "s")
    assert result.exit_code == 2
    assert "has schema 9; this version of propensity knows up to 1" in result.stderr
    assert "Update propensity" in result.stderr


def test_a_store_out_of_reach_is_refused(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    result = called(logs, "--store", tmp_path / "file" / "s")
    assert result.exit_code == 2
    assert "cannot be reached" in result.stderr


def test_without_logs_it_is_usage() -> None:
    result = called()
    assert result.exit_code == 2
    assert "Missing argument 'LOGS...'" in result.output


def test_help_has_an_example() -> None:
    assert "Example: propensity ingest logs/" in called("--help").output
