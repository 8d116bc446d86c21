"""Judge models by role: bound, or refused before the first answer; never the subject by silence."""

from collections.abc import Mapping

from inspect_ai.model import Model, get_model, model_roles
from inspect_ai.solver import Generate, Solver, TaskState, solver


class RoleUnbound(ValueError):
    """A judge role that the run needs has no model."""

    def __init__(self, role: str) -> None:
        super().__init__(
            f"the model role {role!r} is not bound; add --model-role {role}=PROVIDER/MODEL "
            "(a judge never defaults to the model under test)"
        )


def judge_models(role: str, *, falls_back_to: str | None = None) -> list[Model]:
    """Return the models bound to a judge role, in order.

    Args:
        role: Inspect model role.
        falls_back_to: Another role whose models are taken when this one is unbound.

    Raises:
        RoleUnbound: neither role is bound.
    """
    roles: Mapping[str, Model | list[Model]] = model_roles()
    bound = roles.get(role)
    if bound is None and falls_back_to is not None:
        bound = roles.get(falls_back_to)
    if bound is None:
        raise RoleUnbound(role)
    return bound if isinstance(bound, list) else [bound]


def self_graded(role: str) -> bool:
    """Say whether a judge of the role is the model under test (reports warn about it)."""
    subject = str(get_model())  # inspect-evals-lint: ignore[IEBP001] -- called by scorers only
    return any(str(model) == subject for model in judge_models(role))


@solver
def require_roles(*roles: str) -> Solver:
    """Set-up step that stops a sample before any call when a judge role is unbound."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for role in roles:
            judge_models(role)
        return state

    return solve
