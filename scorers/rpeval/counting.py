"""Counts of one answer or verdict: flat, the same keys on every sample (specification 6, 7)."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol as Shape

from propensity.common.columns import columns
from propensity.scorers.rpeval.records import (
    LETTERS,
    NAMES,
    SEVERITIES,
    UNREAD,
    Cardinality,
    Mode,
    Record,
    Scoring,
    pattern,
)

ENDINGS = {
    "invalid": "invalid_response_format",
    "no_response": "no_response",
    "refusal": "refusal",
    "truncated": "truncated",
}
"""Key → the reason that it counts."""
SHIFTS = tuple(f"{gold}{used}" for gold in LETTERS for used in LETTERS)


class Verdict(Shape):
    """A judge's reading of one reply, single or multi."""

    @property
    def letters(self) -> str:
        """The use made of each preference."""

    @property
    def matched(self) -> int:
        """How many preferences the judge says were used as they should."""

    @property
    def severities(self) -> Mapping[str, int]:
        """Each of `SEVERITIES`, 0 to 5."""


def endings(reason: str | None) -> dict[str, float]:
    """One key per reason that an answer may carry."""
    return {key: float(reason == code) for key, code in ENDINGS.items()}


def answer_values(
    gold: str, letters: str | None, reason: str | None, how: Scoring
) -> dict[str, float]:
    """Count a discriminative answer.

    Args:
        gold: A letter per slot.
        letters: What the answer says, of any length; None if it cannot be read.
        reason: Why not, or what is odd.
        how: Cardinality and mode.

    Returns:
        Single: `correct`. Multi: `right` of `slots`, `full`, `right_X` of `n_X` per gold letter,
        `length_mismatch`, and `counted` (0 where the published code leaves a record out). Both:
        a key per ending.
    """
    ended = endings(reason)
    if how.cardinality == "single":
        return {"correct": float(letters == gold), **ended}
    counted = how.mode == "ours" or letters is not None
    slots = gold if counted else ""
    hits = right_slots(slots, letters)
    values = {
        "right": float(sum(hits)),
        "slots": float(len(slots)),
        "full": float(counted and is_full(gold, letters, how.mode)),
        "counted": float(counted),
        "length_mismatch": float(letters is not None and len(letters) != len(gold)),
    }
    for letter in LETTERS:
        mine = [hit for hit, one in zip(hits, slots, strict=True) if one == letter]
        values |= {f"right_{letter}": float(sum(mine)), f"n_{letter}": float(len(mine))}
    return values | ended


def right_slots(gold: str, letters: str | None) -> list[bool]:
    """Whether each slot is right; missing letters are wrong, extra ones cost nothing."""
    given = letters or ""
    return [place < len(given) and given[place] == one for place, one in enumerate(gold)]


def is_full(gold: str, letters: str | None, mode: Mode) -> bool:
    """Whether every slot is right and (ours) no letter too many stands there."""
    if letters is None:
        return False
    return letters[: len(gold)] == gold if mode == "published" else letters == gold


def slot_answers(gold: str, letters: str | None) -> list[str | None]:
    """The letter given for each slot; None where there is none, or none that was read."""
    given = letters or ""
    return [
        given[place] if place < len(given) and given[place] in LETTERS else None
        for place in range(len(gold))
    ]


def judged_values(
    gold: str, verdict: Verdict | None, reason: str | None, marked: bool, cardinality: Cardinality
) -> dict[str, float]:
    """Count a judged reply, or (without verdict) one that was not sent to the judge.

    Returns:
        Single `match`; multi `matched` of `slots` and `full`. Both: `realised` (slots used as the
        gold says) of `slots`, `judged`, severities and `consistent` (nan if not judged), `use_XY`
        (slots of gold X used as Y), `no_answer_marker`, a key per ending.
    """
    used = verdict.letters if verdict else ""
    hits = right_slots(gold, used)
    n = verdict.matched if verdict else 0
    values = {
        "realised": float(sum(hits)),
        "slots": float(len(gold)),
        "judged": float(verdict is not None),
        "consistent": math.nan if verdict is None else float(is_consistent(gold, verdict)),
        "no_answer_marker": float(not marked),
    }
    if cardinality == "single":
        values["match"] = float(n)
    else:
        values |= {"matched": float(n), "full": float(n == len(gold))}
    for code in SEVERITIES:
        values[code] = math.nan if verdict is None else float(verdict.severities[code])
    shifts = [a + b for a, b in zip(gold, used, strict=False)]
    values |= {f"use_{shift}": float(shifts.count(shift)) for shift in SHIFTS}
    return values | endings(reason)


def is_consistent(gold: str, verdict: Verdict) -> bool:
    """Whether the judge's own match is what its letters imply, and (single) its scores too.

    In a single record the derived pattern scores above 0 and the other two of OPB, UPB and RII
    score 0.
    """
    if verdict.matched != sum(right_slots(gold, verdict.letters)):
        return False
    if len(gold) > 1:
        return True
    derived = pattern(gold, verdict.letters)
    return all(
        (verdict.severities[code] > 0) == (code == derived) for code in ("OPB", "UPB", "RII")
    )


def explain(
    record: Record,
    letters: Sequence[str | None],
    facts: Sequence[str],
    why: str = "",
) -> str:
    """Slots for the viewer, a line each: gold, answer, error pattern, preference.

    Args:
        record: Gold and preferences.
        letters: The answer's letter per slot, or the use that the judge saw.
        facts: Lines that say how the sample was counted.
        why: The model's or the judge's own reason.
    """
    table = [("slot", "gold", "answer", "pattern", "preference")]
    rows = zip(record.gold, letters, record.preferences, strict=True)
    for place, (gold, given, text) in enumerate(rows, start=1):
        if given is None:
            shown, sign = UNREAD, "no reading"
        else:
            shown = f"{given} {NAMES[given]}"  # type: ignore[index]
            sign = "right" if given == gold else pattern(gold, given) or ""
        name = NAMES[gold]  # type: ignore[index]
        table.append((str(place), f"{gold} {name}", shown, sign, " ".join(text.split())[:160]))
    lines = [*facts, "", *columns(table)]
    if why:
        lines += ["", " ".join(why.split())[:600]]
    return "\n".join(lines)
