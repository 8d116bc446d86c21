"""Responses and answers for tests of JuICE, written as offsets."""

from collections.abc import Sequence

from propensity.scorers.juice.answers import Answer
from propensity.scorers.juice.comparison import Gold, Values, compare
from propensity.scorers.juice.location import Span, paragraph_spans
from propensity.scorers.juice.placing import Item
from propensity.scorers.juice.records import Group, Mark, Response, Settings
from propensity.scorers.juice.taxonomy import Finder, Label

Offsets = tuple[int, int]
EXPLICIT: Label = "Explicit Linguistic Error"


def distinct(*lengths: int) -> str:
    """Paragraphs of the given lengths in which no character stands twice."""
    paragraphs, at = [], 0x4E00
    for length in lengths:
        paragraphs.append("".join(map(chr, range(at, at + length))))
        at += length
    return "\n\n".join(paragraphs)


def paragraph_of(text: str, start: int) -> int:
    return next(i for i, span in enumerate(paragraph_spans(text)) if start <= span.end)


def group(
    text: str,
    group_id: str,
    members: Sequence[Offsets],
    *labels: Label,
    finders: Sequence[Finder] = (),
    criticality: str | None = None,
) -> Group:
    """A group whose marks are the given stretches; one label for all, or one each."""
    labels = labels or (EXPLICIT,)
    marks = [
        Mark(
            span=text[start:end],
            paragraphs=(paragraph_of(text, start),),
            label=labels[min(place, len(labels) - 1)],
            finder=finders[place] if finders else "synthetic",
            criticality=criticality,
        )
        for place, (start, end) in enumerate(members)
    ]
    return Group(id=group_id, labels=labels, marks=tuple(marks))


def response(text: str, *groups: Group, language: str = "en", model: str = "writer") -> Response:
    return Response(text=text, language=language, model=model, groups=groups)


def answer(text: str, *spans: Offsets, absent: int = 0) -> Answer:
    """An answer with the given stretches, and some texts that are not in the response."""
    items = [Item(text[start:end], paragraph_of(text, start)) for start, end in spans]
    items += [Item(f"nowhere {place}", 0) for place in range(absent)]
    return Answer(items=tuple(items))


def scored(of: Response, given: Answer, **settings: object) -> Values:
    """Counts of one answer."""
    return compare(Gold(of, Settings.model_validate(settings)), given).values


X_TEXT, Y_TEXT, Z_TEXT = distinct(48, 50), distinct(60), distinct(40)
FIXTURE = (
    response(
        X_TEXT,
        group(X_TEXT, "X0", [(0, 10)], "Explicit Linguistic Error"),
        group(X_TEXT, "X1", [(20, 30), (20, 40)], "Cultural Incoherence"),
        group(X_TEXT, "X2", [(60, 64)], "Cultural Missingness"),
        group(X_TEXT, "X3", [(80, 100)], "Cultural Inaccuracy"),
    ),
    response(
        Y_TEXT,
        group(Y_TEXT, "Y0", [(5, 25)], "Cultural Specificity Error"),
        Group(
            id="Y1",
            labels=("Cultural Connotation Error", "Cultural Inaccuracy"),
            marks=(
                Mark(
                    span=Y_TEXT[15:45],
                    paragraphs=(0,),
                    label="Cultural Connotation Error",
                    finder="synthetic",
                ),
            ),
        ),
    ),
    response(Z_TEXT),
)
"""Fixture F of the specification: responses X, Y and Z."""


def spans_of(pairs: Sequence[Sequence[Offsets]]) -> list[list[Span]]:
    return [[Span(*offsets) for offsets in members] for members in pairs]
