"""Arrows point down only; heavy packages load when they are used."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.packaging.support import REPOSITORY, project_files

# Room → rooms it may import (the benchmark's own folder is checked apart).
ALLOWED = {
    "propensity.common": set(),
    "propensity.results": {"common"},
    "propensity.sandboxes": {"common"},
    "propensity.scorers": {"common", "sandboxes"},
    "propensity.tasks": {"common", "scorers", "sandboxes"},
}
HEAVY = ["docker", "deltalake", "datasets", "openai", "anthropic", "xllamacpp", "pandas"]


def imports() -> Iterator[tuple[str, str, str]]:
    """Yield (file, its module, imported module of ours)."""
    for name in project_files():
        root = name.partition("/")[0]
        if root not in ("propensity", "tasks", "scorers", "sandboxes", "results"):
            continue
        if not name.endswith(".py"):
            continue
        module = name.removesuffix(".py").replace("/", ".")
        module = module if root == "propensity" else f"propensity.{module}"
        tree = ast.parse((REPOSITORY / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((name, module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                if node.level and name.startswith("sandboxes/instrumental/"):
                    continue  # these files also run in the container, where the package is not
                assert node.level == 0, f"{name}: imports are absolute"
                for alias in node.names:
                    yield name, module, f"{node.module}.{alias.name}"


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_arrows_point_down() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, module, imported in imports()
        if imported.startswith("propensity.")
        and room(module) in ALLOWED
        and room(imported) != room(module)
        and room(imported).removeprefix("propensity.") not in ALLOWED[room(module)]
    ]
    assert wrong == []


def test_a_benchmark_never_imports_another() -> None:
    wrong = []
    for name, module, imported in imports():
        mine, theirs = module.split("."), imported.split(".")
        for layer in ("tasks", "scorers"):
            benchmarks = {"hirewatch", "instrumental", "juice", "rpeval", "scihazard"}
            if len(mine) > 2 and len(theirs) > 2 and theirs[1] == layer:
                if {mine[2], theirs[2]} <= benchmarks and mine[2] != theirs[2]:
                    wrong.append(f"{name} imports {imported}")
    assert wrong == []


def test_scorers_take_only_pure_engines_from_sandboxes() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, module, imported in imports()
        if room(module) == "propensity.scorers"
        and imported.startswith("propensity.sandboxes")
        and ".environments" not in imported
    ]
    assert wrong == []


def test_nothing_private_of_inspect_is_imported() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, _, imported in imports()
        if imported.startswith("inspect_ai.")
        and any(part.startswith("_") for part in imported.split("."))
    ]
    assert wrong == []


def test_names_are_imported_through_the_package() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, _, imported in imports()
        if imported.split(".")[0] in ("tasks", "scorers", "sandboxes", "results", "tests")
    ]
    assert wrong == []


@pytest.mark.parametrize("module", ["propensity._registry", "propensity.cli.main"])
def test_front_doors_load_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"


def test_results_load_without_tasks_scorers_and_docker() -> None:
    script = (
        "import sys, pkgutil, importlib, propensity.results as r\n"
        "for m in pkgutil.walk_packages(r.__path__, 'propensity.results.'):\n"
        "    importlib.import_module(m.name)\n"
        "print([m for m in sys.modules if m == 'docker' or m.startswith("
        "('propensity.tasks', 'propensity.scorers', 'propensity.sandboxes'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"
