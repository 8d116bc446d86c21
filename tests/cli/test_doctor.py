"""`propensity doctor`: what it finds, what it advises, what it never prints."""

import json
import locale
import resource
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from propensity.cli import doctor
from propensity.sandboxes import compose_file
from propensity.sandboxes.provider.client import EngineUnavailable
from propensity.sandboxes.provider.compose import service_of_file
from propensity.sandboxes.provision import health

SERVICE = service_of_file(compose_file("instrumental"))
CLOSED = {
    "connects": "no OSError",
    "resolves": "no gaierror",
    "interfaces": "lo",
    "CapBnd": "00000000000000e3",
    "NoNewPrivs": "1",
}


def run(*options: str) -> Result:
    """Call the command."""
    return CliRunner().invoke(doctor.command, options)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine answers."""

    def refuse() -> Any:
        raise EngineUnavailable("no Docker engine answers at unix:///var/run/docker.sock")

    monkeypatch.setattr(health, "client", refuse)


def test_without_an_engine_it_says_what_to_do_and_exits_1(no_engine: None) -> None:
    result = run()
    assert result.exit_code == 1
    assert "no Docker engine answers" in result.output
    assert "make setup" in result.output


def test_json_is_one_document(no_engine: None) -> None:
    document = json.loads(run("--json").stdout)
    assert document["ready"] is False
    first = document["checks"][0]
    assert (first["what"], first["state"]) == ("Docker engine", "fail")
    assert set(first) == {"what", "state", "found", "fix"}


def test_keys_are_told_as_set_or_not_set(no_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("HOUSE_API_KEY", "also-secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for options in ([], ["--json"]):
        result = run(*options)
        assert "secret" not in result.output
        assert "OPENAI_API_KEY" in result.output and "HOUSE_API_KEY" in result.output
    [keys] = [one for one in health.of_machine({"OPENAI_API_KEY": "x"}) if one.what == "keys"]
    told, _, missing = keys.found.partition("; not set: ")
    assert told == "set: OPENAI_API_KEY"
    assert "ANTHROPIC_API_KEY" in missing and "OPENAI_API_KEY" not in missing


def test_a_closed_container_is_ok() -> None:
    assert [check.state for check in health.isolation(CLOSED, SERVICE)] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("facts", "failing"),
    [
        ({}, ["egress from a container", "privileges in a container"]),
        (CLOSED | {"connects": "yes"}, ["egress from a container"]),
        (CLOSED | {"resolves": "yes"}, ["egress from a container"]),
        (CLOSED | {"interfaces": "eth0,lo"}, ["egress from a container"]),
        (CLOSED | {"CapBnd": "000001ffffffffff"}, ["privileges in a container"]),
        (CLOSED | {"NoNewPrivs": "0"}, ["privileges in a container"]),
    ],
)
def test_an_open_container_fails(facts: Mapping[str, str], failing: list[str]) -> None:
    checks = list(health.isolation(facts, SERVICE))
    assert [check.what for check in checks if check.state == "fail"] == failing


@pytest.mark.parametrize(
    ("soft", "state"),
    [(1024, "fail"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_open_files(soft: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))
    [check] = [one for one in health.of_machine({}) if one.what == "open files"]
    assert check.state == state


def test_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: "ANSI_X3.4-1968")
    [check] = [one for one in health.of_machine({}) if one.what == "encoding"]
    assert (check.state, check.fix) == ("fail", "export LC_ALL=C.UTF-8")


@pytest.mark.parametrize(("free", "state"), [(9 * 10**9, "fail"), (11 * 10**9, "ok")])
def test_free_disk(free: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: type("Usage", (), {"free": free}))
    check = health.free_disk(tmp_path / "not" / "yet")
    assert (check.state, check.what) == (state, f"free disk at {tmp_path}")


def test_folders(tmp_path: Path) -> None:
    assert health.writable("logs", str(tmp_path / "a" / "b")).state == "ok"
    assert not (tmp_path / "a").exists()
    assert health.writable("logs", "s3://bucket/logs").state == "note"
    assert health.writable("store", None).state == "note"
    assert health.writable("logs", "/proc/logs").state == "fail"


def test_package_versions(tmp_path: Path) -> None:
    file = tmp_path / "constraints.txt"
    assert health.packages(file).state == "note"
    version = metadata.version("click")
    file.write_text(f"# tested\nclick=={version}\nnot-installed==1.0\n", encoding="utf-8")
    assert health.packages(file).state == "ok"
    file.write_text("click==0.1\n", encoding="utf-8")
    check = health.packages(file)
    assert (check.state, check.found) == ("warn", f"click {version} (tested: 0.1)")


@pytest.mark.docker
def test_on_a_machine_with_an_engine() -> None:
    document = json.loads(run("--json").stdout)
    states = {check["what"]: check["state"] for check in document["checks"]}
    for what in (
        "Docker engine",
        "limits of a container",
        "sandbox image",
        "egress from a container",
        "privileges in a container",
    ):
        assert states[what] == "ok", document
    [image] = [check for check in document["checks"] if check["what"] == "sandbox image"]
    assert str(SERVICE.image) in image["found"] and "sha256:" in image["found"]
