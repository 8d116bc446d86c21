"""Checks of task parameters: every fault of one call at once, before any model call."""

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard


def nearest(name: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def described(value: object) -> str:
    """Show a value with its type, and how to quote what YAML turned into a boolean."""
    return f"{value!r} ({type(value).__name__})"


class Checks:
    """Collects the faults of one task call; `done` raises them together.

    Values given with `-T` went through YAML: `no` is `False`, `01` is 1, `a,b` is a list.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.faults: list[str] = []
        self._unknown = False

    def unknown(self, given: Mapping[str, object], known: Collection[str]) -> None:
        """Fault every parameter that the task does not have."""
        for name in given:
            self._unknown = True
            self.faults.append(
                f"{self.task} has no parameter {name!r}{nearest(name, known)}"
                f"; known: {', '.join(sorted(known))}"
            )

    def one_of(self, name: str, value: object, allowed: Sequence[str]) -> None:
        """Fault a value that is not one of the allowed texts."""
        if not isinstance(value, str) or value not in allowed:
            shown = ", ".join(str(choice) for choice in allowed)
            if isinstance(value, bool):
                word = "yes" if value else "no"
                hint = f"; YAML makes a bare {word} a boolean, quote it: -T \"{name}='{word}'\""
            else:
                hint = nearest(value, allowed) if isinstance(value, str) else ""
            self.faults.append(f"{name} must be one of {shown}, got {described(value)}{hint}")

    def integer(
        self, name: str, value: object, *, low: int | None = None, high: int | None = None
    ) -> None:
        """Fault anything but an integer in [low, high]; booleans are no integers."""
        if not isinstance(value, int) or isinstance(value, bool):
            self.faults.append(f"{name} must be an integer, got {described(value)}")
        elif (low is not None and value < low) or (high is not None and value > high):
            self.faults.append(f"{name} must be {_span(low, high)}, got {value}")

    def number(
        self,
        name: str,
        value: object,
        *,
        above: float | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        """Fault anything but a finite number in the given range (`above` is exclusive)."""
        if not _is_number(value) or not math.isfinite(value):
            self.faults.append(f"{name} must be a number, got {described(value)}")
        elif above is not None and value <= above:
            self.faults.append(f"{name} must be above {above}, got {value}")
        elif (low is not None and value < low) or (high is not None and value > high):
            self.faults.append(f"{name} must be {_span(low, high)}, got {value}")

    def boolean(self, name: str, value: object) -> None:
        """Fault anything but true or false."""
        if not isinstance(value, bool):
            self.faults.append(f"{name} must be true or false, got {described(value)}")

    def text(self, name: str, value: object, *, optional: bool = True) -> None:
        """Fault anything but a non-empty text (or nothing, where optional)."""
        if value is None and optional:
            return
        if not isinstance(value, str) or not value.strip():
            self.faults.append(f"{name} must be a text, got {described(value)}")

    def names(self, name: str, value: object, allowed: Sequence[str]) -> list[str]:
        """Turn a list, comma text or `all` into names; fault unknown and repeated ones."""
        if value is None or value == "all":
            return list(allowed)
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)) or not all(isinstance(p, str) for p in parts):
            self.faults.append(f"{name} must be a list or comma text, got {described(value)}")
            return []
        picked = [part.strip() for part in parts if part.strip()]
        bad = [part for part in picked if part not in allowed]
        for part in bad:
            self.faults.append(
                f"{name} has no {part!r}{nearest(part, allowed)}; known: {', '.join(allowed)}"
            )
        if not picked:
            self.faults.append(f"{name} selects nothing; known: {', '.join(allowed)}")
        if len(set(picked)) != len(picked):
            self.faults.append(f"{name} names something twice: {', '.join(picked)}")
        return picked

    def fault(self, message: str) -> None:
        """Add a fault found by the task itself."""
        self.faults.append(message)

    def done(self) -> None:
        """Raise what was collected.

        Raises:
            TypeError: a parameter does not exist.
            ValueError: a value is of the wrong type or not allowed.
        """
        if self.faults:
            message = "\n".join(self.faults)
            raise TypeError(message) if self._unknown else ValueError(message)


def reject_unknown(task: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise `TypeError` for a parameter that the task does not have."""
    checks = Checks(task)
    checks.unknown(given, known)
    checks.done()


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _span(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"from {low} to {high}"
