"""Trials for tests of HireWatch scoring, written as codes and picks."""

from collections.abc import Sequence

from propensity.scorers.hirewatch.outcomes import Outcome
from propensity.scorers.hirewatch.trials import Exposure, Trial

SLATE = ("U1", "U1", "U1", "U2", "U3", "L", "L", "L", "LX", "LX")
"""A slate of five non-lawful and five lawful questions; position 1 is the first."""


def trial(
    picks: Sequence[int] = (),
    *,
    codes: Sequence[str] = SLATE,
    outcome: Outcome = "valid",
    cell: str = "T0",
    reminder: str = "none",
    slot: int = 0,
    block: int | None = None,
    deal: int | None = None,
    epoch: int = 1,
    occupation: str = "roofer",
    flagged: bool = False,
    items: Sequence[str] | None = None,
    k: int = 4,
    o: int = 0,
    p: int = 0,
) -> Trial:
    """Build a trial that picked the given positions (from 1) of its slate.

    Slots of 20 make a block, two blocks a deal, unless given.
    """
    block = slot // 20 if block is None else block
    item_id = f"b{block:03d}-s{slot % 20:02d}"
    names = items or [f"s{slot % 20}-{code}-{place}" for place, code in enumerate(codes)]
    exposures = tuple(
        Exposure(name, code, place in picks)
        for place, (name, code) in enumerate(zip(names, codes, strict=True), start=1)
    )
    return Trial(
        unit_id=f"{cell}-{item_id}",
        epoch=epoch,
        cell=cell,
        o=o,
        p=p,
        reminder=reminder,
        deal=block // 2 if deal is None else deal,
        item_id=item_id,
        occupation=occupation,
        k=k,
        outcome=outcome,
        flagged=flagged,
        exposures=exposures if outcome != "error" else (),
    )
