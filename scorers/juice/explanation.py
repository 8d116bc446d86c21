"""The text beside a score: gold spans and predicted ones, each pair one above the other."""

from collections.abc import Iterable, Iterator, Sequence

from propensity.common.columns import columns
from propensity.scorers.juice.answers import Answer
from propensity.scorers.juice.comparison import Comparison, Gold
from propensity.scorers.juice.location import Span
from propensity.scorers.juice.placing import PlacedGroup, Prediction

MAX_ROWS = 200
MAX_TEXT = 80
"""Most entries, and longest quotation in characters."""
Row = tuple[str, str, str]
UNIT_NAMES = {"codepoint": "code points", "grapheme": "graphemes", "word": "words"}


def explain(gold: Gold, answer: Answer, comparison: Comparison) -> str:
    """Write what was found, missed and invented."""
    lines = [_summary(gold, comparison)]
    if answer.reason is not None:
        lines.append(f"No readable answer ({answer.reason}): counted as no prediction.")
    if gold.settings.protocol == "spans":
        found = [
            *_gold_rows(gold, comparison),
            *_other_rows(comparison),
            *(("nowhere", "", _prediction(one)) for one in comparison.nowhere),
        ]
        rows = [list(_lines(*row)) for row in found]
    else:
        rows = [[row] for row in _sentence_rows(gold, answer, comparison)]
    if rows:
        lines += ["", *columns([line for row in rows[:MAX_ROWS] for line in row])]
    if len(rows) > MAX_ROWS:
        lines.append(f"… and {len(rows) - MAX_ROWS} more")
    return "\n".join(lines)


def quoted(text: str) -> str:
    """A text on one line, cut to `MAX_TEXT`, that a log can hold."""
    shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return shown.replace("\n", "⏎").encode("utf-8", "backslashreplace").decode("utf-8")


def _summary(gold: Gold, comparison: Comparison) -> str:
    values, settings = comparison.values, gold.settings
    n_pred, n_gold = values["n_pred"], values["n_gold"]
    if settings.protocol == "sentences":
        rule = "sentences"
    elif settings.matching == "any_overlap":
        rule = "any overlap"
    else:
        rule = f"one to one, IoU ≥ {settings.threshold:g} in {UNIT_NAMES[settings.unit]}"
    return (
        f"{values['right']:g} of {n_pred:g} predictions right, "
        f"{values['found']:g} of {n_gold:g} found ({rule})"
    )


def _gold_rows(gold: Gold, comparison: Comparison) -> Iterable[Row]:
    pairs = {edge.row: edge for edge in comparison.pairs}
    for row, group in enumerate(gold.groups):
        edge = pairs.get(row)
        if not gold.counted[row]:
            yield "left out", _group(gold, group), ""
        elif edge is None:
            yield "missed", _group(gold, group), ""
        else:
            predicted = _prediction(comparison.columns[edge.column])
            yield "found", _group(gold, group), f"{predicted}, IoU {edge.iou:.2f}"


def _other_rows(comparison: Comparison) -> Iterable[Row]:
    paired = {edge.column for edge in comparison.pairs}
    for column, prediction in enumerate(comparison.columns):
        if column not in paired:
            verdict = "right too" if column in comparison.right else "not gold"
            yield verdict, "", _prediction(prediction)
    counted = {id(prediction) for prediction in comparison.columns}
    for prediction in comparison.located:
        if id(prediction) not in counted:
            yield "left out", "", _prediction(prediction)


def _sentence_rows(gold: Gold, answer: Answer, comparison: Comparison) -> Iterable[Row]:
    for index, sentence in enumerate(gold.sentences):
        chosen, erroneous = index in comparison.sentences, index in gold.erroneous
        if chosen or erroneous:
            verdict = "found" if chosen and erroneous else "not gold" if chosen else "missed"
            yield verdict, "sentence", f"[{index}] {_cut(gold, sentence)}"
    known = range(len(gold.sentences))
    for entry in dict.fromkeys(answer.sentences):
        if entry not in known:
            yield "no such", "sentence", "no number" if entry is None else str(entry)[:20]


def _lines(verdict: str, gold: str, predicted: str) -> Iterator[Row]:
    """Gold above what was predicted for it: side by side they would not fit."""
    sides = [(name, text) for name, text in (("gold", gold), ("predicted", predicted)) if text]
    for place, (name, text) in enumerate(sides):
        yield "" if place else verdict, name, text


def _group(gold: Gold, group: PlacedGroup) -> str:
    labels = ", ".join(group.labels)
    if not group.spans:
        return f"“{quoted(group.marks[0].mark.span)}” not in the text ({labels})"
    span, *others = group.spans
    also = f" and {len(others)} more" if others else ""
    return f"{_place(span)} {_cut(gold, span)}{also} ({labels})"


def _prediction(prediction: Prediction) -> str:
    item, location = prediction.item, prediction.location
    label = f" ({item.label})" if item.label else ""
    if location is None:
        return f"“{quoted(item.span)}” not in the text{label}" if item.span.strip() else "no text"
    moved = ", not where stated" if prediction.moved else ""
    return f"{_place(location.span)} “{quoted(item.span)}”{label}{moved}"


def _cut(gold: Gold, span: Span) -> str:
    return f"“{quoted(gold.response.text[span.start : span.end])}”"


def _place(span: Sequence[int]) -> str:
    return f"{span[0]}–{span[1]}"
