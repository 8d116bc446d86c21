"""What a benchmark hands to `propensity verify`: runs with known results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from inspect_ai import Task
from inspect_ai.log import EvalLog
from inspect_ai.model import Model
from inspect_ai.solver import Solver


class Check(NamedTuple):
    """One expectation and what the run showed; equal texts agree."""

    what: str
    expected: str
    observed: str

    @property
    def agrees(self) -> bool:
        """Whether expected and observed are the same."""
        return self.expected == self.observed


@dataclass(frozen=True)
class VerifyCase:
    """One run of a reference policy through the real task and scorer."""

    label: str
    task: Task
    check: Callable[[EvalLog], Sequence[Check]]
    solver: Solver | None = None
    model_roles: Mapping[str, str | Model] = field(default_factory=dict)
