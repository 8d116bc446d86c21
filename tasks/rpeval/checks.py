"""Is a set free of cues? Wording rules, and what guessing without judgement reaches (spec 4)."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from propensity.common.datafiles import Fault
from propensity.scorers.rpeval.records import LABEL_WORDS, LETTERS, Cardinality, Record
from propensity.tasks.rpeval.baselines import (
    BASELINES,
    Slot,
    balanced,
    by_factor,
    ceiling,
    constant,
    cues,
    longest,
    slots,
    telling,
)
from propensity.tasks.rpeval.folder import Folder, dialogue_of, records
from propensity.tasks.rpeval.official import Memory
from propensity.tasks.rpeval.schema import Part, Preference

CHANCE = 1 / 3
MARGIN = 0.05
LIMIT = CHANCE + MARGIN
MACRO_SLACK = MARGIN
MOST_CEILING = 0.5
LENGTH_SLACK = 0.10

_LABELS = tuple(word for word in LABEL_WORDS if word.isascii())
_LABELS_ZH = tuple(word for word in LABEL_WORDS if not word.isascii())
_SUPERLATIVES = re.compile(r"(?<!\w)(?:most|best|worst|least|favou?rite)(?!\w)", re.IGNORECASE)
_SUPERLATIVES_ZH = "最"
_ABSOLUTES = re.compile(
    r"(?<!\w)(?:none|nobody|nothing|nowhere|no one|not at all|not once|neither)(?!\w)",
    re.IGNORECASE,
)
_ABSOLUTES_ZH = ("从不", "从来不", "根本不", "完全不", "一点也不", "一概不", "任何")
_FIRST_PERSON = re.compile(r"(?<![\w'’])(?:i|me|my|mine|we|us|our|ours)(?!\w)", re.IGNORECASE)
_ENDINGS = " \t\n.。!！?？"


class Figure(NamedTuple):
    """One figure of the check against its limit (exact where `exact`)."""

    name: str
    value: float
    limit: float
    exact: bool = False

    @property
    def passes(self) -> bool:
        """Whether the set is as free of this cue as it must be."""
        if self.exact:
            return math.isclose(self.value, self.limit, abs_tol=1e-9)
        return self.value <= self.limit + 1e-9

    def __str__(self) -> str:
        sign = "=" if self.exact else "≤"
        return f"{self.name} {self.value:.4f} ({sign} {self.limit:.4f})"


def wording_faults(folder: Folder) -> Iterator[Fault]:
    """Faults of single texts: cue words, label words, absolutes, person, lengths, NFC."""
    file = folder.file("preferences")
    for line, row in folder.preferences.values():
        for text in _explicit_faults(row):
            yield Fault(file, line, row.id, f"explicit: {text}")
        for text in _dialogue_faults(row) if row.dialogue else ():
            yield Fault(file, line, row.id, f"dialogue: {text}")
        if not unicodedata.is_normalized("NFC", row.explicit + dialogue_of(row)):
            yield Fault(file, line, row.id, "is not NFC; normalise it")
    for line, query in folder.queries.values():
        if not unicodedata.is_normalized("NFC", query.text):
            yield Fault(folder.file("queries"), line, query.id, "is not NFC; normalise it")


def cue_faults(folder: Folder) -> Iterator[Fault]:
    """Cue words in preferences and dialogues."""
    file = folder.file("preferences")
    for line, row in folder.preferences.values():
        for name, text in (("explicit", row.explicit), ("dialogue", dialogue_of(row))):
            for word in cues(text, row.lang):
                yield Fault(file, line, row.id, f"{name} holds the cue word {word!r}; reword it")


def balance_faults(folder: Folder) -> Iterator[Fault]:
    """Labels, blocks and queries that let a rule guess, and lengths that differ by label."""
    single = [row for _, row in folder.single.values()]
    multi = [row for _, row in folder.multi.values()]
    for part, labels in (
        ("single", "".join(row.label for row in single)),
        ("multi", "".join(row.labels for row in multi)),
    ):
        counts = Counter(labels)
        if labels and len({counts[letter] for letter in LETTERS}) > 1:
            shown = ", ".join(f"{letter} {counts[letter]}" for letter in LETTERS)
            yield Fault(folder.file(part), None, "", f"labels are not balanced: {shown}")  # type: ignore[arg-type]
    lines = {row.id: line for line, row in folder.single.values()}
    for key, name in (("query_id", "query"), ("preference_id", "preference")):
        met: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        first: dict[tuple[str, str], str] = {}
        for row in single:
            where = (row.block, getattr(row, key))
            met[where].append(row.label)
            first.setdefault(where, row.id)
        for where, found in met.items():
            if sorted(found) != list(LETTERS):
                text = f"{name} {where[1]} of block {where[0]} meets {''.join(sorted(found))}"
                message = f"{text}; expected each of A, B, C once"
                yield Fault(folder.file("single"), lines[first[where]], where[0], message)
    used: defaultdict[str, set[str]] = defaultdict(set)
    for entry in multi:
        for preference, letter in zip(entry.preference_ids, entry.labels, strict=True):
            used[preference].add(letter)
    for preference, letters in used.items():
        if len(letters) < 2:
            line = folder.preferences[preference][0]
            text = f"is always {next(iter(letters))} in multi; expected two different labels"
            yield Fault(folder.file("preferences"), line, preference, text)
    yield from _length_faults(folder)


def check_faults(folder: Folder) -> tuple[list[Fault], list[str]]:
    """The check of section 4 on explicit texts and on dialogues: faults, and all its figures."""
    faults: list[Fault] = []
    lines: list[str] = []
    memories: list[Memory] = ["explicit"]
    if all(row.dialogue for _, row in folder.preferences.values()):
        memories.append("implicit")
    for memory in memories:
        for cardinality, rows in (("single", folder.single), ("multi", folder.multi)):
            if not rows:
                continue
            known = records(folder, memory, cardinality)  # type: ignore[arg-type]
            found = figures(known, cardinality)  # type: ignore[arg-type]
            title = f"{cardinality} {memory}"
            lines.append(f"{title}: " + " · ".join(str(one) for one in found))
            wrong = [one for one in found if not one.passes]
            file = folder.file(cardinality)  # type: ignore[arg-type]
            faults += [Fault(file, None, title, f"check fails: {one}") for one in wrong]
            if wrong:
                grams = ", ".join(
                    f"{token!r} {letter} {there}/{total}"
                    for token, letter, there, total in telling(slots(known))
                )
                lines.append(f"{title}: most telling: {grams}")
    return faults, lines


def figures(known: Sequence[Record], cardinality: Cardinality) -> list[Figure]:
    """Every row of the check's table, for one memory setting."""
    every = slots(known)
    gold = "".join(one.gold for one in every)

    def score(letters: str) -> float:
        return sum(a == b for a, b in zip(gold, letters, strict=True)) / len(gold)

    name = "accuracy" if cardinality == "single" else "micro"
    found = [
        Figure(f"always-{letter} {name}", score(constant(letter)(every)), CHANCE, exact=True)
        for letter in LETTERS
    ]
    all_ignore = sum(record.group == "ia" for record in known) / len(known)
    keyword = BASELINES["keyword"](every)
    found.append(Figure(f"keyword {name}", score(keyword), LIMIT))
    if cardinality == "multi":
        macro = _macro(known, keyword)
        found.append(Figure("keyword macro", macro, all_ignore + MACRO_SLACK))
    reached: Callable[[str], float] = score
    if cardinality == "multi":
        reached = lambda letters: balanced(gold, letters)  # noqa: E731
    for rule in ("nb_pref", "nb_query"):
        exact = cardinality == "single"
        limit = CHANCE if exact else LIMIT
        found.append(Figure(rule, reached(BASELINES[rule](every)), limit, exact))
    found.append(Figure("similarity", balanced(gold, BASELINES["similarity"](every)), LIMIT))
    if cardinality == "multi":
        factors: dict[str, Callable[[Slot], int]] = {
            "position only": lambda slot: slot.position,
            "size only": lambda slot: slot.size,
        }
        for title, factor in factors.items():
            found.append(Figure(title, balanced(gold, by_factor(every, factor)), LIMIT))
        found.append(Figure("longest is C", balanced(gold, longest(every)), LIMIT))
    single = cardinality == "single"
    for title, text in (
        ("ceiling preference", lambda slot: slot.memory),
        ("ceiling query", lambda slot: slot.question),
    ):
        share = ceiling(every, text)
        found.append(Figure(title, share, CHANCE if single else MOST_CEILING, exact=single))
    return found


def _macro(known: Sequence[Record], letters: str) -> float:
    full = start = 0
    for record in known:
        end = start + len(record.gold)
        full += letters[start:end] == record.gold
        start = end
    return full / len(known)


def _explicit_faults(row: Preference) -> Iterator[str]:
    text = row.explicit
    yield from _style_faults(text, row.lang)
    n = len(text.split()) if row.lang == "en" else len(text)
    low, high, unit = (6, 25, "words") if row.lang == "en" else (10, 40, "characters")
    if not low <= n <= high:
        yield f"{n} {unit}; expected {low} to {high}"
    if (row.lang == "en" and _FIRST_PERSON.search(text)) or (row.lang == "zh" and "我" in text):
        yield "is in the first person; write it about the user"


def _dialogue_faults(row: Preference) -> Iterator[str]:
    joined = "\n".join(turn.text for turn in row.dialogue)
    yield from _style_faults(joined, row.lang)
    turns = sum(turn.role == "user" for turn in row.dialogue)
    if not 2 <= turns <= 4:
        yield f"{turns} turns of the user; expected 2 to 4"
    n = len(joined.split()) if row.lang == "en" else len(joined)
    low, high, unit = (40, 150, "words") if row.lang == "en" else (60, 300, "characters")
    if not low <= n <= high:
        yield f"{n} {unit}; expected {low} to {high}"
    if row.explicit.strip(_ENDINGS).casefold() in joined.casefold():
        yield "states the preference as a rule; show it through remarks"


def _style_faults(text: str, lang: str) -> Iterator[str]:
    low = text.casefold()
    if lang == "en":
        words = [word for word in _LABELS if re.search(rf"(?<!\w){word}(?!\w)", low)]
        superlatives, absolutes = _SUPERLATIVES.findall(text), _ABSOLUTES.findall(text)
    else:
        words = [word for word in _LABELS_ZH if word in text]
        superlatives = [_SUPERLATIVES_ZH] if _SUPERLATIVES_ZH in text else []
        absolutes = [word for word in _ABSOLUTES_ZH if word in text]
    for kind, found in (
        ("label word", words),
        ("superlative", superlatives),
        ("absolute", absolutes),
    ):
        for word in found:
            yield f"holds the {kind} {word!r}; reword it"


def _length_faults(folder: Folder) -> Iterator[Fault]:
    uses: list[tuple[Part, Iterable[tuple[str, str]]]] = [
        ("single", [(row.preference_id, row.label) for _, row in folder.single.values()]),
        (
            "multi",
            [
                pair
                for _, row in folder.multi.values()
                for pair in zip(row.preference_ids, row.labels, strict=True)
            ],
        ),
    ]
    for part, pairs in uses:
        lengths: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        for name, letter in pairs:
            row = folder.preferences[name][1]
            texts = [("explicit", row.explicit)]
            texts += [("dialogue", dialogue_of(row))] if row.dialogue else []
            for kind, text in texts:
                n = len(text.split()) if row.lang == "en" else len(text)
                lengths[row.lang, kind, letter].append(n)
        for lang, kind in sorted({(lang, kind) for lang, kind, _ in lengths}):
            means = {
                letter: sum(found) / len(found)
                for letter in LETTERS
                if (found := lengths.get((lang, kind, letter)))
            }
            middle = sum(means.values()) / len(means)
            if any(abs(mean / middle - 1) > LENGTH_SLACK for mean in means.values()):
                shown = ", ".join(f"{letter} {mean:.1f}" for letter, mean in means.items())
                text = f"mean length of {kind} ({lang}) differs by label: {shown}"
                yield Fault(folder.file(part), None, "", text)
