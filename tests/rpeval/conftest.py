"""The official files lie outside the project; tests that need them say so when they are absent."""

import os
from pathlib import Path

import pytest

from propensity.tasks.rpeval.official import FOLDER


@pytest.fixture(scope="session")
def official(repository: Path) -> Path:
    """Folder of the official data, from PROPENSITY_RPEVAL_DATA or beside the checkout."""
    named = os.environ.get("PROPENSITY_RPEVAL_DATA")
    folder = Path(named) if named else repository.parent / "shared" / "data" / "rpeval"
    if not (folder / FOLDER).is_dir():
        pytest.skip(f"no official RPEval data: PROPENSITY_RPEVAL_DATA is {named or 'not set'}")
    return folder
