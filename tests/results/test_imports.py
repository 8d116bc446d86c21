"""Reading results needs no benchmark, no judge and no sandbox."""

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
import propensity.results
for module in pkgutil.walk_packages(propensity.results.__path__, "propensity.results."):
    importlib.import_module(module.name)
heavy = {"docker", "deltalake", "datasets", "statsmodels", "openai", "anthropic"}
ours = ("propensity.tasks", "propensity.scorers", "propensity.sandboxes", "propensity.models")
print(sorted(name for name in sys.modules if name in heavy or name.startswith(ours)))
"""


def test_importing_results_imports_neither_tasks_nor_heavy_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
