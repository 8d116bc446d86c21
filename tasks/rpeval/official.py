"""The official RPEval files: pinned, checked, never part of the project (specification 3)."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inspect_ai.util import download
from platformdirs import user_cache_dir

from propensity.common.datafiles import DataFileError, Fault, file_sha256, read_json
from propensity.scorers.rpeval.records import LABEL_WORDS, Cardinality, Letter, Record

Memory = Literal["explicit", "implicit"]

REPOSITORY = "https://raw.githubusercontent.com/XueyangFeng/RPEval"
COMMIT = "0f8bce80a03e6b86426485264b14ae7de49cc8f9"
FOLDER = "benchmark_dataset"
ROWS = 150

LICENCE = (
    "RPEval test sets by Feng, Gan, Chen, Dai and Liu, CC BY-NC 4.0, unchanged; "
    "for non-commercial use: https://github.com/XueyangFeng/RPEval"
)
KNOWN_ISSUES = (
    "All 50 single C items are in the first person and half as long, all A and B items speak of "
    "'the user': they read as translated PrefEval items (arXiv 2502.09597), with its own licence.",
    "A model that never reads the query scores .94 on explicit single.",
    "Always-A beats every published model on multi. Treat official scores as comparison with "
    "the paper, not as a measure of judgement.",
)


@dataclass(frozen=True)
class OfficialFile:
    """One of the four files: where it lies, and what it must be."""

    path: str
    sha256: str
    fields: Mapping[str, type]


FILES: Mapping[tuple[Memory, Cardinality], OfficialFile] = {
    ("explicit", "single"): OfficialFile(
        "explicit_preference/single_testset.json",
        "dcee5db3a0c9ef249740f7c0c03c807a6f88d29e194ffc8b5cb96550de949626",
        {"persona": str, "question": str, "reason": str, "intent_type": str},
    ),
    ("explicit", "multi"): OfficialFile(
        "explicit_preference/multi_testset.json",
        "0c51f59275348687248c563f863787622711cd2f11a79d5d4c59401916a71796",
        {"persona": list, "question": str, "intent_type": str},
    ),
    ("implicit", "single"): OfficialFile(
        "implicit_preference/single_testset.json",
        "3b7cd0ae6977d9abc207a0206bc0a38dd9bb0a7a38f881c0a597732da234beb4",
        {
            "persona": str,
            "implicit_persona": str,
            "question": str,
            "intent_type": str,
            "intent": str,
            "reason": str,
        },
    ),
    ("implicit", "multi"): OfficialFile(
        "implicit_preference/multi_testset.json",
        "112bac9cda0e6393b92b3710d7461c1c4671b3ede25ed0d5fc2a8d8848c85762",
        {
            "persona": list,
            "implicit_persona": list,
            "reason": list,
            "question": str,
            "intent_type": str,
        },
    ),
}

FACTS: Mapping[Cardinality, Mapping[str, object]] = {
    "single": {
        "rows": ROWS,
        "labels": {"A": 50, "B": 50, "C": 50},
        "questions": 143,
        "question and preference pairs": 150,
    },
    "multi": {
        "rows": ROWS,
        "labels": {"A": 641, "B": 79, "C": 83},
        "questions": 50,
        "records and slots of IA": (60, 264),
        "records and slots of LKO": (90, 539),
        "preferences per record": {2: 5, 3: 14, 4: 32, 5: 31, 6: 29, 7: 23, 8: 12, 9: 3, 10: 1},
        "C per record": {0: 87, 1: 44, 2: 18, 3: 1},
    },
}
MULTI_PAIRS: Mapping[Memory, int] = {"explicit": 358, "implicit": 359}


def is_official(folder: Path) -> bool:
    """Whether a folder has the layout of the official repository."""
    return (folder / FOLDER).is_dir()


def fetch(memory: Memory, cardinality: Cardinality, commit: str = COMMIT) -> Path:
    """Download one file into the user cache, once, and return its folder.

    Raises:
        ValueError: the commit is not 40 hex digits (a branch may change under its name), or what
            came has another checksum.
        OSError: the server does not answer within 60 seconds.
    """
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise ValueError(
            f"commit {commit!r} must be 40 hex digits; a branch or tag may change under its name"
        )
    one = FILES[memory, cardinality]
    cache = Path(os.environ.get("PROPENSITY_CACHE") or user_cache_dir("propensity"))
    folder = cache / "rpeval" / commit
    target = folder / FOLDER / one.path
    target.parent.mkdir(parents=True, exist_ok=True)
    download(f"{REPOSITORY}/{commit}/{FOLDER}/{one.path}", one.sha256, target, timeout=60)
    return folder


def load(
    folder: Path, memory: Memory, cardinality: Cardinality, *, allow_unchecked: bool = False
) -> tuple[list[Record], str, bool]:
    """Read one official file.

    Args:
        folder: Holds `benchmark_dataset/`.
        memory: Which of the two settings.
        cardinality: Which of the two files of the setting.
        allow_unchecked: Accept another checksum and other counts.

    Returns:
        The records in file order, the file's sha256, and whether checksum and counts are the
        published ones.

    Raises:
        DataFileError: the file cannot be read, has faults, or is not the published one.
    """
    one = FILES[memory, cardinality]
    path = folder / FOLDER / one.path
    rows = read_json(path)
    digest = file_sha256(path)
    differing = []
    if digest != one.sha256:
        differing.append(f"sha256 is {digest}, expected {one.sha256}")
    records = _records(rows, one, str(path), memory, cardinality)
    differing += count_faults(records, memory, cardinality)
    if differing and not allow_unchecked:
        hint = "; allow_unchecked_data=true runs it, marked"
        raise DataFileError([Fault(str(path), None, "", text + hint) for text in differing])
    return records, digest, not differing


def count_faults(records: Sequence[Record], memory: Memory, cardinality: Cardinality) -> list[str]:
    """Compare what was loaded with the published counts."""
    expected = dict(FACTS[cardinality])
    pairs = {(one.question, text) for one in records for text in one.preferences}
    found: dict[str, object] = {
        "rows": len(records),
        "labels": dict(sorted(Counter("".join(one.gold for one in records)).items())),
        "questions": len({one.question for one in records}),
        "question and preference pairs": len(pairs),
    }
    if cardinality == "multi":
        expected["question and preference pairs"] = MULTI_PAIRS[memory]
        for name in ("IA", "LKO"):
            members = [one for one in records if one.group == name.lower()]
            sizes = sum(len(one.gold) for one in members)
            found[f"records and slots of {name}"] = (len(members), sizes)
        sizes_of = Counter(len(one.gold) for one in records)
        found["preferences per record"] = dict(sorted(sizes_of.items()))
        dominating = Counter(one.gold.count("C") for one in records)
        found["C per record"] = dict(sorted(dominating.items()))
    return [
        f"{name}: expected {value}, found {found[name]}"
        for name, value in expected.items()
        if found[name] != value
    ]


def sample_ids(cardinality: Cardinality, keys: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Ids from question and explicit preferences; equal ones are numbered in file order."""
    seen: Counter[str] = Counter()
    ids = []
    for question, personas in keys:
        text = question + "\x1f" + "\x1e".join(personas)
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
        seen[digest] += 1
        ids.append(f"official-{cardinality}-{digest}-{seen[digest]}")
    return ids


def letter(label: str) -> Letter:
    """Map a label word.

    Raises:
        ValueError: the word is not in the label map.
    """
    found = LABEL_WORDS.get(label.strip())
    if found is None:
        raise ValueError(f"unknown label {label!r}; known: {', '.join(LABEL_WORDS)}")
    return found


def _records(
    rows: Any, one: OfficialFile, file: str, memory: Memory, cardinality: Cardinality
) -> list[Record]:
    if not isinstance(rows, list):
        kind = type(rows).__name__
        raise DataFileError([Fault(file, None, "", f"a {kind} at the top; expected a list")])
    faults = [
        Fault(file, None, f"row {number}", text)
        for number, row in enumerate(rows, start=1)
        for text in _shape(row, one)
    ]
    if faults:
        raise DataFileError(faults)
    keys = [(row["question"], _listed(row["persona"])) for row in rows]
    records = []
    for number, (row, name) in enumerate(
        zip(rows, sample_ids(cardinality, keys), strict=True), start=1
    ):
        where = f"row {number}: {name}"
        try:
            gold = letter(row["intent_type"]) if cardinality == "single" else row["intent_type"]
            records.append(_record(row, name, gold, memory))
        except ValueError as error:
            faults.append(Fault(file, None, where, str(error)))
    if faults:
        raise DataFileError(faults)
    return records


def _record(row: Mapping[str, Any], name: str, gold: str, memory: Memory) -> Record:
    preferences = _listed(row["persona"])
    gold = gold.strip()
    if wrong := sorted(set(gold) - set("ABC")):
        raise ValueError(f"labels {gold!r} hold {', '.join(map(repr, wrong))}; known: A, B, C")
    if len(gold) != len(preferences):
        raise ValueError(f"{len(gold)} labels for {len(preferences)} preferences")
    shown = _listed(row["implicit_persona"]) if memory == "implicit" else preferences
    if len(shown) != len(preferences):
        raise ValueError(f"{len(shown)} dialogues for {len(preferences)} preferences")
    if not row["question"].strip() or not all(text.strip() for text in (*preferences, *shown)):
        raise ValueError("an empty question, preference or dialogue")
    return Record(
        id=name,
        language="zh",
        question=row["question"],
        preferences=preferences,
        memory=shown,
        gold=gold,
        intent=row.get("intent"),
        fold=row["question"],
    )


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _shape(row: Any, one: OfficialFile) -> list[str]:
    if not isinstance(row, dict):
        return [f"a {type(row).__name__}; expected an object"]
    found = []
    if set(row) != set(one.fields):
        expected, given = ", ".join(sorted(one.fields)), ", ".join(sorted(row))
        found.append(f"keys are {given}; expected {expected}")
    for name, kind in one.fields.items():
        value = row.get(name)
        if name in row and not isinstance(value, kind):
            found.append(f"{name} is no {'text' if kind is str else 'list'}")
        elif isinstance(value, list) and not all(isinstance(part, str) for part in value):
            found.append(f"{name} holds something that is no text")
    return found
