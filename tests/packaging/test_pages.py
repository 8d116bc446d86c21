"""Commands on the pages: each exists with its options, parameters, policies and roles (7.1)."""

import importlib
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml
from click.testing import CliRunner
from inspect_ai._cli.main import inspect as inspect_cli

from propensity import _registry
from propensity.cli.common import TASKS
from propensity.cli.docs import parameter_faults
from propensity.cli.main import cli
from tests.packaging.support import REPOSITORY

PAGES = sorted(
    [
        *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")),
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "tasks").glob("*/README.md"),
        REPOSITORY / "benchmarks" / "README.md",
    ]
)
BLOCK = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OF_THE_SYSTEM = ("pip", "docker", "export", ".", "cd", "kubectl", "apt-get", "sudo", "uv")
"""Programs whose options are not ours to check."""
OFFLINE = ("mockllm/", "embedded/", "none", "PROVIDER/")
ROLES = {"rpeval": ("grader",), "instrumental": ("grader",)}


class Line(NamedTuple):
    page: Path
    text: str

    @property
    def words(self) -> list[str]:
        words = shlex.split(self.text, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        return words

    def after(self, option: str) -> list[str]:
        return [b for a, b in zip(self.words, self.words[1:], strict=False) if a == option]

    @property
    def task(self) -> str | None:
        named = [word for word in self.words[2:] if word.startswith("propensity/")]
        return named[0].partition("/")[2] if named else None


def lines() -> Iterator[Line]:
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for text in block.replace("\\\n", " ").splitlines():
                line = Line(page, text)
                if line.words:
                    yield line


LINES = list(lines())


def test_the_pages_hold_commands() -> None:
    assert len(LINES) > 40 and len({line.page for line in LINES}) >= 9


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.page.parent.name}: {line.text}")
def test_a_command_exists_with_its_options(line: Line) -> None:
    program, *rest = line.words
    if program in ("propensity", "inspect"):
        group = cli if program == "propensity" else inspect_cli
        _parse(group, program, rest)
    elif program == "make":
        makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
        targets = re.findall(r"^([a-z]+):", makefile, re.MULTILINE)
        assert set(rest) <= set(targets)
    elif program == "python" and rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None
    elif program.endswith("python") or program == "python":
        assert (REPOSITORY / rest[0]).is_file()
    else:
        assert program in OF_THE_SYSTEM, f"{line.page.name}: what is {program}?"


def _parse(group: click.Group, program: str, words: list[str]) -> None:
    context = click.Context(group, info_name=program)
    name, command, rest = group.resolve_command(context, words)
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        return _parse(command, str(name), rest)
    assert command is not None
    command.make_context(str(name), list(rest), parent=context)


RUNS = [line for line in LINES if line.words[:2] in (["inspect", "eval"], ["inspect", "score"])]


@pytest.mark.parametrize("line", RUNS, ids=lambda line: f"{line.page.parent.name}: {line.text}")
def test_a_run_names_what_there_is(line: Line) -> None:
    assert parameter_faults(f"```\n{line.text}\n```") == []
    for config in line.after("--run-config"):
        named = yaml.safe_load((REPOSITORY / config).read_text(encoding="utf-8"))
        assert "propensity/" in str(named)
    if line.words[1] == "eval" and not line.after("--run-config"):
        assert line.task in TASKS, line.text
    for role in line.after("--model-role"):
        assert role.partition("=")[0] in ROLES.get(line.task or "", ())
    options = dict(one.partition("=")[::2] for one in line.after("-S"))
    for name in (*line.after("--solver"), *line.after("--scorer")):
        made = getattr(_registry, name.partition("/")[2])
        assert set(options) <= set(inspect.signature(made).parameters)
        if name.endswith("_policy"):
            task = name.partition("/")[2].removesuffix("_policy")
            policies = importlib.import_module(f"propensity.tasks.{task}.policies").POLICIES
            assert options["name"] in policies


def test_what_needs_a_key_is_marked() -> None:
    for line in LINES:
        models = line.after("--model") if line.words[0] == "inspect" else []
        if any(not model.startswith(OFFLINE) for model in models):
            assert "# needs-key" in line.text, f"{line.page.name}: {line.text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_data_files_are_made_and_validated_as_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in LINES:
        if line.page == page and line.words[1:2] in (["init"], ["validate"]):
            result = CliRunner().invoke(cli, line.words[1:], catch_exceptions=False)
            assert result.exit_code == 0, f"{line.text}\n{result.output}"


@pytest.mark.parametrize(
    "text",
    [
        "propensity compere --task rpeval",
        "propensity compare --tusk rpeval",
        "propensity validate rpevil",
        "inspect eval propensity/juice --max-conections 3",
        "make everything",
        "frobnicate now",
    ],
)
def test_a_page_that_lies_is_caught(text: str) -> None:
    with pytest.raises((click.ClickException, AssertionError)):
        test_a_command_exists_with_its_options(Line(PAGES[0], text))


@pytest.mark.parametrize(
    "text",
    [
        "inspect eval propensity/juise",
        "inspect eval propensity/juice -T prompt=fast",
        "inspect eval propensity/juice --model-role grader=none",
        "inspect eval propensity/juice --solver propensity/juice_policy -S name=best",
        "inspect score LOG --scorer propensity/juice_score -S treshold=1",
    ],
)
def test_a_run_of_what_there_is_not_is_caught(text: str) -> None:
    with pytest.raises(AssertionError):
        test_a_run_names_what_there_is(Line(PAGES[0], text))
