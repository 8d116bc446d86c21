"""Where a span lies in a response: text to code-point offsets (specification 5).

Both sides are compared at five levels of likeness, strictest first. Every level is a view of the
text in which each character knows the source characters it stands for, so that a match always
leads back to offsets of the text as it is. Case and width are never folded: they may be the error.
"""

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

from propensity.scorers.judging.fences import fold

Level = Literal["exact", "nfc", "folded", "markdown", "trimmed"]
LEVELS: tuple[Level, ...] = get_args(Level)

PARAGRAPH_BREAK = "\n\n"


class Span(NamedTuple):
    """Code points [start, end) of a text."""

    start: int
    end: int


class Found(NamedTuple):
    """Occurrences of a needle at the first level that has any, in text order, none empty."""

    level: Level
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class View:
    """A rewritten text; character i stands for the source code points [starts[i], ends[i])."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str) -> "View":
        """A text as it is."""
        return cls(text, range(len(text)), range(1, len(text) + 1))

    def rewritten(self, pattern: re.Pattern[str], replace: Callable[[str], str]) -> "View":
        """Replace every match; what replaces it stands for all of the match."""
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        kept_from = 0
        for match in pattern.finditer(self.text):
            new = replace(match[0])
            if new == match[0]:
                continue
            start, end = match.span()
            pieces += (self.text[kept_from:start], new)
            starts += self.starts[kept_from:start]
            starts += [self.starts[start]] * len(new)
            ends += self.ends[kept_from:start]
            ends += [self.ends[end - 1]] * len(new)
            kept_from = end
        if not pieces:
            return self
        pieces.append(self.text[kept_from:])
        starts += self.starts[kept_from:]
        ends += self.ends[kept_from:]
        return View("".join(pieces), starts, ends)


class Locator:
    """Finds needles in one text; views are made when a stricter level has failed, and kept."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.paragraphs = paragraph_spans(text)
        self._views: dict[Level, View] = {"exact": View.of(text)}
        self._found: dict[tuple[str, Span], Found | None] = {}

    @property
    def everywhere(self) -> Span:
        """The whole text as a scope."""
        return Span(0, len(self.text))

    def view(self, level: Level) -> View:
        """The text as a level sees it."""
        if level not in self._views:
            if level == "trimmed":
                view = self.view("markdown")
            else:
                view = self.view(LEVELS[LEVELS.index(level) - 1])
                for pattern, replace in _steps(level, view.text):
                    view = view.rewritten(pattern, replace)
            self._views[level] = view
        return self._views[level]

    def find(self, needle: str, scope: Span) -> Found | None:
        """Find a needle inside a scope.

        Occurrences do not overlap (as `str.count` counts them). Matches are widened to whole
        source code points and then trimmed of outer white space.

        Returns:
            The occurrences at the first level that has any; None if no level has.
        """
        key = (needle, scope)
        if key not in self._found:
            self._found[key] = self._search(needle, scope)
        return self._found[key]

    def _search(self, needle: str, scope: Span) -> Found | None:
        tried: tuple[str, View] | None = None
        for level, form in needle_forms(needle):
            view = self.view(level)
            if form and (form, view) != tried:
                spans = tuple(dict.fromkeys(self._occurrences(form, view, scope)))
                if spans:
                    return Found(level, spans)
            tried = (form, view)
        return None

    def _occurrences(self, form: str, view: View, scope: Span) -> Iterator[Span]:
        at = bisect_left(view.starts, scope.start)
        last = bisect_right(view.ends, scope.end)
        while (at := view.text.find(form, at, last)) >= 0:
            start, end = view.starts[at], view.ends[at + len(form) - 1]
            while start < end and self.text[start].isspace():
                start += 1
            while start < end and self.text[end - 1].isspace():
                end -= 1
            if start < end:
                yield Span(start, end)
            at += len(form)


def paragraph_spans(text: str) -> tuple[Span, ...]:
    """Paragraphs of a response: what is left between blank lines, empty ones included."""
    spans, start = [], 0
    for paragraph in text.split(PARAGRAPH_BREAK):
        spans.append(Span(start, start + len(paragraph)))
        start += len(paragraph) + len(PARAGRAPH_BREAK)
    return tuple(spans)


def needle_forms(needle: str) -> Iterator[tuple[Level, str]]:
    """A needle as each level compares it; an empty form can match nothing."""
    form = needle
    for level in LEVELS:
        for pattern, replace in _steps(level, form):
            form = pattern.sub(lambda match, replace=replace: replace(match[0]), form)  # type: ignore[misc]
        if level in ("folded", "markdown"):
            form = form.strip()
        elif level == "trimmed":
            form = _without_outer_marks(form)
        yield level, form


_FOLDED: dict[str, str] = {
    **dict.fromkeys("“”„‟«»″＂", '"'),
    **dict.fromkeys("‘’‚‛′＇`´", "'"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
    "…": "...",
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0e\ufe0f", ""),
}
_WHITE_SPACE = re.compile(r"\s{2,}|[^\S ]")
_MARKDOWN = re.compile("[*_~#]")
_OUTER = frozenset("\"'<>.,;:!?-\u0964")
_OUTER_CATEGORIES = frozenset({"Ps", "Pe", "Pi", "Pf"})

Step = tuple[re.Pattern[str], Callable[[str], str]]


def _steps(level: Level, text: str) -> Sequence[Step]:
    """What a level does to the form of the level before it."""
    if level == "nfc" and not unicodedata.is_normalized("NFC", text):
        return [(_nfc_chunks(), lambda chunk: unicodedata.normalize("NFC", chunk))]
    if level == "folded":
        return [_folding(), (_WHITE_SPACE, lambda run: " ")]
    if level == "markdown":
        return [(_MARKDOWN, lambda mark: ""), (_WHITE_SPACE, lambda run: " ")]
    return []


@cache
def _folding() -> Step:
    """Fold marks that are written in several ways, and what the fence of a prompt folds.

    A judge that copies from the prompt copies the folded brackets.
    """
    characters = map(chr, range(0x10000))
    fenced = {one: new for one in characters if (new := fold(one, keep_zero_width=True)) != one}
    folded = fenced | _FOLDED
    return re.compile(f"[{''.join(sorted(folded))}]"), folded.__getitem__


@cache
def _nfc_chunks() -> re.Pattern[str]:
    """Match the chunks that NFC may change.

    A code point continues a chunk when the first code point of its NFD has a non-zero combining
    class, or is a starter that can be the second half of a canonical composition. The sets come
    from `unicodedata`, so they follow the interpreter's Unicode version.
    """
    characters = list(map(chr, range(sys.maxunicode + 1)))
    apart = {
        character: nfd
        for character in characters
        if (nfd := unicodedata.normalize("NFD", character)) != character
    }
    unstable = {one for one in apart if unicodedata.normalize("NFC", one) != one}
    seconds = {nfd[-1] for one, nfd in apart.items() if one not in unstable}
    firsts = ((one, apart.get(one, one)[0]) for one in characters)
    follows = "".join(
        one for one, first in firsts if unicodedata.combining(first) or first in seconds
    )
    return re.compile(f"[^{follows}]?[{follows}]+|[{''.join(sorted(unstable))}]")


def _without_outer_marks(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _is_outer(text[start]):
        start += 1
    while start < end and _is_outer(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_outer(character: str) -> bool:
    return (
        character in _OUTER
        or character.isspace()
        or unicodedata.category(character) in _OUTER_CATEGORIES
    )
