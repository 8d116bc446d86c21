"""Reads a folder of four files in the shipped style, all faults at once (specification 4, 13)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from propensity.common.datafiles import (
    DataFileError,
    Fault,
    file_sha256,
    read_jsonl,
    validated,
)
from propensity.scorers.rpeval.records import Cardinality, Record
from propensity.tasks.rpeval.official import Memory
from propensity.tasks.rpeval.prompts import dialogue_text
from propensity.tasks.rpeval.schema import (
    PARTS,
    ROWS,
    Header,
    MultiRow,
    Part,
    Preference,
    Query,
    SingleRow,
)

RowT = TypeVar("RowT")
Lined = Mapping[str, tuple[int, RowT]]
"""Rows by id, with their lines."""


@dataclass(frozen=True)
class Folder:
    """Four files, read and joined.

    Attributes:
        path: The folder.
        header: Front matter by file.
        queries: Id → (line, row); so for the other three.
    """

    path: Path
    headers: Mapping[Part, Header]
    queries: Lined[Query]
    preferences: Lined[Preference]
    single: Lined[SingleRow]
    multi: Lined[MultiRow]

    def file(self, part: Part) -> str:
        """Name of a file, as faults show it."""
        return str(self.path / f"{part}.jsonl")

    @property
    def synthetic(self) -> bool:
        """Whether every file says that it is synthetic."""
        return all(header.synthetic for header in self.headers.values())

    def sha256(self) -> dict[str, str]:
        """Digest of each file."""
        return {f"{part}.jsonl": file_sha256(self.file(part)) for part in PARTS}


def read_folder(path: Path) -> Folder:
    """Read and check schema, references, duplicates and lengths.

    Raises:
        DataFileError: a file cannot be read or has faults; all are listed.
    """
    headers: dict[Part, Header] = {}
    rows: dict[Part, dict[str, tuple[int, Any]]] = {}
    faults: list[Fault] = []
    unreadable = False
    for part in PARTS:
        try:
            headers[part], rows[part] = _read_part(path / f"{part}.jsonl", part)
        except DataFileError as error:
            faults += error.faults
            unreadable = unreadable or error.unreadable
    if faults:
        raise DataFileError(faults, unreadable=unreadable)
    folder = Folder(
        path, headers, rows["queries"], rows["preferences"], rows["single"], rows["multi"]
    )
    faults = [*_single_faults(folder), *_multi_faults(folder)]
    if faults:
        raise DataFileError(faults)
    return folder


def records(folder: Folder, memory: Memory, cardinality: Cardinality) -> list[Record]:
    """Join rows into records, in file order.

    Raises:
        DataFileError: implicit memory is wanted, and a row has no dialogue (the first is named).
    """
    rows: Iterable[tuple[int, SingleRow | MultiRow]]
    rows = folder.single.values() if cardinality == "single" else folder.multi.values()
    found = []
    for line, row in rows:
        names: tuple[str, ...]
        if isinstance(row, SingleRow):
            names, gold = (row.preference_id,), str(row.label)
        else:
            names, gold = row.preference_ids, row.labels
        query = folder.queries[row.query_id][1]
        preferences = [folder.preferences[name] for name in names]
        if memory == "implicit":
            for place, one in preferences:
                if not one.dialogue:
                    message = (
                        f"has no dialogue, and {row.id} (line {line}) needs it with memory=implicit"
                    )
                    fault = Fault(folder.file("preferences"), place, one.id, message)
                    raise DataFileError([fault])
        explicit = tuple(one.explicit for _, one in preferences)
        found.append(
            Record(
                id=row.id,
                language=query.lang,
                question=query.text,
                preferences=explicit,
                memory=explicit
                if memory == "explicit"
                else tuple(dialogue_of(one) for _, one in preferences),
                gold=gold,
                intent=row.intent if isinstance(row, SingleRow) else None,
                fold=row.block if isinstance(row, SingleRow) else query.text,
                domain=query.domain,
            )
        )
    return found


def dialogue_of(preference: Preference) -> str:
    """A dialogue as the model sees it."""
    return dialogue_text([(turn.role, turn.text) for turn in preference.dialogue], preference.lang)


def _read_part(path: Path, part: Part) -> tuple[Header, dict[str, tuple[int, Any]]]:
    (first, raw), *lines = read_jsonl(path)
    header = validated(Header, raw, file=str(path), line_of=lambda _: first)
    faults = []
    if header.kind != f"rpeval-{part}":
        text = f"kind is {header.kind!r}; expected 'rpeval-{part}'"
        faults.append(Fault(str(path), first, "", text))
    rows: dict[str, tuple[int, Any]] = {}
    for line, data in lines:
        where = str(data.get("id", "")) if isinstance(data, dict) else ""
        try:
            row = validated(ROWS[part], data, file=str(path), line_of=_at(line), where=where)
        except DataFileError as error:
            faults += error.faults
            continue
        if row.id in rows:
            text = f"id stands twice, first in line {rows[row.id][0]}"
            faults.append(Fault(str(path), line, row.id, text))
        rows[row.id] = (line, row)
    if faults:
        raise DataFileError(faults)
    return header, rows


def _at(line: int) -> Any:
    return lambda path: line


def _single_faults(folder: Folder) -> Iterable[Fault]:
    seen: dict[tuple[str, str], str] = {}
    for line, row in folder.single.values():
        yield from _dangling(folder, "single", line, row.id, row.query_id, [row.preference_id])
        pair = (row.query_id, row.preference_id)
        if pair in seen:
            text = f"query and preference stand together twice, first in {seen[pair]}"
            yield Fault(folder.file("single"), line, row.id, text)
        seen.setdefault(pair, row.id)


def _multi_faults(folder: Folder) -> Iterable[Fault]:
    seen: dict[tuple[str, str], str] = {}
    file = folder.file("multi")
    for line, row in folder.multi.values():
        size = len(row.preference_ids)
        yield from _dangling(folder, "multi", line, row.id, row.query_id, row.preference_ids)
        for name, n in (("labels", len(row.labels)), ("why", len(row.why))):
            if n != size:
                yield Fault(file, line, row.id, f"{n} {name} for {size} preferences")
        for preference in row.preference_ids:
            pair = (row.query_id, preference)
            if pair in seen:
                text = f"{preference} meets {row.query_id} twice, first in {seen[pair]}"
                yield Fault(file, line, row.id, text)
            seen.setdefault(pair, row.id)


def _dangling(
    folder: Folder, part: Part, line: int, row: str, query: str, preferences: Iterable[str]
) -> Iterable[Fault]:
    file = folder.file(part)
    known = folder.queries.get(query)
    if known is None:
        yield Fault(file, line, row, f"query_id {query!r} is not in queries.jsonl")
    for name in preferences:
        preference = folder.preferences.get(name)
        if preference is None:
            yield Fault(file, line, row, f"preference_id {name!r} is not in preferences.jsonl")
        elif known is not None and preference[1].lang != known[1].lang:
            yield Fault(file, line, row, f"{name} and {query} are not of one language")
