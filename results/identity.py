"""Which task a log belongs to, run by path or by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PACKAGE = "propensity"


@dataclass(frozen=True)
class TaskIdentity:
    """Task name without package, and the package (None: cannot be told)."""

    task: str
    package: str | None


@dataclass(frozen=True)
class TaskRun:
    """What decides whether two logs ran the same task."""

    identity: TaskIdentity
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Sameness:
    """The verdict and, where it is no, the reason."""

    same: bool
    message: str = ""


def task_identity(
    task: str, registry_name: str | None, metadata: Mapping[str, Any] | None
) -> TaskIdentity:
    """Tell task and package from a log's header.

    Args:
        task: `eval.task`.
        registry_name: `eval.task_registry_name`.
        metadata: `eval.metadata`; a `propensity_version` says that the task is ours
            although it was run by path.
    """
    package, _, name = (registry_name or task).rpartition("/")
    ours = PACKAGE if (metadata or {}).get("propensity_version") else None
    return TaskIdentity(name, package or ours)


def same_task(
    a: TaskRun, b: TaskRun, interface_defaults: Mapping[str, object] | None = None
) -> Sameness:
    """Whether two logs ran the same task (inspect 1.5).

    Args:
        a: Name, package and resolved arguments (`task_args`) of one log.
        b: The same of the other.
        interface_defaults: Parameter added later → the value that logs without it ran with.
    """
    for run in (a, b):
        if run.identity.package is None:
            return Sameness(
                False,
                f"cannot tell which package ran {run.identity.task!r}; re-run it by name "
                f"({PACKAGE}/{run.identity.task})",
            )
    if a.identity != b.identity:
        names = (f"{run.identity.package}/{run.identity.task}" for run in (a, b))
        return Sameness(False, " is not ".join(names))
    defaults = interface_defaults or {}
    for one, other in ((a.args, b.args), (b.args, a.args)):
        for name in sorted(set(one) - set(other)):
            if name not in defaults:
                return Sameness(False, f"only one of them has the parameter {name!r}")
            if one[name] != defaults[name]:
                return Sameness(
                    False,
                    f"{name}={one[name]!r}, but logs without {name!r} ran with {defaults[name]!r}",
                )
    return Sameness(True)
