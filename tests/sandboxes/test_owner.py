"""Whose container is it? Live, dead, or someone else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from propensity.sandboxes.provider import owner
from propensity.sandboxes.provider.owner import owner_label, owner_state


def changed(part: int, text: str) -> str:
    """This process's label with one part replaced."""
    parts = owner_label().split("/")
    parts[part] = text
    return "/".join(parts)


def test_this_process_lives() -> None:
    assert owner_label().split("/")[3] == str(os.getpid())
    assert owner_state(owner_label()) == "live"


def test_a_process_that_ended_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        label = owner_label(child.pid)
        assert owner_state(label) == "live"
        child.kill()
    assert owner_state(label) == "dead"


def test_an_unreaped_process_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    label = owner_label(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner_state(label) == "dead"
    child.communicate()


@pytest.mark.parametrize(
    ("part", "text", "state"),
    [
        (4, "1", "dead"),  # the id was given to a later process
        (1, "000000000000", "dead"),  # before the last boot
        (0, "000000000000", "elsewhere"),  # another machine on the same engine
        (2, "000000000000", "elsewhere"),  # another container on the same machine
        (3, "-1", "elsewhere"),
        (3, "999999999", "dead"),
    ],
)
def test_one_part_decides(part: int, text: str, state: str) -> None:
    assert owner_state(changed(part, text)) == state


@pytest.mark.parametrize("label", ["", "x", "a/b/c/d/e", "////", "a/b/c/1/2/3"])
def test_labels_of_another_make_are_left_alone(label: str) -> None:
    assert owner_state(label) == "elsewhere"


def test_without_proc_the_start_is_asked_of_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "_read", lambda path: "")
    monkeypatch.setattr(Path, "exists", lambda self: False)
    asked: list[tuple[str, ...]] = []

    def ask(*command: str) -> str:
        asked.append(command)
        return "Mon Jan  1"

    monkeypatch.setattr(owner, "_ask", ask)
    assert owner.process_start(7) == "Mon Jan  1"
    assert asked == [("ps", "-o", "lstart=", "-p", "7")]
