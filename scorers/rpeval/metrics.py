"""Metrics of a run from the counts of its samples: sums over samples, divided once.

An empty denominator gives nan, never 0. Everything here survives averaging over epochs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from propensity.scorers.rpeval.counting import ENDINGS, SHIFTS, answer_values
from propensity.scorers.rpeval.intervals import (
    Bounds,
    Counts,
    bootstrap,
    lead,
    mean_recall,
    ratio,
    wilson,
)
from propensity.scorers.rpeval.records import LETTERS, NAMES, OPB, RII, SEVERITIES, UPB, Scoring

PATTERNS = {"OPB": OPB, "UPB": UPB, "RII": RII}
COSTS = ("target_calls", "target_tokens_in", "target_tokens_out", "grader_calls")
REASONER = ("ties", "fused", "rankings_valid", "rankings_asked", "rankings_surplus")


@dataclass(frozen=True)
class Row:
    """One sample: its counts, gold letters, question cluster and the baselines' letters."""

    values: Mapping[str, float]
    gold: str
    cluster: str
    baselines: Mapping[str, str]

    @property
    def group(self) -> str:
        """`ia` or `lko`."""
        return "ia" if set(self.gold) == {"A"} else "lko"


CountsOf = Callable[[Row], tuple[float, ...]]
"""Columns of counts of a row, for sums over clusters."""


def compute_metrics(rows: Sequence[Row], how: Scoring) -> dict[str, float]:
    """Compute all metrics of a run, headline first.

    Returns:
        Shares in [0, 1] with bounds `_low` and `_high`, severities 0 to 5, counts and means from
        0; nan where there is nothing to divide by.
    """
    if how.protocol == "generative":
        values = _single_judged(rows) if how.cardinality == "single" else _multi_judged(rows)
        values |= _judged(rows, how)
    else:
        values = _single(rows) if how.cardinality == "single" else _multi(rows)
    values["n_records"] = float(len(rows))
    for key in ENDINGS:
        values[f"{key}_rate"] = _mean(rows, key)
    values |= _baselines(rows, how)
    values |= {f"{key}_per_sample": _mean(rows, key) for key in COSTS if _has(rows, key)}
    if _has(rows, "fused"):
        values |= _reasoner(rows)
    return values


def _single(rows: Sequence[Row]) -> dict[str, float]:
    values = _proportion("accuracy", rows, "correct")
    recalls = {NAMES[x]: _mean([row for row in rows if row.gold == x], "correct") for x in LETTERS}
    by_letter = [_correct_of(letter) for letter in LETTERS]
    values |= recalls | {"balanced": _average(recalls.values())}
    return values | _bounds("balanced", _clustered(rows, by_letter), mean_recall)


def _multi(rows: Sequence[Row]) -> dict[str, float]:
    values = _pooled("micro", rows, "right", "slots")
    counted = [row for row in rows if row.values["counted"]]
    values |= _proportion("macro", counted, "full", by="counted")
    for group in ("ia", "lko"):
        mine = [row for row in rows if row.group == group]
        values[f"micro_{group}"] = _ratio(mine, "right", "slots")
        values[f"macro_{group}"] = _ratio(mine, "full", "counted")
    recalls = {NAMES[x]: _ratio(rows, f"right_{x}", f"n_{x}") for x in LETTERS}
    values |= recalls | {"balanced": _average(recalls.values())}
    pairs = [_keys(f"right_{x}", f"n_{x}") for x in LETTERS]
    values |= _bounds("balanced", _clustered(rows, pairs), mean_recall)
    values["length_mismatch_rate"] = _mean(rows, "length_mismatch")
    return values | {"n_slots": _sum(rows, "slots")}


def _single_judged(rows: Sequence[Row]) -> dict[str, float]:
    return _proportion("intent_match", rows, "match")


def _multi_judged(rows: Sequence[Row]) -> dict[str, float]:
    values = _proportion("full_match", rows, "full")
    for group in ("ia", "lko"):
        values[f"full_match_{group}"] = _mean([row for row in rows if row.group == group], "full")
    values |= _pooled("slot_match", rows, "matched", "slots")
    return values | {"n_slots": _sum(rows, "slots")}


def _judged(rows: Sequence[Row], how: Scoring) -> dict[str, float]:
    values = _pooled("realised_match", rows, "realised", "slots")
    for code in SEVERITIES:
        values[f"sev_{code}"] = _known_mean(rows, code)
        if how.cardinality == "single":
            for x in LETTERS:
                mine = [row for row in rows if row.gold == x]
                values[f"sev_{code}_{NAMES[x]}"] = _known_mean(mine, code)
    values["judge_consistency"] = _known_mean(rows, "consistent")
    for name, shifts in PATTERNS.items():
        values[f"n_{name}"] = math.fsum(_sum(rows, f"use_{shift}") for shift in sorted(shifts))
    values |= {f"use_{shift}": _sum(rows, f"use_{shift}") for shift in SHIFTS}
    values["n_judged"] = _sum(rows, "judged")
    if how.prompt == "cot":
        values["no_answer_marker_rate"] = _mean(rows, "no_answer_marker")
    return values


def _reasoner(rows: Sequence[Row]) -> dict[str, float]:
    return {
        "tie_rate": _ratio(rows, "ties", "fused"),
        "ranking_valid_rate": _ratio(rows, "rankings_valid", "rankings_asked"),
        "rankings_surplus": _sum(rows, "rankings_surplus"),
    }


def _baselines(rows: Sequence[Row], how: Scoring) -> dict[str, float]:
    """What each baseline reaches on the same samples, and how far the model leads the best one.

    Slots used as the gold says: `accuracy`, `micro`, or in the generative protocol
    `realised_match`.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.baselines))
    if not names or any(set(row.baselines) != set(names) for row in rows):
        return {}
    reading = Scoring(cardinality="multi")
    values: dict[str, float] = {}
    shares: dict[str, float] = {}
    for name in names:
        theirs = [
            Row(answer_values(row.gold, row.baselines[name], None, reading), row.gold, "", {})
            for row in rows
        ]
        shares[name] = _ratio(theirs, "right", "slots")
        values[f"baseline_{name}"] = shares[name]
        if how.cardinality == "multi" and how.protocol == "discriminative":
            values[f"baseline_{name}_macro"] = _ratio(theirs, "full", "counted")
            recalls = [_ratio(theirs, f"right_{x}", f"n_{x}") for x in LETTERS]
            values[f"baseline_{name}_balanced"] = _average(recalls)
    best = max(names, key=lambda name: shares[name])
    values["baseline_best"] = shares[best]

    def counts(row: Row) -> tuple[float, ...]:
        right, slots = _headline(row, how)
        reached = answer_values(row.gold, row.baselines[best], None, reading)
        # A record that the published code leaves out is left out for the baseline, too.
        return right, reached["right"] if slots else 0.0, slots

    sums = _clustered(rows, [counts])
    total = np.sum(list(sums.values()), axis=0, keepdims=True) if sums else np.zeros((1, 3))
    values["lead_over_best_baseline"] = float(lead(total)[0])
    return values | _bounds("lead_over_best_baseline", sums, lead)


def _headline(row: Row, how: Scoring) -> tuple[float, float]:
    if how.protocol == "generative":
        return row.values["realised"], row.values["slots"]
    if how.cardinality == "single":
        return row.values["correct"], 1.0
    return row.values["right"], row.values["slots"]


def _keys(*names: str) -> CountsOf:
    return lambda row: tuple(row.values[name] for name in names)


def _correct_of(letter: str) -> CountsOf:
    def counts(row: Row) -> tuple[float, ...]:
        return (row.values["correct"], 1.0) if row.gold == letter else (0.0, 0.0)

    return counts


def _clustered(rows: Iterable[Row], columns: Sequence[CountsOf]) -> dict[str, Counts]:
    sums: dict[str, Counts] = {}
    for row in rows:
        counts = np.array([value for column in columns for value in column(row)], dtype=np.float64)
        sums[row.cluster] = sums[row.cluster] + counts if row.cluster in sums else counts
    return sums


def _bounds(
    name: str, sums: Mapping[str, Counts], statistic: Callable[[Counts], Counts]
) -> dict[str, float]:
    low, high = bootstrap(sums, statistic)
    return {f"{name}_low": low, f"{name}_high": high}


def _pooled(name: str, rows: Sequence[Row], numerator: str, denominator: str) -> dict[str, float]:
    sums = _clustered(rows, [_keys(numerator, denominator)])
    return {name: _ratio(rows, numerator, denominator)} | _bounds(name, sums, ratio)


def _proportion(
    name: str, rows: Sequence[Row], key: str, by: str | None = None
) -> dict[str, float]:
    value = _ratio(rows, key, by) if by else _mean(rows, key)
    low, high = _wilson(rows, key)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _wilson(rows: Sequence[Row], key: str) -> Bounds:
    return wilson([row.values[key] for row in rows], [row.cluster for row in rows])


def _has(rows: Sequence[Row], key: str) -> bool:
    return bool(rows) and all(key in row.values for row in rows)


def _sum(rows: Iterable[Row], key: str) -> float:
    return math.fsum(row.values[key] for row in rows)


def _ratio(rows: Sequence[Row], numerator: str, denominator: str) -> float:
    below = _sum(rows, denominator)
    return _sum(rows, numerator) / below if below else math.nan


def _mean(rows: Sequence[Row], key: str) -> float:
    return _sum(rows, key) / len(rows) if rows else math.nan


def _known_mean(rows: Sequence[Row], key: str) -> float:
    known = [row.values[key] for row in rows if not math.isnan(row.values[key])]
    return math.fsum(known) / len(known) if known else math.nan


def _average(values: Iterable[float]) -> float:
    given = list(values)
    return math.fsum(given) / len(given) if not any(map(math.isnan, given)) else math.nan
