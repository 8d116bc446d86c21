"""Rankings and their fusion by rank (specification 8)."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from propensity.common.answers import last_json_object
from propensity.scorers.rpeval.records import LETTERS

Method = Literal["score", "first_places", "tie"]
_BETWEEN = re.compile(r"[\s,，、>\-]+")


@dataclass(frozen=True)
class Fused:
    """The letter of a slot, and how it was found."""

    letter: str
    method: Method


def fuse(rankings: Sequence[str], sample_id: str, slot: int, seed: int = 0) -> Fused:
    """Fuse rankings of one slot: lowest sum of positions, most first places, seeded tie-break.

    Args:
        rankings: Permutations of ABC, best first; at least one.
        sample_id: Id of the sample, for the tie-break.
        slot: Index of the preference, from 0.
        seed: Seed of the tie-break.

    Raises:
        ValueError: no ranking at all.
    """
    if not rankings:
        raise ValueError("no ranking to fuse")
    sums = {x: sum(ranking.index(x) + 1 for ranking in rankings) for x in LETTERS}
    tied: list[str] = [x for x in LETTERS if sums[x] == min(sums.values())]
    if len(tied) == 1:
        return Fused(tied[0], "score")
    firsts = {x: sum(ranking[0] == x for ranking in rankings) for x in tied}
    tied = [x for x in tied if firsts[x] == max(firsts.values())]
    if len(tied) == 1:
        return Fused(tied[0], "first_places")
    return Fused(break_tie(tied, sample_id, slot, seed), "tie")


def break_tie(candidates: Sequence[str], sample_id: str, slot: int, seed: int) -> str:
    """Choose among equals by a digest: the same on every machine, and in every order."""
    digest = hashlib.sha256(f"{seed}|{sample_id}|{slot}".encode()).digest()
    return sorted(candidates)[int.from_bytes(digest[:8], "big") % len(candidates)]


def ranking(value: Any) -> str | None:
    """A permutation of ABC, after upper-casing and without what stands between; else None."""
    if not isinstance(value, str) or len(value) > 100:
        return None
    letters = _BETWEEN.sub("", value.upper())
    return letters if sorted(letters) == list(LETTERS) else None


def published_single(value: Any) -> str:
    """A ranking of the single published code: what is none becomes `ABC`."""
    return ranking(value) or "ABC"


def read_rankings(reply: str) -> list[Any] | None:
    """The entries of a ranking reply, unchecked; None if it has no list of them.

    Read are a JSON object with `rankings` (a list, or text of the published form `ABC|BAC`) or
    `ranking` (one), and a bare text of the published form on the last line.
    """
    found = last_json_object(reply, "rankings")
    if found is not None:
        value = found["rankings"]
        if isinstance(value, str):
            return value.split("|")
        return value if isinstance(value, list) else None
    found = last_json_object(reply, "ranking")
    if found is not None:
        return [found["ranking"]]
    lines = reply.strip().splitlines()
    parts = [part.strip(" \t`*") for part in lines[-1].split("|")] if lines else []
    if any(ranking(part) for part in parts):
        return list(parts)
    return None


def render(letters: str, why: str = "") -> str:
    """Write letters as a discriminative answer."""
    return json.dumps({"reason": why, "policy": letters}, ensure_ascii=False)
