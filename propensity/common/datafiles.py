"""Data files: read strictly, faults with file and line, front matter, digests."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Key = str | int
ModelT = TypeVar("ModelT", bound=BaseModel)

CANARY_PATTERN = r"^propensity-canary [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
SEMVER_PATTERN = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$"

_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b"
    r"\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Controls, direction overrides, characters without width, tags: text that hides text."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong in a data file: where, what, and what to do about it."""

    file: str
    line: int | None
    where: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.where, self.message) if part)


class DataFileError(ValueError):
    """A data file with faults; the text lists them all.

    `unreadable` is true when the file could not be opened or read at all (exit code 2).
    """

    def __init__(self, faults: Sequence[Fault], *, unreadable: bool = False) -> None:
        self.faults = list(faults)
        self.unreadable = unreadable
        super().__init__("\n".join(str(fault) for fault in self.faults))


class FrontMatter(BaseModel):
    """What every data file begins with (`kind` and `schema_version` are fixed by subclasses)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    schema_version: int
    canary: str = Field(pattern=CANARY_PATTERN)
    version: str | None = Field(default=None, pattern=SEMVER_PATTERN)
    licence: str | None = None
    provenance: str | None = None
    synthetic: Literal[True] | None = None


@dataclass(frozen=True)
class Document:
    """One YAML document with the line of every key and list entry."""

    data: Any
    lines: dict[tuple[Key, ...], int] = field(default_factory=dict)

    def line(self, path: Sequence[Key]) -> int | None:
        """Return the 1-based line of a path, or of its nearest known parent."""
        parts = tuple(path)
        for end in range(len(parts), -1, -1):
            if parts[:end] in self.lines:
                return self.lines[parts[:end]]
        return None


def read_text(path: Path | str) -> str:
    """Read a UTF-8 file.

    Raises:
        DataFileError: missing, a folder, not readable, or not UTF-8 (`unreadable` is true).
    """
    name = str(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        fault = Fault(name, None, "", f"cannot be read ({reason}); check the path")
        raise DataFileError([fault], unreadable=True) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        fault = Fault(name, line, "", f"byte {error.start} is not UTF-8; save the file as UTF-8")
        raise DataFileError([fault], unreadable=True) from error


def read_yaml(path: Path | str) -> list[Document]:
    """Read every document of a YAML file with a safe loader.

    Raises:
        DataFileError: unreadable, empty, not YAML, with duplicate keys or with text that nobody
            sees (all listed).
    """
    name, text = str(path), read_text(path)
    faults: list[Fault] = []
    documents: list[Document] = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None:
                lines: dict[tuple[Key, ...], int] = {}
                _walk(node, (), lines, faults, name)
                if not faults:
                    documents.append(Document(_construct(node), lines))
    except RecursionError as error:
        fault = Fault(name, None, "", "is nested too deeply, or an alias holds itself; flatten it")
        raise DataFileError([fault]) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        faults.append(Fault(name, mark.line + 1 if mark else None, "", f"not YAML: {problem}"))
    if not documents and not faults:
        faults.append(Fault(name, None, "", "is empty; expected a YAML document"))
    if faults:
        raise DataFileError(faults)
    return documents


def read_json(path: Path | str) -> Any:
    """Read a JSON file; duplicate keys are faults.

    Raises:
        DataFileError: unreadable, not JSON, or with duplicate keys.
    """
    return _parse_json(read_text(path), str(path), 1)


def read_jsonl(path: Path | str, *, any_text: bool = False) -> list[tuple[int, Any]]:
    """Read a JSON Lines file as (line number, value); blank lines are passed over.

    Args:
        path: The file.
        any_text: Let text pass that nobody sees, as what a log holds may have it.

    Raises:
        DataFileError: unreadable, empty, or with lines that are not JSON or hold text that
            nobody sees (all listed).
    """
    name = str(path)
    rows: list[tuple[int, Any]] = []
    faults: list[Fault] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                value = _parse_json(line, name, number)
                rows.append((number, value))
                if not any_text:
                    found = _hidden(value)
                    faults += [Fault(name, number, place, problem) for place, problem in found]
            except DataFileError as error:
                faults.extend(error.faults)
    if not rows and not faults:
        faults.append(Fault(name, None, "", "is empty; expected one JSON value per line"))
    if faults:
        raise DataFileError(faults)
    return rows


def validated(
    model: type[ModelT],
    data: Any,
    *,
    file: str,
    line_of: Callable[[Sequence[Key]], int | None] = lambda path: None,
    where: str = "",
) -> ModelT:
    """Validate a value with pydantic; every fault comes with file, line and field.

    Args:
        model: The pydantic model.
        data: Parsed content.
        file: Name shown in faults.
        line_of: Line of a path inside `data` (`Document.line`).
        where: Name of the record, shown before the field.

    Raises:
        DataFileError: the value does not fit; all faults are listed.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = []
        for item in error.errors(include_url=False):
            path = ".".join(str(part) for part in item["loc"])
            place = ": ".join(part for part in (where, path) if part)
            faults.append(Fault(file, line_of(item["loc"]), place, _message(item)))
        raise DataFileError(faults) from error


def text_problem(text: str) -> str | None:
    """What makes a text unusable: half of a character, or one that is not seen where it acts.

    Joiners (U+200C, U+200D) and direction marks (U+200E, U+200F) belong to scripts and emoji.
    """
    if half := re.search("[\ud800-\udfff]", text):
        return f"holds \\u{ord(half[0]):04x}, half of a character; remove it"
    if hidden := _HIDDEN.search(text):
        name = unicodedata.name(hidden[0], "a control character")
        return f"holds U+{ord(hidden[0]):04X} ({name}), which nobody sees; remove it"
    return None


def content_sha256(value: Any) -> str:
    """Digest of parsed content: JSON with sorted keys, no spaces, UTF-8, dates as ISO text."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_iso
    )
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def file_sha256(path: Path | str) -> str:
    """Digest of a file's bytes."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _iso(value: object) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _walk(
    node: yaml.Node,
    path: tuple[Key, ...],
    lines: dict[tuple[Key, ...], int],
    faults: list[Fault],
    name: str,
) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode) and (problem := _scalar_problem(node)):
        place = ".".join(str(part) for part in path)
        faults.append(Fault(name, node.start_mark.line + 1, place, problem))
    for key, line, child in _children(node):
        here = (*path, key)
        if here in lines:
            place = ".".join(str(part) for part in path)
            faults.append(Fault(name, line, place, f"key {key!r} stands twice; keep one"))
            continue
        lines[here] = line
        _walk(child, here, lines, faults, name)


def _scalar_problem(node: yaml.ScalarNode) -> str | None:
    """What makes a scalar unusable: text that misleads or is none, or a value that is none."""
    if problem := text_problem(node.value):
        return problem
    try:
        _construct(node)
    except ValueError as error:
        return f"{node.value!r} is no such value ({error}); correct it, or quote it as text"
    return None


def _hidden(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Places in a JSON value whose text is unusable, and why."""
    if isinstance(value, str):
        if problem := text_problem(value):
            yield place, problem
        return
    entries: Any = ()
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in entries:
        yield from _hidden(one, f"{place}.{key}".lstrip("."))


def _children(node: yaml.Node) -> Iterator[tuple[Key, int, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield index, value.start_mark.line + 1, value


def _parse_json(text: str, name: str, first_line: int) -> Any:
    duplicates: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                duplicates.append(key)
            seen[key] = value
        return seen

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (json.JSONDecodeError, RecursionError) as error:
        line = first_line + getattr(error, "lineno", 1) - 1
        problem = getattr(error, "msg", "nested too deeply")
        raise DataFileError([Fault(name, line, "", f"not JSON: {problem}")]) from error
    if duplicates:
        raise DataFileError(
            [Fault(name, first_line, key, "key stands twice; keep one") for key in duplicates]
        )
    return value


def _message(item: Any) -> str:
    given = item.get("input")
    shown = f", got {given!r}" if isinstance(given, (str, int, float, bool)) else ""
    return f"{item['msg'].removeprefix('Value error, ')}{shown[:120]}"
