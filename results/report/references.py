"""A subject beside answers that need no model, given by its task on the same items."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from propensity.results.report.measure import KeyAbout, Measured, counts, items_of, measure
from propensity.results.report.select import Selection
from propensity.results.stats.paired import difference, pair_up
from propensity.results.stats.rates import rate
from propensity.results.stats.record import Estimate
from propensity.results.store.tables import Frames

REFERENCE_FOR = "reference_for"
"""Entry of a key's declaration: the key that its value is to be set beside."""


@dataclass(frozen=True)
class Standing:
    """A subject's rate of one key beside the references for it.

    `references` have the reference's label as `subject`, best first; `lead` is the subject
    minus the best of them, paired on the same items.
    """

    subject: str
    about: KeyAbout
    own: Estimate
    references: tuple[Estimate, ...]
    lead: Estimate

    def compared(self) -> Iterator[tuple[str, Estimate]]:
        """The references and the lead over the best of them, each with what it is."""
        yield from ((f"baseline: {one.subject}", one) for one in self.references)
        yield "lead over the best baseline", self.lead

    def document(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "subject": self.subject,
            "metric": self.about.key,
            "rate": self.own.document(),
            "references": [one.document() for one in self.references],
            "lead_over_best": self.lead.document(),
        }


def standings(
    selection: Selection, frames: Frames, metric: str | None, *, intersect: bool, label: str | None
) -> list[Standing]:
    """Set every subject beside the references that its task declares.

    Args:
        selection: The runs.
        frames: Tables that hold at least these runs.
        metric: Only references for this key; None = for all keys that have some.
        intersect: Use the items that all subjects have.
        label: What a cluster is called.
    """
    scores = frames.scores[frames.scores["eval_id"].isin(selection.runs["eval_id"])]
    there = set(scores["key"])
    found = []
    for key, names in _declared(selection.runs).items():
        names = [name for name in names if name in there]
        if key not in there or not names or metric not in (None, key):
            continue
        own = measure(selection, frames, key=key, intersect=intersect)
        others = [measure(selection, frames, key=name, intersect=intersect) for name in names]
        found += [_standing(subject, own, others, label) for subject in selection.subjects]
    return [one for one in found if one is not None]


def _declared(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Key → its references, in the order of the declaration."""
    found: dict[str, list[str]] = {}
    for text in runs["keys"].dropna().unique():
        for name, about in json.loads(text).items():
            if isinstance(about, dict) and (key := about.get(REFERENCE_FOR)):
                names = found.setdefault(str(key), [])
                names += [name] * (name not in names)
    return found


def _standing(
    subject: str, own: Measured, others: Sequence[Measured], label: str | None
) -> Standing | None:
    mine = items_of(own.of(subject), own.is_ratio)
    theirs = [(other.about.label, items_of(other.of(subject), other.is_ratio)) for other in others]
    rates = [
        (replace(rate(items, cluster_label=label), subject=name), items) for name, items in theirs
    ]
    known = [pair for pair in rates if pair[0].estimate is not None]
    if not known:
        return None
    sign = -1 if own.about.lower_is_better else 1
    known.sort(key=lambda pair: -sign * (pair[0].estimate or 0.0))
    try:
        lead = difference(pair_up(known[0][1], mine), cluster_label=label)
    except ValueError as error:
        lead = Estimate(method=f"not available ({error})")
    about: dict[str, Any] = {"metric": own.about.key} | counts(own.of(subject))
    return Standing(
        subject=subject,
        about=own.about,
        own=replace(rate(mine, cluster_label=label), **about, subject=subject),
        references=tuple(replace(one, **about) for one, _ in known),
        lead=replace(lead, metric=own.about.key, subject=subject),
    )
