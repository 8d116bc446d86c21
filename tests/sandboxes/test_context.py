"""The build context, the tag that follows from it, and what names it."""

from pathlib import Path

import pytest
import yaml

from propensity.sandboxes import compose_file
from propensity.sandboxes.context import context_files, image_tag
from propensity.sandboxes.provision.image import check_tag, pinned_base

FOLDER = Path(compose_file("instrumental")).parent


def context(folder: Path, ignore: str, **files: str) -> Path:
    """A build context with these files."""
    (folder / ".dockerignore").write_text(ignore, encoding="utf-8")
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_compose_file_names_the_image_of_the_context() -> None:
    check_tag(FOLDER / "compose.yaml", image_tag(FOLDER))


def test_values_file_names_the_same_image() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
    assert values["services"]["default"]["image"] == image_tag(FOLDER)


def test_another_tag_is_refused_with_the_right_one(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {default: {image: 'propensity-sandbox:0'}}", encoding="utf-8")
    with pytest.raises(ValueError, match="must be propensity-sandbox:123"):
        check_tag(file, "propensity-sandbox:123")


def test_base_is_pinned_by_digest() -> None:
    name, _, digest = pinned_base(FOLDER).partition("@sha256:")
    assert name == "python:3.12-slim"
    assert len(digest) == 64


def test_tag_follows_every_file_of_the_context_and_no_other(tmp_path: Path) -> None:
    folder = context(tmp_path, "*\n!Dockerfile\n!tool", Dockerfile="FROM a\n", tool="1")
    before = image_tag(folder)
    assert before.startswith("propensity-sandbox:") and len(before.partition(":")[2]) == 12
    (folder / "compose.yaml").write_text("services: {}", encoding="utf-8")
    assert image_tag(folder) == before
    (folder / "tool").write_text("2", encoding="utf-8")
    assert image_tag(folder) != before


def test_context_is_an_allow_list(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'\\*' followed by"):
        context_files(context(tmp_path, "secrets\n", Dockerfile=""))
    with pytest.raises(FileNotFoundError, match="absent"):
        context_files(context(tmp_path, "*\n!absent\n"))


def test_compose_file_is_absolute_and_must_be_there() -> None:
    assert Path(compose_file("instrumental")).is_absolute()
    with pytest.raises(FileNotFoundError, match="absent"):
        compose_file("absent")
