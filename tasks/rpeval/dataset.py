"""Loads the shipped set, a folder of its form, or the official files; makes samples of them."""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from inspect_ai.dataset import Sample

from propensity.common.datafiles import DataFileError, Fault
from propensity.scorers.rpeval.records import Cardinality, Record, Scoring
from propensity.tasks.rpeval import official
from propensity.tasks.rpeval.baselines import answers
from propensity.tasks.rpeval.checks import balance_faults, check_faults, cue_faults, wording_faults
from propensity.tasks.rpeval.folder import Folder, read_folder, records
from propensity.tasks.rpeval.official import Memory
from propensity.tasks.rpeval.prompts import PromptLanguage, render
from propensity.tasks.rpeval.schema import PARTS
from propensity.tasks.rpeval.template import new_set

DATA = Path(__file__).parent / "data"

SYNTHETIC_NOTICE = (
    "Synthetic, written by the developers; labels are the authors' and were not checked by others."
)

Status = Literal["shipped", "official", "own", "data_unchecked"]


@dataclass(frozen=True)
class RpevalSet:
    """Records of one setting.

    Attributes:
        records: In file order.
        status: `official` only with the published checksum and counts.
        sha256: File name → digest.
        notes: What a report must say about the data.
        licence: Line to print once, for data that are not ours.
    """

    records: tuple[Record, ...]
    status: Status
    sha256: Mapping[str, str]
    notes: tuple[str, ...] = ()
    licence: str | None = None

    @property
    def digest(self) -> str:
        """One digest for all files."""
        joined = "\n".join(f"{name} {digest}" for name, digest in sorted(self.sha256.items()))
        return hashlib.sha256(joined.encode("utf-8")).hexdigest()


def load_set(
    data: str, memory: Memory, cardinality: Cardinality, *, allow_unchecked: bool = False
) -> RpevalSet:
    """Load the records of one setting.

    Args:
        data: `shipped`, `official` (downloaded once), or a folder of either form.
        memory: What the model is shown.
        cardinality: One preference or several.
        allow_unchecked: Accept official files with other checksums or counts, and folders whose
            labels or wording give the answer away.

    Raises:
        DataFileError: the data cannot be read or have faults; all are listed.
    """
    if data == "shipped":
        folder = _shipped()
        known = _all(folder, memory, cardinality)
        return RpevalSet(known, "shipped", folder.sha256(), (SYNTHETIC_NOTICE,))
    path = official.fetch(memory, cardinality) if data == "official" else Path(data)
    if data == "official" or official.is_official(path):
        return _official(path, memory, cardinality, allow_unchecked)
    if not path.is_dir():
        forms = "shipped, official, or a folder with four .jsonl files or benchmark_dataset/"
        fault = Fault(data, None, "", f"is no folder; data is {forms}")
        raise DataFileError([fault], unreadable=True)
    folder = read_folder(path)
    hard = list(wording_faults(folder))
    soft = [*cue_faults(folder), *balance_faults(folder), *check_faults(folder)[0]]
    if hard or (soft and not allow_unchecked):
        raise DataFileError([*hard, *soft])
    notes: tuple[str, ...] = (SYNTHETIC_NOTICE,) if folder.synthetic else ()
    status: Status = "own"
    if soft:
        status = "data_unchecked"
        notes += (f"data_unchecked: {len(soft)} faults of balance and cues were let pass",)
    return RpevalSet(_all(folder, memory, cardinality), status, folder.sha256(), notes)


def in_language(rpeval_set: RpevalSet, language: str) -> RpevalSet:
    """Keep the records of a language.

    Raises:
        ValueError: none is left; the languages and their counts are named.
    """
    kept = [one for one in rpeval_set.records if language in ("all", one.language)]
    if not kept:
        found = Counter(one.language for one in rpeval_set.records)
        counts = ", ".join(f"{name} {n}" for name, n in found.items()) or "no record at all"
        raise ValueError(f"language={language} leaves no record; the data has {counts}")
    return replace(rpeval_set, records=tuple(kept))


def samples(
    rpeval_set: RpevalSet,
    how: Scoring,
    *,
    guesses: Mapping[str, Mapping[str, str]],
    language: PromptLanguage = "match",
    seed: int = 0,
) -> list[Sample]:
    """Make one sample per record, in an order that the seed fixes.

    Args:
        rpeval_set: The records.
        how: Protocol, cardinality, mode and prompt.
        guesses: Record id → baseline → letters.
        language: Language of the instructions.
        seed: Seed of the order.
    """
    ordered = sorted(rpeval_set.records, key=lambda record: record.id)
    random.Random(seed).shuffle(ordered)
    return [_sample(record, how, guesses[record.id], language) for record in ordered]


@cache
def guesses_for(known: tuple[Record, ...]) -> dict[str, dict[str, str]]:
    """Letters of every baseline on the loaded file (cached: they are learnt by folds)."""
    return answers(known)


def cluster_of(question: str) -> str:
    """Cluster of a record: 12 hex digits of its query's digest."""
    return hashlib.sha256(question.encode("utf-8")).hexdigest()[:12]


def validate_files(files: Sequence[Path]) -> tuple[list[Fault], list[str]]:
    """Check a set (its folder, or its files), or the shipped one if none is given.

    Returns:
        All faults, and lines to print about what was read.
    """
    faults: list[Fault] = []
    information: list[str] = []
    for path in _folders(files):
        try:
            found, lines = _validated(path)
        except DataFileError as error:
            if error.unreadable:
                raise
            found, lines = error.faults, []
        faults += found
        information += lines
    return faults, information


def templates() -> dict[str, Callable[[str], dict[str, str]]]:
    """Starting points for `propensity init`."""
    return {"rpeval-set": new_set}


@cache
def _shipped() -> Folder:
    return read_folder(DATA)


def _all(folder: Folder, memory: Memory, cardinality: Cardinality) -> tuple[Record, ...]:
    return tuple(records(folder, memory, cardinality))


def _official(
    path: Path, memory: Memory, cardinality: Cardinality, allow_unchecked: bool
) -> RpevalSet:
    found, digest, checked = official.load(
        path, memory, cardinality, allow_unchecked=allow_unchecked
    )
    notes: tuple[str, ...] = official.KNOWN_ISSUES
    if not checked:
        notes = ("data_unchecked: not the published file", *notes)
    return RpevalSet(
        tuple(found),
        "official" if checked else "data_unchecked",
        {official.FILES[memory, cardinality].path: digest},
        notes,
        official.LICENCE,
    )


def _folders(files: Sequence[Path]) -> Iterator[Path]:
    """The sets that paths stand for, once each."""
    folders = [path if path.is_dir() else path.parent for path in files] or [DATA]
    for path in files:
        if not path.exists() or (path.is_file() and path.stem not in PARTS):
            known = ", ".join(f"{part}.jsonl" for part in PARTS)
            fault = Fault(str(path), None, "", f"is no part of a set; a set is a folder of {known}")
            raise DataFileError([fault], unreadable=True)
    yield from dict.fromkeys(folders)


def _validated(path: Path) -> tuple[list[Fault], list[str]]:
    if official.is_official(path):
        return [], _official_lines(path)
    folder = read_folder(path)
    faults = [*wording_faults(folder), *cue_faults(folder), *balance_faults(folder)]
    found, figures = check_faults(folder)
    slots = sum(len(row.labels) for _, row in folder.multi.values())
    lines = [
        f"{path.name}: {len(folder.queries)} queries, {len(folder.preferences)} preferences, "
        f"{len(folder.single)} single records, {len(folder.multi)} multi records with {slots} slots"
    ]
    if folder.synthetic:
        lines.append(SYNTHETIC_NOTICE)
    return [*faults, *found], lines + figures


def _official_lines(path: Path) -> list[str]:
    lines = [official.LICENCE]
    for memory, cardinality in official.FILES:
        found, _, _ = official.load(path, memory, cardinality)
        lines.append(f"{memory} {cardinality}: {len(found)} records, checksum and counts agree")
    return [*lines, *official.KNOWN_ISSUES]


def _sample(
    record: Record, how: Scoring, guesses: Mapping[str, str], language: PromptLanguage
) -> Sample:
    cluster = cluster_of(record.question)
    metadata: dict[str, Any] = {
        "cluster_id": cluster,
        "factors": {"language": record.language, "group": record.group}
        | ({"domain": record.domain} if record.domain else {})
        | ({"label": record.gold} if how.cardinality == "single" else {}),
        "scoring": how.model_dump(mode="json"),
        "record": record.model_dump(mode="json"),
        "baselines": dict(guesses),
    }
    if how.cardinality == "multi":
        names = [record.id, *(f"{record.id}#{n}" for n in range(1, len(record.gold) + 1))]
        metadata["units"] = [{"unit_id": name, "item_id": name} for name in names]
    return Sample(
        id=record.id,
        input=render(
            record,
            protocol=how.protocol,
            cardinality=how.cardinality,
            prompt=how.prompt,
            language=language,
        ),
        target=record.gold,
        metadata=metadata,
    )
