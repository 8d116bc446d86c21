"""Behaviours of inspect-ai around tasks, ids and parameters."""

import subprocess
import sys
from pathlib import Path

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

TASK_FILE = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample

@task
def typed(flag="x", **rest):
    print("GOT", repr(flag), rest)
    return Task(dataset=[Sample("q", id="s")])
"""


@scorer(metrics=[mean()])
def one() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=1.0)

    return score


def test_duplicate_ids_are_refused() -> None:
    rows = [Sample("a", id="same"), Sample("b", id="same")]
    with pytest.raises(Exception, match="(?i)duplicate"):
        eval(Task(dataset=rows, scorer=one()), model="none", display="none")


@pytest.mark.parametrize(
    ("given", "got"),
    [("no", "False"), ("01", "1"), ("a,b", "['a', 'b']"), ("null", "None"), ("1e3", "'1e3'")],
)
def test_parameters_go_through_yaml(given: str, got: str, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TASK_FILE, encoding="utf-8")
    command = ["-c", "from inspect_ai._cli.main import main; main()", "eval", "typed.py"]
    done = subprocess.run(
        [sys.executable, *command, "-T", f"flag={given}", "--model", "none", "--display", "none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"GOT {got} {{}}" in done.stdout, done.stdout + done.stderr


def test_a_rest_parameter_receives_what_is_unknown(tmp_path: Path) -> None:
    """So `**unknown` lets a task refuse a mistyped name before any call."""
    (tmp_path / "typed.py").write_text(TASK_FILE, encoding="utf-8")
    command = ["-c", "from inspect_ai._cli.main import main; main()", "eval", "typed.py"]
    done = subprocess.run(
        [sys.executable, *command, "-T", "flug=1", "--model", "none", "--display", "none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "GOT 'x' {'flug': 1}" in done.stdout, done.stdout + done.stderr
