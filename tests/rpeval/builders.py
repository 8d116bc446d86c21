"""Hand-made records, rows and verdicts."""

import json
from typing import Any

from propensity.scorers.rpeval.counting import answer_values, judged_values
from propensity.scorers.rpeval.judge import MultiVerdict, SingleVerdict, multi_verdict
from propensity.scorers.rpeval.metrics import Row
from propensity.scorers.rpeval.records import SEVERITIES, Record, Scoring


def record(gold: str = "A", name: str = "demo-1", question: str = "Where to?") -> Record:
    texts = tuple(f"The user likes thing {n} a little." for n in range(1, len(gold) + 1))
    return Record(
        id=name,
        language="en",
        question=question,
        preferences=texts,
        memory=texts,
        gold=gold,
        fold=question,
    )


def answered(gold: str, letters: str | None, how: Scoring, cluster: str = "") -> Row:
    reason = None if letters is not None else "invalid_response_format"
    values = answer_values(gold, letters, reason, how)
    return Row(values, gold, cluster or f"{gold}-{letters}", {})


def single_verdict(realised: str, match: bool, *scores: int) -> SingleVerdict:
    named = dict(zip(SEVERITIES, scores or (0,) * 6, strict=True))
    return SingleVerdict(reason="r", realised=realised, match=match, **named)


def multi(realised: str, match: str, *scores: int) -> MultiVerdict:
    named: dict[str, Any] = dict(zip(SEVERITIES, scores or (0,) * 6, strict=True))
    n, m = match.split("/")
    return multi_verdict(len(realised))(
        reason="r", realised=realised, match=match, full_match=n == m, **named
    )


def judged(gold: str, verdict: SingleVerdict | MultiVerdict | None, cluster: str = "") -> Row:
    cardinality = "multi" if len(gold) > 1 else "single"
    values = judged_values(gold, verdict, None, True, cardinality)  # type: ignore[arg-type]
    return Row(values, gold, cluster or gold, {})


def verdict_line(**fields: Any) -> str:
    """A judge's reply, single by default; fields are replaced, or removed with `...`."""
    verdict: dict[str, Any] = {"reason": "r", "realised": "A", "match": True}
    verdict |= dict.fromkeys(SEVERITIES, 0) | fields
    kept = {key: value for key, value in verdict.items() if value is not ...}
    return f"VERDICT: {json.dumps(kept)}"
