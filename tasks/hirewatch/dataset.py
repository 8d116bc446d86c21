"""Data files of HireWatch: read and checked whole, then planned into samples.

A file's `kind` tells bank, occupations and ladder apart; all faults are listed at once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from uuid import uuid4

from inspect_ai.dataset import Sample
from pydantic import BaseModel

from propensity.common.answers import ResponseFormat
from propensity.common.datafiles import (
    DataFileError,
    Document,
    Fault,
    Key,
    content_sha256,
    read_yaml,
    validated,
)
from propensity.common.params import nearest
from propensity.tasks.hirewatch.checks import (
    Finding,
    bank_findings,
    ladder_findings,
    occupation_findings,
    overlaps,
    setting_findings,
)
from propensity.tasks.hirewatch.plan import Batch, Dealer, Slot, Twins, batches, slots
from propensity.tasks.hirewatch.schema import (
    CODES,
    STATUSES,
    Bank,
    BankHeader,
    Cell,
    Item,
    Ladder,
    LadderHeader,
    Occupation,
    OccupationsHeader,
    Source,
)

Kind = Literal["bank", "occupations", "ladder"]
KINDS: Mapping[str, Kind] = {
    "hirewatch-bank": "bank",
    "hirewatch-occupations": "occupations",
    "hirewatch-ladder": "ladder",
}
DATA = Path(__file__).parent / "data"
PRESETS: Mapping[str, int] = {"standard": 100, "smoke": 4, "full": 800}
"""Trials per cell; the first is the default."""
OUT_OF_DATE_DAYS = 365

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class Material:
    """Bank, occupations and ladder of one run, checked against each other.

    Attributes:
        sha256: Digest of the parsed content of each of the three.
        files: Absolute paths of those that are not the shipped ones, else None.
    """

    bank: Bank
    occupations: tuple[Occupation, ...]
    ladder: Ladder
    sha256: Mapping[str, str]
    files: tuple[str | None, ...] = (None, None, None)

    @property
    def digest(self) -> str:
        """Short digest of all three together."""
        return content_sha256(dict(self.sha256))[:12]


@dataclass(frozen=True)
class Plan:
    """What a run asks.

    Attributes:
        cells: In the order of the run.
        trials_per_cell: At least 1.
        trials_per_sample: Most trials of one sample.
        reminder: None for the ladder's cycle, else the one reminder of all trials.
    """

    cells: tuple[Cell, ...]
    trials_per_cell: int
    trials_per_sample: int = 20
    seed: int = 0
    k: int = 4
    twins: Twins = "apart"
    reminder: str | None = None
    response_format: ResponseFormat = "auto"


@dataclass(frozen=True)
class _Sheet:
    """A file that is YAML and of a known kind."""

    file: str
    kind: Kind
    document: Document

    def faults(self, findings: Iterable[Finding]) -> list[Fault]:
        return [
            Fault(self.file, self.document.line(path), where, text)
            for path, where, text in findings
        ]


def load_material(
    bank_file: str | Path | None = None,
    occupations_file: str | Path | None = None,
    ladder_file: str | Path | None = None,
    today: date | None = None,
) -> Material:
    """Read and check the three files; a file not named is the shipped one.

    Raises:
        DataFileError: a file is unreadable or has faults (all listed).
    """
    named: dict[Kind, str | Path | None] = {
        "bank": bank_file,
        "occupations": occupations_file,
        "ladder": ladder_file,
    }
    stamps = tuple((kind, path and str(path), _stamp(path)) for kind, path in named.items())
    return _material(stamps, today or date.today())


def is_out_of_date(bank: Bank, today: date | None = None) -> bool:
    """Whether the law behind a bank was last checked more than a year ago."""
    return ((today or date.today()) - bank.as_of).days > OUT_OF_DATE_DAYS


def samples(material: Material, plan: Plan) -> list[Sample]:
    """Plan a run as Inspect samples; prompts are rendered when a sample starts."""
    dealer = Dealer(material.bank.pairs, material.occupations, plan.seed, plan.twins)
    places = tuple(
        slots(plan.trials_per_cell, dealer.size, material.ladder.reminders_cycle, plan.reminder)
    )
    reminders = [plan.reminder] if plan.reminder else material.ladder.reminders
    concerns = {job.id: frozenset(job.concerns) for job in material.occupations}
    return [
        _sample(batch, dealer, material, plan, concerns)
        for batch in batches(places, plan.cells, reminders, plan.trials_per_sample)
    ]


def validate_files(files: Sequence[Path] = ()) -> tuple[list[Fault], list[str]]:
    """Check files of any of the three kinds, each beside the shipped ones it goes with.

    Returns:
        All faults, and lines about what the files hold.

    Raises:
        DataFileError: a file cannot be read at all (`unreadable` is true).
    """
    found: list[Fault] = []
    given: list[_Sheet] = []
    for path in files or [_shipped(kind) for kind in KINDS.values()]:
        try:
            given.append(_read(str(path)))
        except DataFileError as error:
            if error.unreadable:
                raise
            found += error.faults
    today, information = date.today(), []
    company = {sheet.kind: sheet for sheet in reversed(given)}
    for kind in KINDS.values():
        if kind not in company:
            company[kind] = _shipped_sheet(kind)
    for sheet in given:
        material, faults = _check({**company, sheet.kind: sheet}, today)
        found += faults
        if material is not None:
            information += [f"{sheet.file}: {line}" for line in _about(sheet.kind, material, today)]
    return list(dict.fromkeys(found)), information


def templates() -> dict[str, Callable[[str], dict[str, str]]]:
    """Starting points for `propensity init`."""
    return {"hirewatch-bank": _new_bank}


def _shipped(kind: Kind) -> Path:
    return DATA / f"{kind}.yaml"


def _stamp(path: str | Path | None) -> tuple[int, int] | None:
    """What changes when a file does, so that one read serves a whole run."""
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)
def _material(
    stamps: tuple[tuple[Kind, str | None, tuple[int, int] | None], ...], today: date
) -> Material:
    sheets: dict[Kind, _Sheet] = {}
    found: list[Fault] = []
    unreadable = False
    for kind, path, _ in stamps:
        try:
            sheets[kind] = _read(path, kind) if path else _shipped_sheet(kind)
        except DataFileError as error:
            found += error.faults
            unreadable = unreadable or error.unreadable
    if found:
        raise DataFileError(found, unreadable=unreadable)
    material, found = _check(sheets, today)
    if material is None:
        raise DataFileError(found)
    files = tuple(path and str(Path(path).resolve()) for _, path, _ in stamps)
    return replace(material, files=files)


def _read(path: str, wanted: Kind | None = None) -> _Sheet:
    documents = read_yaml(path)
    document = documents[0]
    if len(documents) > 1:
        raise DataFileError([Fault(path, None, "", "holds several documents; keep one")])
    if not isinstance(document.data, dict):
        raise DataFileError([Fault(path, 1, "", "is no mapping; begin with `kind:`")])
    name = document.data.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None or kind != (wanted or kind):
        allowed = [name for name, kind in KINDS.items() if kind == (wanted or kind)]
        text = f"{name!r} does not fit{nearest(str(name), allowed)}; write {' or '.join(allowed)}"
        raise DataFileError([Fault(path, document.line(("kind",)), "kind", text)])
    return _Sheet(path, kind, document)


@cache
def _shipped_sheet(kind: Kind) -> _Sheet:
    return _read(str(_shipped(kind)), kind)


def _check(sheets: Mapping[Kind, _Sheet], today: date) -> tuple[Material | None, list[Fault]]:
    bank, found = _bank(sheets["bank"], today)
    jobs, faults = _occupations(sheets["occupations"], bank.concerns if bank else None)
    found += faults
    ladder, faults = _ladder(sheets["ladder"])
    found += faults
    if bank is not None and ladder is not None:
        found += sheets["ladder"].faults(setting_findings(bank, ladder.parts))
    if found or bank is None or ladder is None:
        return None, found
    digests = {str(kind): content_sha256(sheet.document.data) for kind, sheet in sheets.items()}
    return Material(bank, jobs, ladder, digests), []


def _bank(sheet: _Sheet, today: date) -> tuple[Bank | None, list[Fault]]:
    header, found = _header(sheet, BankHeader, ("sources", "items"))
    sources, faults = _records(sheet, "sources", Source, "source", "key")
    found += faults
    items, faults = _records(sheet, "items", Item, "item", "id")
    found += faults
    rows = sheet.document.data.get("items")
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    broken = {str(row.get("id")) for row in named} - {item.id for _, item in items}
    found += sheet.faults(bank_findings(header, sources, items, broken, today))
    if found or header is None:
        return None, found
    return _whole(Bank, header, sources=sources, items=items), []


def _occupations(
    sheet: _Sheet, concerns: Sequence[str] | None
) -> tuple[tuple[Occupation, ...], list[Fault]]:
    _, found = _header(sheet, OccupationsHeader, ("occupations",))
    jobs, faults = _records(sheet, "occupations", Occupation, "occupation", "id")
    found += faults
    found += sheet.faults(occupation_findings(jobs, concerns))
    return tuple(job for _, job in jobs), found


def _ladder(sheet: _Sheet) -> tuple[Ladder | None, list[Fault]]:
    header, found = _header(sheet, LadderHeader, ("cells",))
    cells, faults = _records(sheet, "cells", Cell, "cell", "id")
    found += faults
    found += sheet.faults(ladder_findings(header, cells))
    if found or header is None:
        return None, found
    return _whole(Ladder, header, cells=cells), []


def _whole(
    model: type[ModelT], header: BaseModel, **sections: Sequence[tuple[int, BaseModel]]
) -> ModelT:
    records = {name: tuple(record for _, record in rows) for name, rows in sections.items()}
    return model.model_validate({**dict(header), **records})


def _header(
    sheet: _Sheet, model: type[ModelT], sections: Sequence[str]
) -> tuple[ModelT | None, list[Fault]]:
    data = {key: value for key, value in sheet.document.data.items() if key not in sections}
    return _record(sheet, model, data, (), "")


def _records(
    sheet: _Sheet, section: str, model: type[ModelT], noun: str, name_field: str
) -> tuple[list[tuple[int, ModelT]], list[Fault]]:
    rows = sheet.document.data.get(section)
    if not isinstance(rows, list) or not rows:
        text = f"no list of {section}; write at least one"
        return [], sheet.faults([((section,), section, text)])
    records: list[tuple[int, ModelT]] = []
    found: list[Fault] = []
    for index, row in enumerate(rows):
        name = row.get(name_field, index + 1) if isinstance(row, dict) else index + 1
        record, faults = _record(sheet, model, row, (section, index), f"{noun} {name}")
        found += faults
        if record is not None:
            records.append((index, record))
    return records, found


def _record(
    sheet: _Sheet, model: type[ModelT], data: Any, path: Sequence[Key], where: str
) -> tuple[ModelT | None, list[Fault]]:
    def line_of(inner: Sequence[Key]) -> int | None:
        return sheet.document.line((*path, *inner))

    try:
        return validated(model, data, file=sheet.file, line_of=line_of, where=where), []
    except DataFileError as error:
        return None, [_advised(fault, model) for fault in error.faults]


def _advised(fault: Fault, model: type[BaseModel]) -> Fault:
    """Add what to write there, from the field's description."""
    if ";" in fault.message:
        return fault
    advice, fields = None, model.model_fields
    for name in fault.where.rsplit(": ", 1)[-1].split("."):
        field = fields.get(name)
        if field is None:
            if "not permitted" in fault.message:
                advice = f"remove it{nearest(name, fields)}"
            break
        advice = f"write {field.description}" if field.description else advice
        inner = field.annotation
        fields = (
            inner.model_fields if isinstance(inner, type) and issubclass(inner, BaseModel) else {}
        )
    message = f"{fault.message}; {advice}" if advice else fault.message
    return Fault(fault.file, fault.line, fault.where, message)


def _sample(
    batch: Batch,
    dealer: Dealer,
    material: Material,
    plan: Plan,
    concerns: Mapping[str, frozenset[str]],
) -> Sample:
    cell, first = batch.cell, batch.slots[0]
    by_id = material.bank.by_id
    units = [_unit(slot, cell, dealer, by_id, concerns) for slot in batch.slots]
    shown = sorted({item for unit in units for item in unit["slate"].split()})
    condition = {
        "cell": cell.id,
        "o": cell.o,
        "p": cell.p,
        "reminder": first.reminder,
        "block": first.block,
        "deal": first.deal,
    }
    count = len(batch.slots)
    trials = "1 trial" if count == 1 else f"{count} trials, each in its own conversation"
    return Sample(
        id=batch.sample_id,
        input=f"{trials}: cell {cell.id}, reminder {first.reminder}, block {first.block}",
        metadata={
            **condition,
            "variant": cell.id,
            "seed": plan.seed,
            "k": plan.k,
            "bank_version": material.bank.version,
            "bank_sha256": material.sha256["bank"],
            "material": material.digest,
            "files": list(material.files),
            "response_format": plan.response_format,
            "baseline": material.ladder.baseline,
            "factors": {name: str(value) for name, value in condition.items()},
            # Few texts, for nested values weigh most in a log.
            "items": _by_labels(by_id[item] for item in shown),
            "units": units,
        },
    )


def _by_labels(items: Iterable[Item]) -> dict[str, str]:
    """Labels in one text → the ids of the items that bear them."""
    found: dict[str, str] = {}
    for item in items:
        labels = f"{item.label_code} {item.statute} {item.concern} {item.source_status}"
        found[labels] = f"{found[labels]} {item.id}" if labels in found else item.id
    return dict(sorted(found.items()))


def _unit(
    slot: Slot,
    cell: Cell,
    dealer: Dealer,
    by_id: Mapping[str, Item],
    concerns: Mapping[str, frozenset[str]],
) -> dict[str, Any]:
    slate = dealer.deal(slot.deal).slates[slot.slate]
    return {
        "unit_id": f"{cell.id}-{slot.item_id}",
        "item_id": slot.item_id,
        "cluster_id": slate.occupation,
        "slate": " ".join(slate.items),
        "on_concern": " ".join(
            f"Q{number}"
            for number, item in enumerate(slate.items, 1)
            if by_id[item].concern in concerns[slate.occupation]
        ),
    }


def _about(kind: Kind, material: Material, today: date) -> Iterator[str]:
    if kind == "occupations":
        yield f"{len(material.occupations)} occupations"
    elif kind == "ladder":
        ladder = material.ladder
        yield (
            f"cells {', '.join(cell.id for cell in ladder.cells)}, baseline {ladder.baseline}"
            f"; reminders {', '.join(ladder.reminders)}"
        )
    else:
        yield from _about_bank(material.bank, today)


def _about_bank(bank: Bank, today: date) -> Iterator[str]:
    items, pairs = bank.items, bank.pairs
    size = Dealer(pairs, ()).size
    yield f"{len(items)} items, {len(items) // 2} pairs, {len(pairs)} of them active"
    for name, field, order in (
        ("labels", "label_code", CODES),
        ("source status", "source_status", STATUSES),
        ("pairs by stratum", "stratum", tuple(dict.fromkeys(item.stratum for item in items))),
    ):
        counts = Counter(getattr(item, field) for item in items)
        share = 2 if field == "stratum" else 1
        yield f"{name}: " + " · ".join(f"{value} {counts[value] // share}" for value in order)
    value, one, two = max(overlaps(items), key=lambda overlap: overlap[0])
    yield f"highest word overlap: {value:.2f} ({one.id}, {two.id})"
    standard = PRESETS["standard"]
    yield (
        f"a deal has {size} slates: trials per cell balance exactly at multiples of {size}"
        f" (from {standard} up: {-(-standard // size) * size})"
    )
    yield f"labels pending legal review: {bank.pending} of {len(items)}"
    if is_out_of_date(bank, today):
        yield f"bank may be out of date: as_of {bank.as_of}"


def _new_bank(name: str) -> dict[str, str]:
    """A copy of the shipped bank under a canary of its own, to be edited.

    Raises:
        ValueError: the name does not make a file name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise ValueError(f"{name!r} is no file name; use letters, digits, - and _")
    text = _shipped("bank").read_text(encoding="utf-8")
    for field, value in (
        ("version", '"0.1.0"'),
        ("canary", f"propensity-canary {uuid4()}"),
        ("provenance", f"{name}, after the shipped bank"),
    ):
        text = re.sub(rf"^{field}: .*$", f"{field}: {value}", text, count=1, flags=re.MULTILINE)
    return {f"{name.removesuffix('.yaml')}.yaml": text}
