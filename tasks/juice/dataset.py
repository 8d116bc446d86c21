"""Reads JuICE data in the official schema, whoever supplies it, and makes samples of it.

The official file is not part of the project: its licence is not visible. Its owner loads it with
`data=PATH` or `data=hf://…`; the shipped file is synthetic and has the same schema.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import yaml
from inspect_ai.dataset import Sample

from propensity.common.datafiles import (
    DataFileError,
    Fault,
    content_sha256,
    file_sha256,
    read_json,
    read_jsonl,
    read_text,
    read_yaml,
    validated,
)
from propensity.scorers.juice.comparison import Gold
from propensity.scorers.juice.records import Group, Mark, Response, Settings
from propensity.scorers.juice.taxonomy import CRITICALITIES
from propensity.tasks.juice.prompts import Prompt, render
from propensity.tasks.juice.schema import (
    ENTRIES_PER_PAIR,
    ENTRY_FIELDS,
    OFFICIAL_ENTRIES,
    OFFICIAL_GROUPS,
    PAIRS,
    Entry,
    SetCard,
    Source,
    SourcesHeader,
    Taxonomy,
    parse_key,
    unknown_fields,
)

DATA = Path(__file__).parent / "data"
SHIPPED = DATA / "synthetic.json"
FEWSHOT = DATA / "fewshot.json"
TAXONOMY = DATA / "taxonomy.yaml"
SOURCES = DATA / "sources.jsonl"
CARD_ENDING = ".card.md"

HF = "hf://"
_ADDRESS = re.compile(r"hf://([\w.-]+(?:/[\w.-]+)?)@([0-9a-f]{40})(?:/(.+\.json))?")
ID_COLUMNS = ("id", "entry_id", "key")

SYNTHETIC_NOTICE = (
    "Synthetic, written by the developers, not validated by native speakers; it tests the "
    "machinery and gives no claim about a culture or a model."
)

Status = Literal["synthetic", "official", "unchecked", "subset"]


@dataclass(frozen=True)
class JuiceSet:
    """A loaded data set.

    Attributes:
        entries: By id, in file order.
        source: `shipped`, a path or a dataset's address.
        sha256: Of the file; of the parsed rows if they came without a file.
        status: `official` only if all counts are the published ones; `unchecked` if they differ
            and that was allowed; `subset` for any other size.
    """

    entries: Mapping[str, Entry]
    source: str
    sha256: str
    status: Status
    warnings: tuple[str, ...]


def load_set(data: str = "shipped", *, allow_unchecked: bool = False) -> JuiceSet:
    """Load and check a data set.

    Args:
        data: `shipped`, the path of a JSON file, `hf://<id>@<40 hex>/<file>.json` or
            `hf://<id>@<40 hex>`.
        allow_unchecked: Accept 1,050 entries whose groups are not the published number.

    Raises:
        DataFileError: the data cannot be read or has faults; all are listed with entry, group
            and error.
        ValueError: the address is not pinned to a revision.
    """
    if data.startswith(HF):
        return _from_hub(data, allow_unchecked)
    path = SHIPPED if data == "shipped" else Path(data)
    return _from_file(path, data, allow_unchecked)


def samples(
    juice_set: JuiceSet, settings: Settings, prompt: Prompt, pairs: Sequence[str] = PAIRS
) -> list[Sample]:
    """Make one sample per response, in file order.

    Raises:
        ValueError: the pairs leave no response, or `gold=human` no group.
    """
    chosen = {name: one for name, one in juice_set.entries.items() if one.pair in pairs}
    if not chosen:
        present = Counter(one.pair for one in juice_set.entries.values())
        counts = ", ".join(f"{pair} {n}" for pair, n in present.items())
        raise ValueError(f"pairs leaves no response; the data has {counts}")
    if settings.gold == "human":
        found = Counter(mark.detector_type for one in chosen.values() for mark in one.marks)
        if not found["human"]:
            counts = ", ".join(f"{finder} {n}" for finder, n in found.items()) or "none at all"
            raise ValueError(f"gold=human leaves no group: the marks of the data are {counts}")
    known = definitions() if prompt != "zero_shot" else {}
    shown = worked_items() if prompt == "few_shot" else []
    return [_sample(name, entry, settings, known, shown) for name, entry in chosen.items()]


def response_of(entry_id: str, entry: Entry) -> Response:
    """What the scorer needs of an entry."""
    key = parse_key(entry_id)
    return Response(
        text=entry.response_text,
        language=entry.language,
        model=key.response_model if key else "unknown",
        groups=tuple(
            Group(
                id=group_id,
                labels=tuple(dict.fromkeys(group.thick_categories)),
                marks=tuple(
                    Mark(
                        span=error.span,
                        paragraphs=tuple(error.paragraph_idx_list),
                        label=error.thick_category,
                        finder=error.detector_type,
                        # Only people graded it.
                        criticality=None
                        if error.detector_type == "model"
                        else error.raw_annotation.error_criticality,
                        explanation=error.explanation,
                    )
                    for error in group.errors.values()
                ),
            )
            for group_id, group in entry.error_groups.items()
        ),
    )


@cache
def definitions() -> dict[str, str]:
    """Label → definition, from `taxonomy.yaml`."""
    document = read_yaml(TAXONOMY)[0]
    taxonomy = validated(Taxonomy, document.data, file=str(TAXONOMY), line_of=document.line)
    return {one.label: one.definition for one in taxonomy.labels}


@cache
def worked_items() -> list[tuple[str, Response]]:
    """Query and response of the items shown with `prompt=few_shot`."""
    loaded = load_set(str(FEWSHOT))
    return [(one.query_text, response_of(name, one)) for name, one in loaded.entries.items()]


def validate_files(files: Sequence[Path]) -> tuple[list[Fault], list[str]]:
    """Check data files, or the shipped ones if none are given.

    A folder stands for the JSON files in it. In a set that has a card, every gold span must be
    in the text; in others a span that is not is information.

    Returns:
        All faults, and lines to print about what was read.
    """
    faults: list[Fault] = []
    information: list[str] = []
    for path in _expanded(files or (SHIPPED, FEWSHOT, TAXONOMY, SOURCES)):
        try:
            lines, found = _checked(path)
        except DataFileError as error:
            if error.unreadable:
                raise
            faults += error.faults
        else:
            information += [f"{path.name}: {line}" for line in lines]
            faults += found
    return faults, information


def templates() -> dict[str, Callable[[str], dict[str, str]]]:
    """Starting points for `propensity init`."""
    return {"juice-set": _new_set}


def _from_file(path: Path, source: str, allow_unchecked: bool) -> JuiceSet:
    try:
        raw = read_json(path)
    except DataFileError as error:
        if error.unreadable and not path.exists():
            known = "shipped, the path of a JSON file, or hf://<id>@<40 hex>[/<file>.json]"
            fault = Fault(str(path), None, "", f"does not exist; data is {known}")
            raise DataFileError([fault], unreadable=True) from error
        raise
    return _set(raw, str(path), source, file_sha256(path), _card(path), allow_unchecked)


def _from_hub(address: str, allow_unchecked: bool) -> JuiceSet:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            f"data {address!r} must be hf://<dataset id>@<revision>[/<file>.json] with a revision "
            "of 40 hex digits; a branch, a tag or a short hash may change under the same name"
        )
    dataset, revision, file = match.groups()
    if file is not None:
        from huggingface_hub import hf_hub_download

        path = hf_hub_download(dataset, file, repo_type="dataset", revision=revision)
        return _from_file(Path(path), address, allow_unchecked)
    raw = _hub_rows(dataset, revision, address)
    return _set(raw, address, address, content_sha256(raw), None, allow_unchecked)


def _hub_rows(dataset: str, revision: str, address: str) -> dict[str, Any]:
    """Rows of a dataset as an object by id.

    Raises:
        DataFileError: the columns are not those of an entry and an id, or an id stands twice.
    """
    from datasets import load_dataset

    loaded = load_dataset(dataset, revision=revision)
    splits = list(loaded.values()) if isinstance(loaded, Mapping) else [loaded]
    columns = sorted({name for split in splits for name in split.column_names})
    named = next((name for name in ID_COLUMNS if name in columns), None)
    if named is None or not set(ENTRY_FIELDS) <= set(columns):
        raise _fault(
            address,
            f"columns are not those of JuICE entries; found: {', '.join(columns)}; needed: "
            f"{', '.join(ENTRY_FIELDS)}, and one of {', '.join(ID_COLUMNS)}",
        )
    entries: dict[str, Any] = {}
    for row in (row for split in splits for row in split):
        entry_id = str(row[named])
        if entry_id in entries:
            raise _fault(address, "id stands twice", where=entry_id)
        fields = {name: row[name] for name in ENTRY_FIELDS}
        entries[entry_id] = fields | {"error_groups": _groups(row["error_groups"])}
    return entries


def _groups(value: Any) -> Any:
    """Undo what columnar storage does to objects: text of JSON, or null under absent keys."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    groups = _present(value)
    for name, group in groups.items() if isinstance(groups, dict) else ():
        if isinstance(group, dict):
            groups[name] = group | {"errors": _present(group.get("errors"))}
    return groups


def _present(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: one for key, one in value.items() if one is not None}


def _set(
    raw: Any, file: str, source: str, sha256: str, card: SetCard | None, allow_unchecked: bool
) -> JuiceSet:
    synthetic = card is not None and bool(card.synthetic)
    entries = _entries(raw, file, synthetic)
    status = _status(entries, file, synthetic, allow_unchecked)
    return JuiceSet(entries, source, sha256, status, tuple(_warnings(entries)))


def _entries(raw: Any, file: str, synthetic: bool) -> dict[str, Entry]:
    """Validate every entry; all faults at once."""
    if not isinstance(raw, dict):
        raise _fault(file, f"a {type(raw).__name__} at the top; expected one object by entry id")
    if not raw:
        raise _fault(file, "holds no entry")
    faults: list[Fault] = []
    entries: dict[str, Entry] = {}
    for entry_id, data in raw.items():
        try:
            entry = validated(Entry, data, file=file, where=entry_id)
        except DataFileError as error:
            faults += error.faults
            continue
        faults += (Fault(file, None, entry_id, text) for text in _misfits(entry_id, entry))
        if not synthetic:
            faults += (
                Fault(file, None, entry_id, "detector_type 'synthetic' needs a card that says so")
                for mark in entry.marks
                if mark.detector_type == "synthetic"
            )
        entries[entry_id] = entry
    if faults:
        raise DataFileError(faults)
    return entries


def _misfits(entry_id: str, entry: Entry) -> Iterator[str]:
    key = parse_key(entry_id)
    if key is not None:
        for name in ("country", "language_type"):
            said, meant = getattr(entry, name), getattr(key, name)
            if said != meant:
                yield f"{name} is {said!r}, but the id says {meant!r}"


def _status(
    entries: Mapping[str, Entry], file: str, synthetic: bool, allow_unchecked: bool
) -> Status:
    if synthetic:
        return "synthetic"
    if len(entries) != OFFICIAL_ENTRIES:
        return "subset"
    sizes = Counter(entry.pair for entry in entries.values())
    groups: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for entry in entries.values():
        groups[entry.pair] += len(entry.error_groups)
        marks[entry.pair] += sum(1 for _ in entry.marks)
    if any(sizes[pair] != ENTRIES_PER_PAIR for pair in PAIRS):
        found = ", ".join(f"{pair} {sizes[pair]}" for pair in PAIRS)
        raise _fault(file, f"{ENTRIES_PER_PAIR} entries per pair were published; found: {found}")
    if groups == Counter(OFFICIAL_GROUPS):
        return "official"
    if allow_unchecked:
        return "unchecked"
    rows = "".join(
        f"\n  {pair}: groups {groups[pair]}, marks {marks[pair]}, published {published}"
        for pair, published in OFFICIAL_GROUPS.items()
    )
    raise _fault(
        file,
        "the groups are not the published number; allow_unchecked_data=true runs it, marked: "
        f"{rows}",
    )


def _warnings(entries: Mapping[str, Entry]) -> Iterator[str]:
    unknown: Counter[str] = Counter()
    outside = odd = 0
    for entry in entries.values():
        unknown += unknown_fields(entry)
        paragraphs = range(len(entry.response_text.split("\n\n")))
        for mark in entry.marks:
            listed = mark.paragraph_idx_list
            outside += not listed or any(index not in paragraphs for index in listed)
            level = mark.raw_annotation.error_criticality
            odd += level is not None and level not in CRITICALITIES
    for field, count in unknown.items():
        yield f"unknown field {field!r}, kept, in {count} places"
    if strange := sum(parse_key(entry_id) is None for entry_id in entries):
        yield f"{strange} ids are not of the published form; each is its own query cluster"
    if outside:
        yield f"{outside} marks list no paragraph, or one that the text does not have"
    if odd:
        yield f"{odd} marks have a criticality other than {', '.join(CRITICALITIES)}"


def _sample(
    entry_id: str,
    entry: Entry,
    settings: Settings,
    known: Mapping[str, str],
    shown: Sequence[tuple[str, Response]],
) -> Sample:
    key = parse_key(entry_id)
    response = response_of(entry_id, entry)
    return Sample(
        id=entry_id,
        input=render(
            entry_id,
            entry.country,
            entry.query_text,
            response,
            protocol=settings.protocol,
            definitions=known,
            worked=shown,
        ),
        target=f"{len(response.groups)} error groups",
        metadata={
            "cluster_id": key.cluster if key else entry_id,
            "factors": {
                "pair": entry.pair,
                "country": entry.country,
                "language": entry.language,
                "task_type": key.task if key else "unknown",
                "response_model": response.model,
            },
            "scoring": settings.model_dump(mode="json"),
            "response": response.model_dump(mode="json"),
        },
    )


def _expanded(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            inside = sorted(path.glob("*.json"))
            if not inside:
                fault = Fault(str(path), None, "", "holds no JSON file; name a folder with a set")
                raise DataFileError([fault], unreadable=True)
            yield from inside
        else:
            yield path


def _checked(path: Path) -> tuple[list[str], list[Fault]]:
    if path.name.endswith(CARD_ENDING):
        _front_matter(path)
        return ["card"], []
    if path.suffix in (".yaml", ".yml"):
        document = read_yaml(path)[0]
        taxonomy = validated(Taxonomy, document.data, file=str(path), line_of=document.line)
        return [f"{len(taxonomy.labels)} labels"], []
    if path.suffix == ".jsonl":
        return _checked_sources(path)
    card = _card(path)
    loaded = _from_file(path, str(path), allow_unchecked=False)
    lines, unlocatable = _about(loaded)
    return lines, [
        Fault(str(path), None, group, "no mark is in the text; copy the span from the response")
        for group in unlocatable
        if card is not None
    ]


def _checked_sources(path: Path) -> tuple[list[str], list[Fault]]:
    (first, header), *rows = read_jsonl(path)
    validated(SourcesHeader, header, file=str(path), line_of=lambda _: first)
    faults = []
    for line, row in rows:
        try:
            validated(Source, row, file=str(path), line_of=lambda _, line=line: line)  # type: ignore[misc]
        except DataFileError as error:
            faults += error.faults
    return [f"{len(rows)} sources"], faults


def _about(loaded: JuiceSet) -> tuple[list[str], list[str]]:
    """Lines about a set, and the groups of which no mark is in the text."""
    entries = loaded.entries
    levels: Counter[str] = Counter()
    unlocatable: list[str] = []
    moved = 0
    for entry_id, entry in entries.items():
        for group in Gold(response_of(entry_id, entry), Settings()).groups:
            levels.update(place.level for mark in group.marks for place in mark.locations)
            moved += any(mark.moved for mark in group.marks)
            if not group.spans:
                unlocatable.append(group.id)
    groups = sum(len(entry.error_groups) for entry in entries.values())
    marks = sum(1 for entry in entries.values() for _ in entry.marks)
    by_pair = Counter(entry.pair for entry in entries.values())
    lines = [
        f"{len(entries)} responses, {groups} groups, {marks} marks ({loaded.status})",
        "responses by pair: " + " · ".join(f"{pair} {n}" for pair, n in by_pair.items()),
        "gold located: " + " · ".join(f"{level} {n}" for level, n in levels.items()),
        f"groups moved: {moved}; not located: {len(unlocatable)}",
        *loaded.warnings,
    ]
    if loaded.status == "synthetic":
        lines.append(SYNTHETIC_NOTICE)
    return lines, unlocatable


def _card(path: Path) -> SetCard | None:
    """The card beside a data file, if there is one."""
    card = path.with_name(path.name + CARD_ENDING)
    return _front_matter(card) if card.is_file() else None


def _front_matter(path: Path) -> SetCard:
    match = re.match(r"---\n(.*?\n)---\n", read_text(path), re.DOTALL)
    if match is None:
        raise _fault(str(path), "has no front matter between two lines of ---")
    try:
        data = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        raise _fault(str(path), f"the front matter is not YAML: {error}") from error
    return validated(SetCard, data, file=str(path))


def _fault(file: str, message: str, where: str = "") -> DataFileError:
    return DataFileError([Fault(file, None, where, message)])


def _new_set(name: str) -> dict[str, str]:
    """A set with one response and one planted error, to be edited.

    Raises:
        ValueError: the name does not make a file name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise ValueError(f"{name!r} is no file name; use letters, digits, - and _")
    entry_id = f"us_howto-{name.replace('_', '-')}-1_english_my-model"
    raw = {
        "error_span": "the third Thursday of November",
        "error_explanation": "Thanksgiving is on the fourth Thursday of November.",
        "error_type": "Cultural Error",
        "validation_type": "valid",
        "validation_comment": None,
        "error_correction": "the fourth Thursday of November",
        "error_criticality": "High",
    }
    error = {
        "paragraph_idx_list": [0],
        "detector_id": "ME-1",
        "detector_type": "synthetic",
        "span": raw["error_span"],
        "explanation": raw["error_explanation"],
        "thick_category": "Cultural Inaccuracy",
        "raw_annotation": json.dumps(raw, ensure_ascii=False),
    }
    group = {
        "errors": {f"{entry_id}_01_1": error},
        "paragraph_idx_list": [0],
        "thick_categories": ["Cultural Inaccuracy"],
    }
    entry = {
        "country": "us",
        "language_type": "english",
        "language": "en",
        "query_text": "When is Thanksgiving, and what should I bring?",
        "response_text": "Thanksgiving is on the third Thursday of November.\n\nBring a pie.",
        "error_groups": {f"{entry_id}_01": group},
    }
    card = f"""---
kind: juice-set
schema_version: 1
canary: propensity-canary {uuid4()}
version: 0.1.0
provenance: {name}
synthetic: true
---

# {name}.json

{SYNTHETIC_NOTICE}

Remove `synthetic` above when people marked the errors, and set each `detector_type` to human.
"""
    path = f"{name}/{name}.json"
    return {
        path: json.dumps({entry_id: entry}, ensure_ascii=False, indent=1) + "\n",
        path + CARD_ENDING: card,
    }
