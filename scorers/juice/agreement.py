"""What several logs say together: panels of judges, and judges beside people (specification 8)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.scorer import SampleScore

from propensity.scorers.juice.comparison import Gold, match
from propensity.scorers.juice.intervals import Counts, difference_bounds, score
from propensity.scorers.juice.location import Span
from propensity.scorers.juice.metrics import Row, by_cluster, compute_metrics
from propensity.scorers.juice.panel import (
    Alpha,
    PanelSize,
    alpha,
    majority,
    panel_size,
    panel_spans,
    union,
)
from propensity.scorers.juice.records import Response, Settings
from propensity.scorers.juice.scorer import SPANS, score_row
from propensity.scorers.juice.sentences import kappa

SCORER = "juice_score"


@dataclass(frozen=True)
class JudgeFigures:
    """One judge: pooled scores, recall on groups that people found, kappa over sentences.

    The `_human` figures take people's marks alone as gold; nan without such marks. `lead` is F1
    minus that of the first judge, with its bounds over the same draws of queries.
    """

    precision: float
    recall: float
    f1: float
    lead: float
    lead_low: float
    lead_high: float
    recall_human: float
    kappa: float
    kappa_human: float


@dataclass(frozen=True)
class PanelFigures:
    """Precision, recall and F1 of joint spans."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class PanelReport:
    """Judges alone and together over the responses that all of them answered.

    `alpha` is over all judges and the gold, sentence by sentence; `alpha_human` takes people's
    marks alone as gold. A span that was not located has no place in a panel.
    """

    n_responses: int
    judges: Mapping[str, JudgeFigures]
    union: PanelFigures
    majority: PanelFigures
    size: PanelSize
    alpha: Alpha
    alpha_human: Alpha


def panel_report(logs: Sequence[EvalLog]) -> PanelReport:
    """Compare and join the judges of several logs of the span protocol, read with their samples.

    Raises:
        ValueError: fewer than two logs, logs with other settings or responses, or sentences.
    """
    judges = _by_judge(logs)
    tally = _Tally(judges)
    shared = next(iter(judges.values()))
    for key in shared:
        tally.add({name: samples[key] for name, samples in judges.items()})
    return tally.report()


@dataclass
class _Tally:
    """Sums and ratings over responses."""

    judges: Mapping[str, Mapping[Any, EvalSample]]
    union: Counts = field(default_factory=lambda: np.zeros(4))
    majority: Counts = field(default_factory=lambda: np.zeros(4))
    ratings: list[list[list[bool]]] = field(default_factory=list)
    ratings_human: list[list[list[bool]]] = field(default_factory=list)
    misses: dict[str, list[bool]] = field(default_factory=dict)
    by_people: list[bool] = field(default_factory=list)

    def add(self, samples: Mapping[str, EvalSample]) -> None:
        """Add one response, as each judge saw it."""
        first = next(iter(samples.values()))
        response = Response.model_validate(first.metadata["response"])
        settings = _settings(first)
        gold = Gold(response, settings)
        people = Gold(response, settings.model_copy(update={"gold": "human"}))
        stored = {name: sample.store[SPANS] for name, sample in samples.items()}
        spans = {
            name: [Span(*one["span"]) for one in found["predicted"]]
            for name, found in stored.items()
        }
        joined = panel_spans(spans)
        self.union += _counts(gold, union(joined))
        self.majority += _counts(gold, majority(joined, len(samples)))
        for name, given in spans.items():
            found = match(gold, sorted(given)).found
            self.misses.setdefault(name, []).extend(row not in found for row in gold.rows())
        found_by_people = {group.id for group in people.groups}
        self.by_people += (gold.groups[row].id in found_by_people for row in gold.rows())
        chosen = [set(found["predicted_sentences"]) for found in stored.values()]
        for ratings, one in ((self.ratings, gold), (self.ratings_human, people)):
            ratings.append(
                [
                    [*(index in indices for indices in chosen), index in one.erroneous]
                    for index in sorted(one.judged)
                ]
            )

    def report(self) -> PanelReport:
        """Divide."""
        has_people = any(self.by_people)
        return PanelReport(
            n_responses=len(self.ratings),
            judges={
                name: self._figures(name, at, list(samples.values()), has_people)
                for at, (name, samples) in enumerate(self.judges.items())
            },
            union=PanelFigures(*score(self.union).tolist()),
            majority=PanelFigures(*score(self.majority).tolist()),
            size=panel_size(self.misses),
            alpha=alpha(self.ratings),
            alpha_human=alpha(self.ratings_human) if has_people else alpha([]),
        )

    def _figures(
        self, name: str, at: int, samples: Sequence[EvalSample], has_people: bool
    ) -> JudgeFigures:
        rows = _rows(samples)
        values = compute_metrics(rows)
        first = _rows(list(next(iter(self.judges.values())).values()))
        low, high = difference_bounds(by_cluster(rows), by_cluster(first))[-1]
        hits = [
            not miss
            for miss, by_people in zip(self.misses[name], self.by_people, strict=True)
            if by_people
        ]
        return JudgeFigures(
            precision=values["precision"],
            recall=values["recall"],
            f1=values["f1"],
            lead=values["f1"] - compute_metrics(first)["f1"],
            lead_low=low,
            lead_high=high,
            recall_human=sum(hits) / len(hits) if hits else float("nan"),
            kappa=_kappa(self.ratings, at),
            kappa_human=_kappa(self.ratings_human, at) if has_people else float("nan"),
        )


def _by_judge(logs: Sequence[EvalLog]) -> dict[str, dict[tuple[str, int], EvalSample]]:
    """Scored samples by judge, after checking that the logs belong together."""
    if len(logs) < 2:
        raise ValueError("a panel needs the logs of at least two judges")
    judges: dict[str, dict[tuple[str, int], EvalSample]] = {}
    for log in logs:
        name = log.eval.model
        if name in judges:
            name = f"{name} ({log.eval.eval_id[:6]})"
        judges[name] = {
            (str(sample.id), sample.epoch): sample
            for sample in log.samples or []
            if sample.scores and SCORER in sample.scores
        }
    (first, reference), *others = judges.items()
    facts = _facts(logs[0], reference)
    if facts["protocol"] != "spans":
        raise ValueError("panels join spans; these logs are of sentences")
    for log, (name, samples) in zip(logs[1:], others, strict=True):
        own = _facts(log, samples)
        differ = [f"{key} {facts[key]} and {own[key]}" for key in facts if facts[key] != own[key]]
        if differ:
            raise ValueError(f"{first} and {name} differ: {', '.join(differ)}; re-score first")
        if samples.keys() != reference.keys():
            raise ValueError(f"{first} and {name} did not answer the same responses")
    return judges


def _facts(log: EvalLog, samples: Mapping[Any, EvalSample]) -> dict[str, Any]:
    """Settings of the last scoring, and the data behind them."""
    if not samples:
        raise ValueError(f"the log of {log.eval.model} has no scored response")
    settings = _settings(next(iter(samples.values())))
    factors = (log.eval.metadata or {}).get("factors") or {}
    return {"data": factors.get("data"), **settings.model_dump()}


def _settings(sample: EvalSample) -> Settings:
    metadata = _sample_score(sample).score.metadata or {}
    return Settings.model_validate(metadata["scoring"])


def _sample_score(sample: EvalSample) -> SampleScore:
    assert sample.scores is not None
    return SampleScore(
        score=sample.scores[SCORER], sample_id=sample.id, sample_metadata=sample.metadata
    )


def _rows(samples: Sequence[EvalSample]) -> list[Row]:
    return [score_row(_sample_score(sample)) for sample in samples]


def _counts(gold: Gold, spans: Sequence[Span]) -> Counts:
    matched = match(gold, sorted(spans))
    right, n_pred = len(matched.right), len(matched.kept)
    return np.array((right, n_pred, len(matched.found), len(gold.rows())), dtype=np.float64)


def _kappa(responses: Sequence[Sequence[Sequence[bool]]], judge: int) -> float:
    """Kappa of one judge (by place) with the gold, which is the last rater."""
    pairs = Counter((unit[judge], unit[-1]) for units in responses for unit in units)
    both, only_judge, only_gold = pairs[True, True], pairs[True, False], pairs[False, True]
    return kappa(both, only_judge, only_gold, pairs[False, False])
