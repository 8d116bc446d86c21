"""Builds and installs for the packaging tests: offline, from what git knows."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent
ROOTS = {
    "propensity": "propensity",
    "tasks": "propensity/tasks",
    "scorers": "propensity/scorers",
    "sandboxes": "propensity/sandboxes",
    "results": "propensity/results",
}


def project_files() -> list[str]:
    """Files of the checkout: tracked, or new and not ignored; deleted ones left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return sorted({name for name in listed if (REPOSITORY / name).is_file()})


def packaged_files() -> list[str]:
    """Files under the five roots, named as members of a wheel."""
    return sorted(
        f"{ROOTS[root]}/{rest}"
        for root, _, rest in (name.partition("/") for name in project_files())
        if root in ROOTS
    )


def copy_project(target: Path) -> Path:
    """Copy the project's files, and nothing that is only on this machine."""
    for name in project_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, target / name)
    return target


def build_wheel(source: Path, out: Path) -> Path:
    """Build through the sdist, so that nothing comes from an old build folder."""
    run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        cwd=out.parent,
    )
    return next(out.glob("*.whl"))


def environment(folder: Path, install: list[str]) -> Path:
    """Make a virtual environment with one install; dependencies are seen, the project is not."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], cwd=folder.parent)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = folder / "bin" / "python"
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    run([str(python), "-m", *command, "--ignore-installed", *install], cwd=folder.parent)
    return python


def run(command: list[str], cwd: Path, **extra: str) -> str:
    """Run a command and return what it printed; its errors are shown on failure."""
    hidden = {"PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV", "INSPECT_DISPLAY"}
    env = {name: value for name, value in os.environ.items() if name not in hidden} | extra
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
