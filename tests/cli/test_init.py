"""`propensity init`: what is written has the name that was given, and passes `validate`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from propensity.cli.init import KINDS
from propensity.cli.main import cli


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ("hirewatch-bank", "mine", "mine.yaml"),
        ("hirewatch-bank", "mine.yml", "mine.yml"),
        ("hirewatch-bank", "mine.yaml", "mine.yaml"),
        ("hirewatch-bank", "mine.v2", "mine.v2.yaml"),
        ("instrumental-variant", "late.yml", "late.yml"),
        ("juice-set", "mine.json", "mine/mine.json"),
    ],
)
def test_a_given_suffix_is_kept(
    kind: str, name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(cli, ["init", kind, name], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    assert Path(file).is_file()
    checked = CliRunner().invoke(cli, ["validate", KINDS[kind], file], catch_exceptions=False)
    assert checked.exit_code == 0, checked.output


def test_a_suffix_of_another_form_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["init", "hirewatch-bank", "mine.json"])
    assert result.exit_code == 2 and "makes no .json file" in result.output
    assert list(tmp_path.iterdir()) == []
