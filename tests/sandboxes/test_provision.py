"""Provisioning: uses what is there, says what is missing, stops nothing else."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from docker.errors import APIError

from propensity.sandboxes.provider import images
from propensity.sandboxes.provider.client import engine_address, engine_version
from propensity.sandboxes.provision import __main__ as provision
from propensity.sandboxes.provision import apt, engine, image
from propensity.sandboxes.provision.engine import NoEngine


def quiet(text: str) -> None:
    """Takes the lines of progress."""


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("26.1.5+dfsg1", (26, 1, 5)),
        ("24.0.6", (24, 0, 6)),
        ("2.26.1-4", (2, 26, 1)),
        ("28.0.0-rc.1", (28, 0, 0)),
        ("master", ()),
    ],
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert engine_version(text) == numbers


def test_engine_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert engine_address() == "unix:///run/user/1000/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "http://127.0.0.1:2375")
    assert engine_address() == "tcp://127.0.0.1:2375"


@pytest.mark.parametrize("address", ["ssh://host", "npipe:////./pipe/docker_engine"])
def test_an_address_that_is_not_spoken_names_the_way_out(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(RuntimeError, match="--sandbox docker"):
        engine_address()


def test_an_engine_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "answering", lambda: "27.0.1")
    monkeypatch.setattr(apt, "install_engine", lambda: pytest.fail("installed"))
    assert engine.ensure(quiet) == "27.0.1"


@pytest.mark.parametrize(
    ("user", "host", "dockerd", "debian", "words"),
    [
        (1000, "", None, True, "only root"),
        (0, "tcp://127.0.0.1:1", None, True, "DOCKER_HOST"),
        (0, "", None, False, "not Debian 12"),
    ],
)
def test_no_engine_says_why(
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    host: str,
    dockerd: str | None,
    debian: bool,
    words: str,
) -> None:
    monkeypatch.setattr(engine, "answering", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.setattr(shutil, "which", lambda name: dockerd)
    monkeypatch.setattr(engine, "_debian", lambda: debian)
    with pytest.raises(NoEngine, match=words):
        engine.ensure(quiet)


def test_root_on_debian_installs_then_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def start(say: Any) -> str:
        done.append("start")
        return "26.1.5"

    monkeypatch.setattr(engine, "answering", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(engine, "_debian", lambda: True)
    monkeypatch.setattr(apt, "install_engine", lambda: done.append("install"))
    monkeypatch.setattr(engine, "start", start)
    assert engine.ensure(quiet) == "26.1.5"
    assert done == ["install", "start"]


def test_without_an_engine_the_command_says_what_to_install_and_exits_3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(say: Any) -> str:
        raise NoEngine("no Docker engine answers")

    monkeypatch.setattr(engine, "ensure", none)
    result = CliRunner().invoke(provision.main, [])
    assert result.exit_code == 3
    assert "no Docker engine answers" in result.output
    assert "Docker Desktop" in result.output and "tests are skipped" in result.output


def test_without_a_base_the_command_says_how_to_bring_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "ensure", lambda say: "26.1.5")
    monkeypatch.setattr(engine, "compose_version", lambda: "2.26.1")
    monkeypatch.setattr(images, "image_id", lambda name: None)
    monkeypatch.setattr(image, "_pulled", lambda name: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = CliRunner().invoke(provision.main, [])
    assert result.exit_code == 3
    assert "docker load" in result.output and "--base IMAGE" in result.output


def test_an_engine_that_answers_and_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> str:
        raise APIError("500 Server Error: remount /: invalid argument")

    monkeypatch.setattr(engine, "ensure", lambda say: "26.1.5")
    monkeypatch.setattr(engine, "compose_version", lambda: "2.26.1")
    monkeypatch.setattr(image, "ensure", refuses)
    result = CliRunner().invoke(provision.main, [])
    assert result.exit_code == 3
    assert "answers and fails: 500 Server Error: remount" in result.output


def test_tag_is_printed_without_an_engine() -> None:
    result = CliRunner().invoke(provision.main, ["--tag"])
    assert result.exit_code == 0
    assert result.output.startswith("propensity-sandbox:")


def test_pid_file_of_a_killed_daemon_is_dropped(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "7").mkdir(parents=True)
    pidfile = tmp_path / "docker.pid"
    assert not engine.drop_stale(pidfile, "dockerd", proc)
    pidfile.write_text("7\n", encoding="utf-8")
    (proc / "7" / "comm").write_text("dockerd\n", encoding="utf-8")
    assert not engine.drop_stale(pidfile, "dockerd", proc)
    (proc / "7" / "comm").write_text("bash\n", encoding="utf-8")
    assert engine.drop_stale(pidfile, "dockerd", proc)
    assert not pidfile.exists()
    pidfile.write_text("8", encoding="utf-8")
    assert engine.drop_stale(pidfile, "dockerd", proc)


def test_compose_is_linked_where_every_client_looks(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    assert engine.link_compose(tmp_path, (folder,)) is None
    (folder / "docker-compose").touch()
    link = engine.link_compose(tmp_path, (folder,))
    assert link == tmp_path / ".docker" / "cli-plugins" / "docker-compose"
    assert link.resolve() == folder / "docker-compose"
    assert engine.link_compose(tmp_path, (folder,)) == link


def test_base_must_be_pinned(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE=python:3.12-slim\n", encoding="utf-8")
    with pytest.raises(ValueError, match="sha256"):
        image.pinned_base(tmp_path)


@pytest.mark.docker
def test_a_second_run_changes_nothing() -> None:
    result = CliRunner().invoke(provision.main, [])
    assert result.exit_code == 0, result.output
    assert [line.partition(":")[0] for line in result.output.splitlines()] == ["engine", "image"]
