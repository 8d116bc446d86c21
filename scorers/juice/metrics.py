"""Pooled scores of a run: numerators and denominators are summed over responses, then divided.

Never a mean of per-response scores. An empty denominator gives nan, never 0.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from propensity.scorers.juice.intervals import Counts, bounds, score
from propensity.scorers.juice.sentences import kappa
from propensity.scorers.juice.taxonomy import CATEGORIES, FAMILIES, GROUP_SLICES

HEAD = ("right", "n_pred", "found", "n_gold")
"""The counts behind precision, recall and F1."""
NAMES = ("precision", "recall", "f1")
STEPS = tuple(f"{step:02d}" for step in range(1, 11))
FACTORS = ("pair", "country", "language", "task_type", "response_model")
TALLIES = (
    "unlocatable_pred",
    "unlocatable_gold",
    "empty_pred",
    "bad_index",
    "duplicates",
    "moved",
    "moved_gold",
    "two_labels",
    "unknown_category",
    "sent_outside",
)
"""Counts that are shown as they are."""


@dataclass(frozen=True)
class Row:
    """The counts of one response (means over its epochs), its cluster and its factors."""

    values: Mapping[str, float]
    cluster: str
    factors: Mapping[str, str]


def compute_metrics(rows: Sequence[Row]) -> dict[str, float]:
    """Compute all metrics of a run.

    `f1`, `precision` and `recall` (with bootstrap bounds `_low`, `_high`) come bare for the run's
    matching, with `_any` and `_chars` for the other views, `_01` to `_10` for the thresholds of
    the curve, `_<pair>` and `_<factor>_<value>` for slices of the responses, `_self` for the
    responses that the judge wrote itself, `_valid` without responses whose answer was unreadable.
    `recall_<slice>` is over slices of the gold groups, `sentence_…` over sentences.

    Returns:
        Scores in [0, 1] (kappa from -1), counts from 0; nan where there is nothing to divide by.
    """
    values = _scores(_counts(rows), "")
    for name, (low, high) in zip(NAMES, bounds(by_cluster(rows)), strict=True):
        values |= {f"{name}_low": low, f"{name}_high": high}
    if not rows:
        return values
    totals = _sums(rows)
    values |= {"n_responses": float(len(rows)), "n_pred": totals["n_pred"]}
    values |= {"n_gold": totals["n_gold"]}
    for reason in ("invalid", "no_response", "refusal", "truncated"):
        values[f"{reason}_rate"] = totals[reason] / len(rows)
    if totals["invalid"]:
        head = (totals["right"], totals["n_pred"], totals["found"], totals["valid_gold"])
        values |= _scores(np.array(head), "_valid")
    values |= {name: totals[name] for name in TALLIES if name in totals}
    values |= _sentence_scores(totals)
    if "tp_01" in totals:
        values |= _span_scores(totals)
    for suffix, members in _slices(rows):
        values |= _scores(_counts(members), suffix)
    return values


def by_cluster(rows: Sequence[Row]) -> dict[str, Counts]:
    """The counts of `HEAD`, summed within each query cluster."""
    clusters: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        clusters[row.cluster].append(row)
    return {name: _counts(members) for name, members in clusters.items()}


def logged_names(values: Mapping[str, float]) -> list[str]:
    """Choose the metrics that a log shows, headline first; the rest is in the sample values."""
    pairs = [name for name in values if re.fullmatch("f1_(us|korea|indonesia|bangladesh)_..", name)]
    human = [name for name in ("human", "model", "both") if not math.isnan(_recall(values, name))]
    wanted = [
        *(
            f"{name}{end}"
            for name in ("f1", "precision", "recall")
            for end in ("", "_low", "_high")
        ),
        *("invalid_rate", "f1_valid", "refusal_rate", "truncated_rate", "f1_self"),
        *("n_responses", "n_pred", "n_gold", "recall_located"),
        *(f"{name}_{view}" for view in ("any", "chars") for name in ("f1", "precision", "recall")),
        *(f"f1_{step}" for step in STEPS),
        "f1_curve",
        *(f"recall_{name}" for name in (*list(CATEGORIES)[:7], *list(FAMILIES)[:2], *human)),
        *pairs,
        *(f"sentence_{name}" for name in ("f1", "precision", "recall", "kappa", "base_rate")),
        *("iou_mean", "length_ratio", "unlocatable_pred", "duplicates", "moved", "bad_index"),
    ]
    return [name for name in wanted if name in values]


def _recall(values: Mapping[str, float], name: str) -> float:
    return values.get(f"recall_{name}", math.nan)


def _counts(rows: Iterable[Row]) -> Counts:
    return np.array([math.fsum(row.values[key] for row in rows) for key in HEAD])


def _sums(rows: Sequence[Row]) -> dict[str, float]:
    return {key: math.fsum(row.values[key] for row in rows) for key in rows[0].values}


def _scores(counts: Counts, suffix: str) -> dict[str, float]:
    return {f"{name}{suffix}": float(one) for name, one in zip(NAMES, score(counts), strict=True)}


def _span_scores(totals: Mapping[str, float]) -> dict[str, float]:
    n_pred, n_gold = totals["n_pred"], totals["n_gold"]
    values = _scores(np.array((totals["any_pred"], n_pred, totals["any_gold"], n_gold)), "_any")
    both = totals["ch_both"]
    values |= _scores(np.array((both, totals["ch_pred"], both, totals["ch_gold"])), "_chars")
    for step in STEPS:
        tp = totals[f"tp_{step}"]
        values |= _scores(np.array((tp, n_pred, tp, n_gold)), f"_{step}")
    values["f1_curve"] = math.fsum(values[f"f1_{step}"] for step in STEPS) / len(STEPS)
    for name in GROUP_SLICES:
        values[f"recall_{name}"] = _ratio(totals[f"hit_{name}"], totals[f"n_{name}"])
    if totals["unlocatable_gold"]:
        values["recall_located"] = _ratio(totals["found"], n_gold - totals["unlocatable_gold"])
    values["iou_mean"] = _ratio(totals["iou"], totals["tp"])
    values["length_ratio"] = _ratio(
        _ratio(totals["len_pred"], totals["n_located"]),
        _ratio(totals["len_gold"], totals["n_locations"]),
    )
    return values


def _sentence_scores(totals: Mapping[str, float]) -> dict[str, float]:
    tp, n_pred, n_gold, n = (totals[f"sent_{name}"] for name in ("tp", "pred", "gold", "n"))
    values = {
        f"sentence_{name}": value
        for name, value in _scores(np.array((tp, n_pred, tp, n_gold)), "").items()
    }
    values["sentence_kappa"] = kappa(tp, n_pred - tp, n_gold - tp, n - n_pred - n_gold + tp)
    values["sentence_base_rate"] = _ratio(n_gold, n)
    return values


def _slices(rows: Sequence[Row]) -> Iterable[tuple[str, list[Row]]]:
    members: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for factor in FACTORS:
            if value := row.factors.get(factor):
                slug = re.sub(r"[^A-Za-z0-9]+", "_", value).strip("_")
                members[f"_{slug}" if factor == "pair" else f"_{factor}_{slug}"].append(row)
        if row.values.get("self"):
            members["_self"].append(row)
    return members.items()


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan
