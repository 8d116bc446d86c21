"""Where a task happens: images, their environments' engines, the provider and provisioning."""

from pathlib import Path


def compose_file(name: str) -> str:
    """Absolute path of ``sandboxes/<name>/compose.yaml``, for ``Task(sandbox=...)``.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    file = Path(__file__).resolve().parent / name / "compose.yaml"
    if not file.is_file():
        raise FileNotFoundError(f"no compose file of that name: {file}")
    return str(file)
