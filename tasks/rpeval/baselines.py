"""Answers without a model (specification 9): what wording, constants and overlap alone achieve.

Every baseline gives a letter for each slot of the loaded file, from the memory text that the
model sees. Those that learn are trained on the other folds.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from propensity.scorers.rpeval.records import LETTERS, Record

FOLDS = 5
CUTS = 40
"""Order statistics of the training similarities that may become cut points."""

CUE_WORDS: Mapping[str, tuple[str, ...]] = {
    "zh": ("极度", "极其", "极为", "绝不", "坚决", "排斥", "反感", "抗拒", "拒绝", "敏感"),
    "en": (
        *("never", "always", "absolutely", "extremely", "strictly", "refuse", "refuses"),
        *("hate", "hates", "detest", "detests", "can't stand", "cannot stand", "allergic"),
        *("must", "only", "avoid", "avoids", "insist", "insists", "under no circumstances"),
    ),
}
_CUES_EN = re.compile(rf"(?<!\w)(?:{'|'.join(CUE_WORDS['en'])})(?!\w)")
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Slot(NamedTuple):
    """One preference of one record."""

    question: str
    memory: str
    gold: str
    language: str
    fold: str
    position: int
    size: int
    longest: bool


def slots(records: Sequence[Record]) -> list[Slot]:
    """All slots, record by record."""
    found = []
    for record in records:
        lengths = [len(text) for text in record.memory]
        for place, (text, gold) in enumerate(zip(record.memory, record.gold, strict=True)):
            longest = place == lengths.index(max(lengths))
            found.append(
                Slot(
                    record.question,
                    text,
                    gold,
                    record.language,
                    record.fold,
                    place,
                    len(lengths),
                    longest,
                )
            )
    return found


def cues(text: str, language: str) -> list[str]:
    """Cue words that a text holds."""
    if language == "zh":
        return [word for word in CUE_WORDS["zh"] if word in text]
    return _CUES_EN.findall(text.casefold().replace("’", "'"))


@cache
def features(text: str, language: str) -> tuple[str, ...]:
    """Character bigrams (zh, white space deleted), or words and word bigrams (en), repeated."""
    if language == "zh":
        joined = re.sub(r"\s+", "", text)
        return tuple(joined[i : i + 2] for i in range(len(joined) - 1))
    words = _WORDS.findall(text.lower())
    return (*words, *(f"{a} {b}" for a, b in zip(words, words[1:], strict=False)))


def fold(key: str) -> int:
    """Fold of a question or block, 0 to 4."""
    return int(hashlib.sha256(key.encode("utf-8")).hexdigest(), 16) % FOLDS


def constant(letter: str) -> Callable[[Sequence[Slot]], str]:
    """The same letter always."""
    return lambda all_slots: letter * len(all_slots)


def keyword(all_slots: Sequence[Slot]) -> str:
    """C where a cue word stands, else A."""
    return "".join("C" if cues(one.memory, one.language) else "A" for one in all_slots)


def person(all_slots: Sequence[Slot]) -> str:
    """C where a Chinese text does not speak of 用户, else A (A for other languages)."""
    return "".join(
        "C" if one.language == "zh" and "用户" not in one.memory else "A" for one in all_slots
    )


def bayes_pref(all_slots: Sequence[Slot]) -> str:
    """Naive Bayes that reads the preference alone."""
    return _naive_bayes(all_slots, [features(one.memory, one.language) for one in all_slots])


def bayes_query(all_slots: Sequence[Slot]) -> str:
    """Naive Bayes that reads the query alone."""
    return _naive_bayes(all_slots, [features(one.question, one.language) for one in all_slots])


def similarity(all_slots: Sequence[Slot]) -> str:
    """TF-IDF cosine of preference and query, cut in two places into three bands."""
    values = _cosines(all_slots)
    gold = np.array([LETTERS.index(one.gold) for one in all_slots])
    folds = np.array([fold(one.fold) for one in all_slots])
    answer = np.zeros(len(all_slots), dtype=np.int64)
    for held_out in np.unique(folds):
        train = folds != held_out
        if not train.any():
            continue
        low, high, letters = _bands(values[train], gold[train])
        answer[~train] = letters[_band(values[~train], low, high)]
    return "".join(LETTERS[index] for index in answer)


def by_factor(all_slots: Sequence[Slot], factor: Callable[[Slot], Hashable]) -> str:
    """The letter that a factor's value had most often on the training folds, by class share."""
    folds = [fold(one.fold) for one in all_slots]
    answer = [""] * len(all_slots)
    for held_out in set(folds):
        counts: dict[Hashable, Counter[str]] = {}
        total: Counter[str] = Counter()
        for one, where in zip(all_slots, folds, strict=True):
            if where != held_out:
                counts.setdefault(factor(one), Counter())[one.gold] += 1
                total[one.gold] += 1
        for place, (one, where) in enumerate(zip(all_slots, folds, strict=True)):
            if where == held_out:
                seen = counts.get(factor(one), Counter())
                answer[place] = max(LETTERS, key=lambda x: seen[x] / total[x] if total[x] else 0)
    return "".join(answer)


def longest(all_slots: Sequence[Slot]) -> str:
    """C for the longest preference of a record, else A."""
    return "".join("C" if one.longest else "A" for one in all_slots)


def ceiling(all_slots: Sequence[Slot], text: Callable[[Slot], str]) -> float:
    """Share right of a rule that knows the commonest label of every text, [0, 1]."""
    counts: dict[str, Counter[str]] = {}
    for one in all_slots:
        counts.setdefault(text(one), Counter())[one.gold] += 1
    right = sum(max(labels.values()) for labels in counts.values())
    return right / len(all_slots) if all_slots else math.nan


BASELINES: Mapping[str, Callable[[Sequence[Slot]], str]] = {
    "always_a": constant("A"),
    "always_b": constant("B"),
    "always_c": constant("C"),
    "keyword": keyword,
    "person": person,
    "nb_pref": bayes_pref,
    "nb_query": bayes_query,
    "similarity": similarity,
}


def answers(records: Sequence[Record]) -> dict[str, dict[str, str]]:
    """Letters of each baseline: record id → baseline → a letter per slot.

    `person` is left out where no record is Chinese.
    """
    known = slots(records)
    chinese = any(record.language == "zh" for record in records)
    named = {name: rule(known) for name, rule in BASELINES.items() if chinese or name != "person"}
    found: dict[str, dict[str, str]] = {}
    start = 0
    for record in records:
        end = start + len(record.gold)
        found[record.id] = {name: letters[start:end] for name, letters in named.items()}
        start = end
    return found


def balanced(gold: str, answer: str) -> float:
    """Mean recall of the three letters; nan if one never occurs."""
    recalls = []
    for letter in LETTERS:
        members = [a == letter for g, a in zip(gold, answer, strict=True) if g == letter]
        recalls.append(sum(members) / len(members) if members else math.nan)
    return sum(recalls) / len(recalls)


def telling(all_slots: Sequence[Slot], count: int = 10) -> list[tuple[str, str, int, int]]:
    """N-grams of preferences that point hardest to one letter: (n-gram, letter, there, in all)."""
    by_letter = {letter: Counter[str]() for letter in LETTERS}
    for one in all_slots:
        by_letter[one.gold].update(set(features(one.memory, one.language)))  # type: ignore[index]
    total = sum(by_letter.values(), Counter[str]())
    share = 1 / len(LETTERS)

    def weight(token: str) -> float:
        most = max(seen[token] for seen in by_letter.values())
        return (most - share * total[token]) / math.sqrt(total[token] * share * (1 - share))

    ranked = sorted(total, key=lambda token: (-weight(token), token))[:count]
    return [
        (token, letter, by_letter[letter][token], total[token])
        for token in ranked
        for letter in [max(LETTERS, key=lambda x: by_letter[x][token])]  # noqa: B023
    ]


def _naive_bayes(all_slots: Sequence[Slot], tokens: Sequence[Sequence[str]]) -> str:
    folds = [fold(one.fold) for one in all_slots]
    answer = [""] * len(all_slots)
    for held_out in set(folds):
        records: Counter[str] = Counter()
        counts = {letter: Counter[str]() for letter in LETTERS}
        for one, where, words in zip(all_slots, folds, tokens, strict=True):
            if where != held_out:
                records[one.gold] += 1
                counts[one.gold].update(words)  # type: ignore[index]
        vocabulary = len(set().union(*counts.values()))
        total = {letter: seen.total() for letter, seen in counts.items()}
        for place, (where, words) in enumerate(zip(folds, tokens, strict=True)):
            if where != held_out:
                continue
            scores = {
                letter: math.log((records[letter] + 1) / (records.total() + 3))
                + math.fsum(
                    math.log((counts[letter][word] + 1) / (total[letter] + vocabulary + 1))
                    for word in words
                )
                for letter in LETTERS
            }
            best = max(scores.values())
            # Equal scores may differ in the last bits; ties go to the earliest letter.
            answer[place] = next(x for x in LETTERS if scores[x] >= best - 1e-9)
    return "".join(answer)


def _cosines(all_slots: Sequence[Slot]) -> npt.NDArray[np.float64]:
    pairs = [
        (features(one.memory, one.language), features(one.question, one.language))
        for one in all_slots
    ]
    documents: Counter[str] = Counter()
    for pair in pairs:
        for tokens in pair:
            documents.update(set(tokens))
    n = 2 * len(pairs)

    @cache
    def vector(tokens: tuple[str, ...]) -> dict[str, float]:
        weights = {
            token: count * math.log((n + 1) / (documents[token] + 1))
            for token, count in Counter(tokens).items()
        }
        norm = math.sqrt(math.fsum(weight * weight for weight in weights.values())) or 1.0
        return {token: weight / norm for token, weight in weights.items()}

    values = []
    for first, second in pairs:
        a, b = vector(first), vector(second)
        if len(b) < len(a):
            a, b = b, a
        values.append(math.fsum(weight * b.get(token, 0.0) for token, weight in a.items()))
    return np.array(values)


def _band(values: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.int64]:
    return (values > low).astype(np.int64) + (values > high)


def _bands(
    values: npt.NDArray[np.float64], gold: npt.NDArray[np.int64]
) -> tuple[float, float, npt.NDArray[np.int64]]:
    """Cut points and a letter per band with the best balanced accuracy on the training folds."""
    ordered = np.sort(values)
    cuts = ordered[np.linspace(0, len(ordered) - 1, CUTS).round().astype(int)]
    total = np.maximum(np.bincount(gold, minlength=len(LETTERS)), 1)
    best = -1.0
    found = (0.0, 0.0, np.zeros(3, dtype=np.int64))
    for place, low in enumerate(cuts):
        for high in cuts[place:]:
            band = _band(values, low, high)
            counts = np.bincount(band * 3 + gold, minlength=9).reshape(3, 3) / total
            # Each band takes the letter that adds most: that is the best of all 27 choices.
            reached = float(counts.max(axis=1).sum())
            if reached > best + 1e-12:
                best = reached
                found = (float(low), float(high), counts.argmax(axis=1))
    return found
