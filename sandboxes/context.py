"""The build context of an image and the tag that follows from it."""

import hashlib
from pathlib import Path

IMAGE = "propensity-sandbox"


def context_files(folder: Path) -> list[Path]:
    """Files of a build context, sorted by their path inside it.

    The context is an allow-list: ``.dockerignore`` must begin with ``*`` and name every file
    that the build needs with ``!path``.

    Raises:
        ValueError: if ``.dockerignore`` is no such list.
        FileNotFoundError: if a listed file is missing.
    """
    lines = [
        line.strip()
        for line in (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    if lines[:1] != ["*"] or any(not line.startswith("!") for line in lines[1:]):
        raise ValueError(f"{folder / '.dockerignore'}: must be '*' followed by '!file' lines")
    files = sorted(folder / line[1:] for line in lines[1:])
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"{file}: listed in .dockerignore, but no such file")
    return files


def context_sha256(folder: Path) -> str:
    """Hex digest of the paths and contents of a build context; 64 characters."""
    digest = hashlib.sha256()
    for file in context_files(folder):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def image_tag(folder: Path) -> str:
    """``propensity-sandbox:<first 12 hex of the context's digest>``."""
    return f"{IMAGE}:{context_sha256(folder)[:12]}"
