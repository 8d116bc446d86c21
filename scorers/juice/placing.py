"""Which occurrence a mark or a prediction means (specification 5, scope and occurrence)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from propensity.scorers.juice.location import PARAGRAPH_BREAK, Found, Level, Locator, Span
from propensity.scorers.juice.records import Group, Mark
from propensity.scorers.juice.taxonomy import Label


class Location(NamedTuple):
    """A place in the text, and how like the needle it is."""

    span: Span
    level: Level


@dataclass(frozen=True)
class PlacedMark:
    """A mark with its locations: several if it lists several paragraphs, none if not found.

    `moved`: no listed paragraph has it, so the whole response was searched.
    """

    mark: Mark
    locations: tuple[Location, ...]
    moved: bool


@dataclass(frozen=True)
class PlacedGroup:
    """A group with the marks that are gold in this run, each with its locations."""

    id: str
    labels: tuple[Label, ...]
    marks: tuple[PlacedMark, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """All locations of all members."""
        return tuple(location.span for mark in self.marks for location in mark.locations)


class Item(NamedTuple):
    """One predicted span as the judge gave it.

    Attributes:
        paragraph: 0-based; None when it is no whole number.
        occurrence: From 1 within the paragraph; None when none is given.
        label: None when none, or an unknown one, is given.
    """

    span: str
    paragraph: int | None
    occurrence: int | None = None
    label: Label | None = None
    explanation: str = ""


@dataclass(frozen=True)
class Prediction:
    """A predicted span; `location` is None when the response has no such text.

    `moved`: not where the judge said, so the whole response was searched.
    """

    item: Item
    location: Location | None
    moved: bool


def place_gold(locator: Locator, groups: Sequence[Group]) -> list[PlacedGroup]:
    """Locate every mark of every group, in file order.

    A mark has a location in each listed paragraph that holds it. Where several groups mark the
    same text in the same paragraph, the i-th takes the i-th occurrence and the surplus the last.
    """
    ranks: defaultdict[tuple[str, Span], dict[str, int]] = defaultdict(dict)

    def located(mark: Mark, group: str, scopes: Iterable[Span]) -> Iterable[Location]:
        for scope in scopes:
            found = locator.find(mark.span, scope)
            if found is not None:
                taken = ranks[mark.span, scope]
                rank = taken.setdefault(group, len(taken))
                yield Location(found.spans[min(rank, len(found.spans) - 1)], found.level)

    placed = []
    for group in groups:
        marks = []
        for mark in group.marks:
            scopes = (_scope(locator, mark.span, index) for index in mark.paragraphs)
            stated = dict.fromkeys(located(mark, group.id, filter(None, dict.fromkeys(scopes))))
            moved = not stated
            locations = stated or dict.fromkeys(
                located(mark, group.id, [locator.everywhere]),
            )
            marks.append(PlacedMark(mark, tuple(locations), moved))
        placed.append(PlacedGroup(group.id, group.labels, tuple(marks)))
    return placed


def place_predictions(locator: Locator, items: Sequence[Item]) -> list[Prediction]:
    """Locate every predicted span, in the judge's order.

    Without an occurrence, a repeat of a text takes its next occurrence in the stated paragraph.
    What is not there is searched in the whole response, where it takes the first occurrence
    that no earlier prediction of the same text took.
    """
    return _Places(locator).place(items)


class _Places:
    """Occurrences taken so far, by needle."""

    def __init__(self, locator: Locator) -> None:
        self.locator = locator
        self.taken: defaultdict[str, set[Span]] = defaultdict(set)
        self.cursors: defaultdict[tuple[str, Span], int] = defaultdict(int)

    def place(self, items: Sequence[Item]) -> list[Prediction]:
        placed = []
        for item in items:
            location, moved = self._locate(item)
            if location is not None:
                self.taken[item.span].add(location.span)
            placed.append(Prediction(item, location, moved))
        return placed

    def _locate(self, item: Item) -> tuple[Location | None, bool]:
        """Return where the item lies, and whether that is another place than it says."""
        if not item.span.strip():
            return None, False
        scope = _scope(self.locator, item.span, item.paragraph)
        stated = self.locator.find(item.span, scope) if scope is not None else None
        if stated is not None and scope is not None:
            span = self._stated(item, stated, scope)
            if span is not None:
                return Location(span, stated.level), False
        everywhere = self.locator.everywhere
        found = self.locator.find(item.span, everywhere)
        if found is None:
            return None, False
        free = self._free(item.span, found, everywhere)
        if free is not None:
            return Location(free, found.level), True
        if stated is not None:
            # Every occurrence is taken: the repeat stays where it was said to be.
            return Location(stated.spans[-1], stated.level), False
        return Location(found.spans[-1], found.level), True

    def _stated(self, item: Item, found: Found, scope: Span) -> Span | None:
        if item.occurrence is None:
            return self._free(item.span, found, scope)
        if 1 <= item.occurrence <= len(found.spans):
            return found.spans[item.occurrence - 1]
        return None

    def _free(self, needle: str, found: Found, scope: Span) -> Span | None:
        """The first occurrence in a scope that no earlier prediction of the needle took."""
        at, taken = self.cursors[needle, scope], self.taken[needle]
        while at < len(found.spans) and found.spans[at] in taken:
            at += 1
        self.cursors[needle, scope] = at
        return found.spans[at] if at < len(found.spans) else None


def _scope(locator: Locator, needle: str, paragraph: int | None) -> Span | None:
    """Where a needle said to stand in a paragraph is searched; None without such a paragraph.

    A needle with a blank line may run from its paragraph into the next ones.
    """
    if paragraph is None or not 0 <= paragraph < len(locator.paragraphs):
        return None
    scope = locator.paragraphs[paragraph]
    if PARAGRAPH_BREAK in needle.strip():
        return Span(scope.start, len(locator.text))
    return scope
