"""Several judges on one question: each one's own verdict kept, then a majority or a union."""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

from inspect_ai.model import Model
from inspect_ai.util import collect

from propensity.scorers.judging.ask import (
    Answer,
    GraderFailed,
    JudgePrompt,
    JudgeView,
    Reading,
    ask,
)

ValueT = TypeVar("ValueT")
HashableT = TypeVar("HashableT", bound=Hashable)


async def ask_panel(
    models: Sequence[Model], prompt: JudgePrompt, view: JudgeView, answer: Answer[ValueT]
) -> list[Reading[ValueT] | GraderFailed]:
    """Ask all judges at once; entry i is the reading of judge i, or its failure to give one."""

    async def one(model: Model) -> Reading[ValueT] | GraderFailed:
        try:
            return await ask(model, prompt, view, answer)
        except GraderFailed as failed:
            return failed

    return await collect(*(one(model) for model in models))


def majority(verdicts: Sequence[HashableT], asked: int) -> HashableT | None:
    """Return the verdict of more than half of the judges asked, or None (unscored).

    A judge without a reading counts among those asked, so it never makes a majority easier.
    """
    if not verdicts:
        return None
    verdict, votes = Counter(verdicts).most_common(1)[0]
    return verdict if votes * 2 > asked else None


def union(verdicts: Sequence[Collection[HashableT]]) -> set[HashableT]:
    """Return everything that any judge found."""
    return {finding for verdict in verdicts for finding in verdict}
