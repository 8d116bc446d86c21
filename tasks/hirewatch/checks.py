"""What holds between records: invariants of a bank, of occupations and of a ladder (3.3, 12).

Every check reports all that it finds, with the line, what is wrong and what to do.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import combinations

from propensity.common.datafiles import Key
from propensity.common.params import nearest
from propensity.tasks.hirewatch.plan import ROW
from propensity.tasks.hirewatch.prompts import (
    FIELDS,
    NO_REMINDER,
    PART_FIELDS,
    fields_of,
    needed_parts,
    without_fields,
)
from propensity.tasks.hirewatch.schema import (
    DEFAULT_EMPLOYER,
    LAW_AREAS,
    STATUSES,
    STATUTES,
    U4_EMPLOYERS,
    Bank,
    BankHeader,
    Cell,
    Item,
    LadderHeader,
    Occupation,
    Source,
)

MIN_PAIRS = 30
NEAR_DUPLICATE = 0.70

Finding = tuple[Sequence[Key], str, str]
"""Path in the document, what is shown before the message, the message."""


def bank_findings(
    header: BankHeader | None,
    sources: Sequence[tuple[int, Source]],
    items: Sequence[tuple[int, Item]],
    broken: Collection[str],
    today: date,
) -> Iterator[Finding]:
    """Check what a bank's records say about each other.

    Args:
        header: The front matter, or None if it has faults of its own.
        sources: Index in the file and record, for those that are well formed.
        items: Same for the items.
        broken: Names of the items that are not, so that they are not reported as missing.
        today: `as_of` must not be later.
    """
    if header is not None:
        if header.as_of > today:
            yield ("as_of",), "as_of", f"{header.as_of} is in the future; give a past date"
        yield from _repeated("concerns", "concern", enumerate(header.concerns))
    yield from _repeated("sources", "source", ((i, source.key) for i, source in sources))
    yield from _repeated("items", "item", ((i, item.id) for i, item in items))
    by_key = {source.key: source for _, source in sources}
    for index, item in items:
        for field, text in _item_findings(item, header, by_key):
            yield ("items", index, field), f"item {item.id}: {field}", text
    yield from _twin_findings(items, broken)
    yield from _text_findings(items)
    if not broken:
        yield from _size_findings([item for _, item in items])


def occupation_findings(
    occupations: Sequence[tuple[int, Occupation]], concerns: Sequence[str] | None
) -> Iterator[Finding]:
    """Check occupations among each other and, where given, against a bank's concerns."""
    yield from _repeated("occupations", "occupation", ((i, job.id) for i, job in occupations))
    if not 2 <= len(occupations) <= 200:
        text = f"{len(occupations)} valid occupations; give 2 to 200"
        yield ("occupations",), "occupations", text
    for index, job in occupations:
        for concern in job.concerns:
            if concerns is not None and concern not in concerns:
                path = ("occupations", index, "concerns")
                yield path, f"occupation {job.id}: concerns", _no_concern(concern, concerns)


def ladder_findings(
    header: LadderHeader | None, cells: Sequence[tuple[int, Cell]]
) -> Iterator[Finding]:
    """Check cells, reminders and prompt parts of a ladder against each other."""
    yield from _repeated("cells", "cell", ((i, cell.id) for i, cell in cells))
    if header is None:
        return
    ids = [cell.id for _, cell in cells]
    if header.baseline not in ids:
        text = f"{header.baseline!r} is no cell; add it or use one of {', '.join(ids)}"
        yield ("baseline",), "baseline", text
    if NO_REMINDER not in header.reminders_cycle:
        text = f"{NO_REMINDER!r} is missing: the headline is over trials without a reminder; add it"
        yield ("reminders_cycle",), "reminders_cycle", text
    for index, name in enumerate(header.reminders_cycle):
        if name in ("all", "cycle") or name in PART_FIELDS or re.fullmatch(r"[op]\d", name):
            text = f"{name!r} is taken; choose another name for the reminder"
            yield ("reminders_cycle", index), "reminders_cycle", text
    for name in needed_parts([cell for _, cell in cells], header.reminders_cycle):
        if name not in header.parts:
            yield ("parts",), "parts", f"part {name!r} is missing; add it"
    for name, text in header.parts.items():
        for problem in _part_problems(name, text):
            yield ("parts", name), f"parts: {name}", problem


def setting_findings(bank: Bank, parts: Mapping[str, str]) -> Iterator[Finding]:
    """Check that a ladder states the employer that a bank's labels assume (3.2)."""
    employer = bank.facts.employer_type
    if employer != DEFAULT_EMPLOYER and f"setting_{employer}" not in parts:
        text = f"the bank's employer is {employer}; add a part 'setting_{employer}' that says so"
        yield ("parts",), "parts", text


def words(text: str) -> frozenset[str]:
    """Word set of a text, for overlaps."""
    return frozenset(re.findall(r"[a-z0-9']+", text.lower()))


def overlaps(items: Sequence[Item]) -> Iterator[tuple[float, Item, Item]]:
    """Jaccard overlap of the word sets of every two active items."""
    bags = [(item, words(item.text)) for item in items if item.active]
    for (first, left), (second, right) in combinations(bags, 2):
        shared = len(left & right)
        yield shared / (len(left) + len(right) - shared), first, second


def _repeated(section: str, noun: str, entries: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, name in entries:
        if name in seen:
            yield (section, index), f"{noun} {name}", f"{noun} {name} stands twice; rename one"
        seen.add(name)


def _no_concern(name: str, concerns: Sequence[str]) -> str:
    return (
        f"{name!r} is no concern of the bank{nearest(name, concerns)}"
        f"; use one of {', '.join(concerns)}"
    )


def _item_findings(
    item: Item, header: BankHeader | None, sources: Mapping[str, Source]
) -> Iterator[tuple[str, str]]:
    side, digits = item.id[-4], item.id[-3:]
    if item.pair != digits:
        yield "pair", f"{item.pair!r} does not match the id; write {digits!r}"
    if item.is_lawful != (side == "L"):
        kind = "L or LX" if side == "L" else "U1, U2, U3 or U4"
        yield (
            "label_code",
            f"{item.label_code} under an id with {side}; use {kind} or rename the item",
        )
    if side == "L" and item.lawful_twin is not None:
        yield "lawful_twin", "an L item has no twin of its own; write null"

    letter = item.source_keys[0][0]
    for field, actual, derived in (
        ("statute", item.statute, STATUTES[letter]),
        ("law_area", item.law_area, LAW_AREAS.get(letter, "discrimination")),
    ):
        if actual != derived:
            yield field, f"{actual!r} is not that of source {item.source_keys[0]}; write {derived}"

    for key in item.source_keys:
        if key not in sources:
            yield "source_keys", f"{key!r} is no source of the bank; add it or use another"
    known = [sources[key].source_status for key in item.source_keys if key in sources]
    weakest = max(known, key=STATUSES.index, default=item.source_status)
    if STATUSES.index(item.source_status) < STATUSES.index(weakest):
        text = f"{item.source_status!r} is stronger than its weakest source; write {weakest}"
        yield "source_status", text

    if header is not None:
        if item.concern not in header.concerns:
            yield "concern", _no_concern(item.concern, header.concerns)
        if item.label_code == "U4":
            yield from _u4_findings(item, header.facts.employer_type)


def _u4_findings(item: Item, employer: str) -> Iterator[tuple[str, str]]:
    bound = U4_EMPLOYERS.get(item.source_keys[0])
    if bound is None:
        keys = " or ".join(U4_EMPLOYERS)
        yield "source_keys", f"a U4 item rests on source {keys}; put the rule's key first"
    fitting = bound or tuple(kind for kinds in U4_EMPLOYERS.values() for kind in kinds)
    if employer not in fitting:
        yield (
            "label_code",
            f"U4 needs employer_type {' or '.join(fitting)}, the bank's facts say {employer}"
            "; change the facts or leave the item out",
        )


def _twin_findings(items: Sequence[tuple[int, Item]], broken: Collection[str]) -> Iterator[Finding]:
    by_id = {item.id: item for _, item in items}
    claimed: defaultdict[str, list[str]] = defaultdict(list)
    for index, item in items:
        if item.id[-4] == "L":
            continue
        path, where = ("items", index, "lawful_twin"), f"item {item.id}: lawful_twin"
        twin = by_id.get(item.lawful_twin or "")
        if item.lawful_twin is None:
            yield path, where, f"pair {item.pair} has no lawful twin; give the id of the L item"
        elif twin is None:
            if item.lawful_twin not in broken:
                yield path, where, f"pair {item.pair}: there is no {item.lawful_twin!r}; add it"
        elif not twin.is_lawful:
            text = f"pair {item.pair}: twin {twin.id} is {twin.label_code}; name an L or LX item"
            yield path, where, text
        else:
            claimed[twin.id].append(item.id)
            for field in ("pair", "concern", "stratum", "active"):
                mine, other = getattr(item, field), getattr(twin, field)
                if mine != other:
                    text = f"{mine!r} here, {other!r} in twin {twin.id}; make them equal"
                    where = f"item {item.id}: {field}"
                    yield ("items", index, field), where, f"pair {item.pair}: {text}"
    for index, item in items:
        owners = claimed.get(item.id, [])
        where = f"item {item.id}: id"
        partner = f"{item.id[:-4]}U{item.id[-3:]}"
        if item.id[-4] == "L" and not owners and partner not in broken:
            text = f"pair {item.pair}: no U item names it as its twin; add the U item"
            yield ("items", index, "id"), where, text
        if len(owners) > 1:
            text = f"pair {item.pair}: twin of {' and '.join(owners)}; give each its own L item"
            yield ("items", index, "id"), where, text


def _text_findings(items: Sequence[tuple[int, Item]]) -> Iterator[Finding]:
    index_of = {item.id: index for index, item in items}
    first: dict[str, Item] = {}
    equal: set[tuple[str, str]] = set()
    for index, item in items:
        earlier = first.setdefault(_normal(item.text), item)
        if earlier is not item:
            equal.add((earlier.id, item.id))
            text = f"same text as {earlier.id}; reword one"
            yield ("items", index, "text"), f"item {item.id}: text", text
    for value, one, two in overlaps([item for _, item in items]):
        if value >= NEAR_DUPLICATE and (one.id, two.id) not in equal:
            yield (
                ("items", index_of[two.id], "text"),
                f"item {two.id}: text",
                f"shares {value:.2f} of its words with {one.id} (limit {NEAR_DUPLICATE:.2f})"
                "; reword one",
            )


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\W_]+", " ", folded).strip()


def _size_findings(items: Sequence[Item]) -> Iterator[Finding]:
    pairs = sum(item.active and item.id[-4] == "U" for item in items)
    surplus = pairs % ROW
    if pairs < MIN_PAIRS:
        advice = f"add {MIN_PAIRS - pairs} pairs"
    elif surplus:
        advice = f"add {ROW - surplus} pairs or deactivate {surplus}"
    else:
        return
    text = f"m = {pairs} active pairs, needed are at least {MIN_PAIRS} and a multiple of {ROW}"
    yield ("items",), "items", f"{text}; {advice}"


def _part_problems(name: str, text: str) -> Iterator[str]:
    found = Counter(fields_of(text))
    for field in found:
        if field not in FIELDS:
            advice = nearest(field, FIELDS) or f"; use one of {', '.join(FIELDS)}"
            yield f"unknown field {{{field}}}{advice}"
    for field in PART_FIELDS.get(name, ()):
        if field not in found:
            yield f"field {{{field}}} is missing; the answer cannot be read without it"
    for field in ("questions", "slots"):
        if field in found and field not in PART_FIELDS.get(name, ()):
            yield f"field {{{field}}} does not belong here; leave it out"
    if re.search(r"[{}]", without_fields(text)):
        yield "a brace that belongs to no {field}; remove it"
    if re.search(r"^Q\d+\.", text, re.MULTILINE):
        yield "a line begins like a question of the slate (Q1. …); reword it"
