"""One response, one answer: what was found, and the counts that all metrics are sums of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from propensity.scorers.juice.answers import Answer
from propensity.scorers.juice.location import Locator, Span
from propensity.scorers.juice.matching import (
    Edge,
    Ruler,
    assign,
    characters,
    curve,
    overlaps,
)
from propensity.scorers.juice.placing import (
    PlacedGroup,
    Prediction,
    place_gold,
    place_predictions,
)
from propensity.scorers.juice.records import Response, Settings
from propensity.scorers.juice.sentences import sentence_spans, touched
from propensity.scorers.juice.taxonomy import (
    CRITICALITIES,
    GROUP_SLICES,
    LOGICAL,
    group_slices,
)

Values = dict[str, float]


class Gold:
    """A response with its gold groups placed, ready to be compared with any number of answers.

    Attributes:
        groups: By group id. With `gold=human` these hold human marks only.
        counted: Whether a group counts, by row; groups left out by `logical_error` do not.
    """

    def __init__(self, response: Response, settings: Settings) -> None:
        self.response = response
        self.settings = settings
        self.locator = Locator(response.text)
        placed = place_gold(self.locator, response.groups)
        if settings.gold == "human":
            placed = [human for group in placed if (human := _of_humans(group)).marks]
        self.groups = sorted(placed, key=lambda group: group.id)
        self.counted = [
            settings.logical_error == "include" or set(group.labels) != {LOGICAL}
            for group in self.groups
        ]
        self.ruler = Ruler(response.text, settings.unit)

    @cached_property
    def measured(self) -> list[list[Span]]:
        """Locations of each group in units."""
        return [self.ruler.measure(group.spans) for group in self.groups]

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Sentences of the response."""
        return sentence_spans(self.response.text, self.response.language)

    @cached_property
    def erroneous(self) -> frozenset[int]:
        """Indices of the sentences that a group touches."""
        return frozenset(touched(self.sentences, self.spans(counted=True)))

    @cached_property
    def judged(self) -> frozenset[int]:
        """Indices of the sentences that count: all but those touched by left-out groups only."""
        left_out = touched(self.sentences, self.spans(counted=False)) - self.erroneous
        return frozenset(range(len(self.sentences))) - left_out

    def spans(self, *, counted: bool) -> list[Span]:
        """All locations of the groups that count, or of those that do not."""
        return [
            span
            for group, counts in zip(self.groups, self.counted, strict=True)
            if counts is counted
            for span in group.spans
        ]

    def rows(self) -> list[int]:
        """Rows of the groups that count."""
        return [row for row, counts in enumerate(self.counted) if counts]

    def slices(self, row: int) -> set[str]:
        """Names of the slices that a group counts in."""
        group = self.groups[row]
        marks = [placed.mark for placed in group.marks]
        gravest = max(
            (mark.criticality for mark in marks if mark.criticality in CRITICALITIES),
            key=CRITICALITIES.index,
            default=None,
        )
        return group_slices(group.labels, {mark.finder for mark in marks}, gravest)


@dataclass(frozen=True)
class Comparison:
    """What an answer found.

    Attributes:
        values: Counts, for `Score.value`.
        located: Located predictions by (start, end, order), without duplicates.
        columns: Those of them that count (see `logical_error`).
        nowhere: Predictions without a location, in the judge's order.
        pairs: Group and prediction that were matched: one to one, or each group with the
            prediction that covers it best.
        found: Rows of the groups that count as found.
        right: Columns of the predictions that count as right.
        sentences: Indices of the sentences that were predicted, or touched by a prediction.
    """

    values: Values
    located: Sequence[Prediction] = ()
    columns: Sequence[Prediction] = ()
    nowhere: Sequence[Prediction] = ()
    pairs: Sequence[Edge] = ()
    found: frozenset[int] = frozenset()
    right: frozenset[int] = frozenset()
    sentences: frozenset[int] = frozenset()


def compare(gold: Gold, answer: Answer) -> Comparison:
    """Compare an answer with the gold by the run's protocol. An unreadable one predicts nothing."""
    of = _compare_spans if gold.settings.protocol == "spans" else _compare_sentences
    comparison = of(gold, answer)
    about_answer = {
        "valid_gold": comparison.values["n_gold"] if answer.reason is None else 0.0,
        "invalid": float(answer.reason is not None),
        **{
            reason: float(answer.reason == reason)
            for reason in ("no_response", "refusal", "truncated")
        },
    }
    return replace(comparison, values=comparison.values | about_answer)


@dataclass(frozen=True)
class Match:
    """Which spans find which groups.

    Attributes:
        kept: Places of the given spans that count; edges and columns are numbered by it.
        edges: Overlaps of groups and spans that count.
        one_to_one: The assignment at the run's threshold, whatever the run's matching.
        pairs: The assignment, or for any_overlap each group with the span that covers it best.
        found: Rows of the groups that count as found.
        right: Columns of the spans that count as right.
    """

    kept: list[int]
    edges: list[Edge]
    one_to_one: list[Edge]
    pairs: list[Edge]
    found: frozenset[int]
    right: frozenset[int]


def match(gold: Gold, spans: Sequence[Span]) -> Match:
    """Match spans, ordered by (start, end), with the gold by the run's settings."""
    edges = overlaps(gold.measured, gold.ruler.measure(spans))
    kept = list(range(len(spans)))
    if not all(gold.counted):
        edges, kept = _without_left_out(gold, edges, len(spans))
    one_to_one = assign(edges, gold.settings.threshold)
    strict = gold.settings.matching == "one_to_one"
    counting = one_to_one if strict else edges
    return Match(
        kept=kept,
        edges=edges,
        one_to_one=one_to_one,
        pairs=one_to_one if strict else _best_by_row(edges),
        found=frozenset(edge.row for edge in counting),
        right=frozenset(edge.column for edge in counting),
    )


def _compare_spans(gold: Gold, answer: Answer) -> Comparison:
    located, nowhere, duplicates = _distinct(place_predictions(gold.locator, answer.items))
    matched = match(gold, [_span(one) for one in located])
    columns = [located[place] for place in matched.kept]
    edges, found = matched.edges, matched.found
    predicted = [_span(one) for one in columns]
    gold_spans = gold.spans(counted=True)
    both, in_predicted, in_gold = characters(gold_spans, predicted)
    sentences = frozenset(touched(gold.sentences, predicted)) & gold.judged
    rows = gold.rows()
    groups = [gold.groups[row] for row in rows]
    values: Values = {
        "tp": len(matched.one_to_one),
        "right": len(matched.right),
        "found": len(found),
        "n_pred": len(columns) + len(nowhere),
        "n_gold": len(rows),
        "iou": sum(edge.iou for edge in matched.one_to_one),
        "any_pred": len({edge.column for edge in edges}),
        "any_gold": len({edge.row for edge in edges}),
        "ch_both": both,
        "ch_pred": in_predicted,
        "ch_gold": in_gold,
        **{f"tp_{step:02d}": count for step, count in enumerate(curve(edges), start=1)},
        **_by_slice(gold, found),
        "unlocatable_pred": sum(bool(one.item.span.strip()) for one in nowhere),
        "empty_pred": sum(not one.item.span.strip() for one in nowhere),
        "unlocatable_gold": sum(not group.spans for group in groups),
        "duplicates": duplicates,
        "moved": sum(one.moved for one in columns),
        "moved_gold": sum(any(mark.moved for mark in group.marks) for group in groups),
        "two_labels": sum(len(group.labels) > 1 for group in groups),
        "unknown_category": answer.unknown_categories,
        "len_pred": sum(span.end - span.start for span in predicted),
        "n_located": len(predicted),
        "len_gold": sum(span.end - span.start for span in gold_spans),
        "n_locations": len(gold_spans),
        **_sentence_counts(gold, sentences),
    }
    return Comparison(
        _floats(values),
        located=located,
        columns=columns,
        nowhere=nowhere,
        pairs=matched.pairs,
        found=found,
        right=matched.right,
        sentences=sentences,
    )


def _compare_sentences(gold: Gold, answer: Answer) -> Comparison:
    distinct = {index for index in answer.sentences if index is not None}
    real = frozenset(distinct & set(range(len(gold.sentences))))
    nowhere = len(distinct) - len(real) + answer.sentences.count(None)
    chosen = real & gold.judged
    counts = _sentence_counts(gold, chosen)
    values: Values = {
        "tp": counts["sent_tp"],
        "right": counts["sent_tp"],
        "found": counts["sent_tp"],
        "n_pred": len(chosen) + nowhere,
        "n_gold": counts["sent_gold"],
        "bad_index": nowhere,
        "duplicates": len(answer.sentences) - answer.sentences.count(None) - len(distinct),
        **counts,
    }
    return Comparison(_floats(values), sentences=chosen)


def _of_humans(group: PlacedGroup) -> PlacedGroup:
    """Only the human marks of a group, with their labels."""
    marks = tuple(placed for placed in group.marks if placed.mark.finder == "human")
    labels = tuple(dict.fromkeys(placed.mark.label for placed in marks))
    return PlacedGroup(group.id, labels, marks)


def _span(prediction: Prediction) -> Span:
    assert prediction.location is not None
    return prediction.location.span


def _distinct(
    predictions: Iterable[Prediction],
) -> tuple[list[Prediction], list[Prediction], int]:
    """Located predictions in column order, those located nowhere, and the number of duplicates."""
    located: dict[tuple[Span, str | None], Prediction] = {}
    nowhere: list[Prediction] = []
    duplicates = 0
    for one in predictions:
        if one.location is None:
            nowhere.append(one)
        else:
            kept = located.setdefault((one.location.span, one.item.label), one)
            duplicates += kept is not one
    return sorted(located.values(), key=_span), nowhere, duplicates


def _without_left_out(
    gold: Gold, edges: Sequence[Edge], n_spans: int
) -> tuple[list[Edge], list[int]]:
    """Leave out the groups that do not count, and the spans matched to one of them."""
    if gold.settings.matching == "one_to_one":
        pairs = assign(edges, gold.settings.threshold)
        matched = {edge.column for edge in pairs if not gold.counted[edge.row]}
    else:
        right = {edge.column for edge in edges if gold.counted[edge.row]}
        matched = {edge.column for edge in edges} - right
    kept = [column for column in range(n_spans) if column not in matched]
    place = {column: at for at, column in enumerate(kept)}
    left = [
        edge._replace(column=place[edge.column])
        for edge in edges
        if gold.counted[edge.row] and edge.column in place
    ]
    return left, kept


def _best_by_row(edges: Sequence[Edge]) -> list[Edge]:
    best: dict[int, Edge] = {}
    for edge in edges:
        if edge.row not in best or edge.iou > best[edge.row].iou:
            best[edge.row] = edge
    return list(best.values())


def _by_slice(gold: Gold, found: frozenset[int]) -> Values:
    counts = {f"{kind}_{name}": 0.0 for name in GROUP_SLICES for kind in ("hit", "n")}
    for row in gold.rows():
        for name in gold.slices(row):
            counts[f"n_{name}"] += 1
            counts[f"hit_{name}"] += row in found
    return counts


def _sentence_counts(gold: Gold, chosen: frozenset[int]) -> Values:
    groups = [gold.groups[row] for row in gold.rows()]
    outside = sum(bool(g.spans) and not touched(gold.sentences, g.spans) for g in groups)
    return {
        "sent_tp": len(chosen & gold.erroneous),
        "sent_pred": len(chosen),
        "sent_gold": len(gold.erroneous),
        "sent_n": len(gold.judged),
        "sent_outside": outside,
    }


def _floats(values: Mapping[str, float]) -> Values:
    return {name: float(value) for name, value in values.items()}
