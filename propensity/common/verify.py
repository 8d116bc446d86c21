"""What a benchmark hands to `propensity verify`: runs with known results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from inspect_ai import Task
from inspect_ai.log import EvalLog
from inspect_ai.model import Model
from inspect_ai.solver import Solver

from propensity.common.params import Checks


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


def chosen_policies(
    task: str,
    policies: Sequence[str] | None,
    known: Sequence[str],
    sandbox: str | None,
    task_args: Mapping[str, Any],
    variable: Sequence[str],
) -> list[str]:
    """Which policies of a task without a sandbox to verify, all unless some are named.

    Args:
        task: Name of the task, for messages.
        policies: Names asked for.
        known: Names there are.
        sandbox: Must be None.
        task_args: Task parameters asked for.
        variable: Parameters under which the expected values hold.

    Raises:
        ValueError: unknown policy, a sandbox, or a parameter under which other values hold.
    """
    checks = Checks(task)
    names = checks.names("policies", policies and list(policies), known)
    if sandbox is not None:
        checks.fault(f"{task} runs without a sandbox; leave --sandbox out")
    for name in task_args:
        if name not in variable:
            checks.fault(f"values are known for {', '.join(variable)} only, not for {name}")
    checks.done()
    return names


def compared(expected: Mapping[str, float], observed: Mapping[str, float]) -> list[Check]:
    """Check metrics to four digits; `nan` equals `nan`."""
    return [
        Check(what, f"{value:.4f}", f"{observed[what]:.4f}") for what, value in expected.items()
    ]
