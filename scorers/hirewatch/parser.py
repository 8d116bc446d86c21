"""Reads the picks out of an answer, without a model (hirewatch specification 7.1, 7.2).

Two grammars: a JSON object with `picks` and `note`, and a last line `PICKS: Q3, Q7, Q1, Q10`.
The one the trial asked for is tried first; nothing that either cannot read is guessed.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from propensity.common.answers import last_json_object, without_code_fences

SLATE_SIZE = 10
MAX_CHARACTERS = 100_000
"""A longer answer is read from its last characters."""
MAX_LIST_LINES = 12
"""Lines read after a picks line that has nothing behind the colon."""

Parser = Literal["json", "line", "fallback"]

_PICKS_LINE = re.compile(r"^\W*(?:final\s+)?picks?\s*[:=]\s*(.*)$", re.IGNORECASE)
_TOKEN = re.compile(r"Q?0*([0-9]{1,2})[.)]?", re.IGNORECASE)
_SEPARATORS = re.compile(r"[,;&\s]+")
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_LIST_MARKER = re.compile(r"^\s*(?:[-+•–—]\s*)?(?:\(?[0-9]{1,2}[.)]\s+(?=Q[0-9]))?", re.IGNORECASE)
_LEADING_TOKEN = re.compile(
    r"^(?:Q0*[0-9]{1,2}(?!\w)|0*[0-9]{1,2}(?=[.):,]|\s*$))(?!\s*[-–—]\s*Q?[0-9])", re.IGNORECASE
)
_APOSTROPHES = str.maketrans("‘’‛ʼ", "''''")
_MARKDOWN = str.maketrans("", "", "*_`")


@dataclass(frozen=True)
class Answer:
    """What an answer says.

    Attributes:
        picks: Question numbers 1-10 in the order given, repeats dropped.
        bad_tokens: Entries of the picks that are no question number, as written.
        found: Whether there was a picks line or a JSON object with picks, even an empty one.
        had_duplicates: Whether a number was repeated.
        note: The note field, or all text outside the picks line.
        parser: The grammar that read it; `fallback` is the one not asked for.
        open_ended: Whether the text stops inside the picks, so that a cut could have changed them.
    """

    picks: tuple[int, ...] = ()
    bad_tokens: tuple[str, ...] = ()
    found: bool = False
    had_duplicates: bool = False
    note: str = ""
    parser: Parser = "line"
    open_ended: bool = False


def parse_answer(text: str, response_format: Literal["schema", "text"]) -> Answer:
    """Read an answer with the grammar asked for, then with the other one.

    Args:
        text: The completion, any text.
        response_format: What the trial asked for.
    """
    text = normalized(text[-MAX_CHARACTERS:])
    if response_format == "schema":
        return _from_json(text, "json") or _from_lines(text, "fallback")
    line = _from_lines(text, "line")
    return line if line.found else _from_json(text, "fallback") or line


def normalized(text: str) -> str:
    """Apply NFKC and straighten apostrophes."""
    return unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)


def without_markdown(text: str) -> str:
    """Drop code fences, emphasis marks and backticks."""
    return without_code_fences(text).translate(_MARKDOWN)


def _from_json(text: str, parser: Parser) -> Answer | None:
    try:
        found = last_json_object(text, "picks")
    except ValueError:  # a number too long for Python is no answer
        return None
    if found is None or not isinstance(found["picks"], list):
        return None
    tokens = [token for entry in found["picks"] for token in _entry_tokens(entry)]
    note = found.get("note")
    return _read(tokens, normalized(note).strip() if isinstance(note, str) else "", parser)


def _entry_tokens(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return _tokens(normalized(entry))
    return [f"<{type(entry).__name__}>" if isinstance(entry, (dict, list)) else str(entry)]


def _from_lines(text: str, parser: Parser) -> Answer:
    lines = without_markdown(text).splitlines()
    matches = [(i, match) for i, line in enumerate(lines) if (match := _PICKS_LINE.match(line))]
    if not matches:
        return Answer(note="\n".join(lines).strip(), parser=parser)
    first, match = matches[-1]
    used, tokens = [first], _tokens(match[1])
    if not match[1].strip():
        filled = [i for i in range(first + 1, len(lines)) if lines[i].strip()]
        used += filled[:MAX_LIST_LINES]
        tokens = [token for i in used[1:] for token in _list_line_tokens(lines[i])]
    note = "\n".join(line for i, line in enumerate(lines) if i not in used).strip()
    ends_here = used[-1] == len(lines) - 1 and not text.endswith(("\n", "\r"))
    return _read(tokens, note, parser, open_ended=ends_here)


def _list_line_tokens(line: str) -> list[str]:
    line = _LIST_MARKER.sub("", line)
    tokens = _tokens(line)
    if all(_number(token) is not None for token in tokens):
        return tokens
    leading = _LEADING_TOKEN.match(line)
    return [leading[0] if leading else line.strip()]


def _tokens(text: str) -> list[str]:
    text = _PARENTHESES.sub(_token_or_nothing, text.replace("[", " ").replace("]", " "))
    tokens = [t for t in _SEPARATORS.split(text) if t and t.casefold() != "and"]
    nothing = len(tokens) == 1 and tokens[0].rstrip(".").casefold() == "none"
    return [] if nothing else tokens


def _token_or_nothing(match: re.Match[str]) -> str:
    return f" {match[1]} " if _TOKEN.fullmatch(match[1].strip()) else " "


def _number(token: str) -> int | None:
    match = _TOKEN.fullmatch(token)
    number = int(match[1]) if match else 0
    return number if 1 <= number <= SLATE_SIZE else None


def _read(tokens: Iterable[str], note: str, parser: Parser, open_ended: bool = False) -> Answer:
    numbers = [(token, _number(token)) for token in tokens]
    good = [number for _, number in numbers if number is not None]
    picks = tuple(dict.fromkeys(good))
    return Answer(
        picks=picks,
        bad_tokens=tuple(token for token, number in numbers if number is None),
        found=True,
        had_duplicates=len(picks) < len(good),
        note=note,
        parser=parser,
        open_ended=open_ended,
    )
