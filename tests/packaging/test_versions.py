"""What decides a score may not change while N of the version stays.

`tests/data/versions.yaml` holds task → version, digest and, where a digest changed although no
score did, `no_score_change: <reason>`. The failure names the digest to write there.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from propensity.cli.common import TASKS
from propensity.common.datafiles import content_sha256, file_sha256, read_yaml
from propensity.common.versions import load_card
from tests.packaging.support import REPOSITORY

STORED = read_yaml(REPOSITORY / "tests" / "data" / "versions.yaml")[0].data
PLAIN = (int, float, bool, type(None))


def plain(value: object) -> object:
    """A constant as JSON; what is no plain data (functions, models) is left out as None."""
    if isinstance(value, re.Pattern):
        value = value.pattern
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(plain(part)) for part in value)
    if isinstance(value, dict):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    return None


def modules(task: str) -> Iterator[ModuleType]:
    yield importlib.import_module(f"propensity.tasks.{task}.prompts")
    package = importlib.import_module(f"propensity.scorers.{task}")
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def digest(task: str) -> str:
    """Digest of data files, prompt constants and scorer constants of a task."""
    folder = REPOSITORY / "tasks" / task / "data"
    content: dict[str, object] = {
        str(path.relative_to(folder)): file_sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for module in modules(task):
        content[module.__name__] = {
            name: plain(value)
            for name, value in sorted(vars(module).items())
            if name.isupper() and not isinstance(value, Path)
        }
    return content_sha256(content)


@pytest.mark.parametrize("task", TASKS)
def test_a_changed_digest_comes_with_a_new_version(task: str) -> None:
    card = load_card(str(REPOSITORY / "tasks" / task / "x"))
    stored, found = STORED[task], digest(task)
    assert stored["version"] == card.version, f"write version {card.version} for {task}"
    assert stored["sha256"] == found, (
        f"what decides a score of {task} changed: raise N in eval.yaml with a changelog line, or "
        f"add no_score_change with the reason; then write sha256: {found}"
    )
