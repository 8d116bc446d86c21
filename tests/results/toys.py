"""Tiny real Inspect tasks that carry the store's contract, for tests of the store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from propensity.common.units import score_metadata

NAN = float("nan")


def metadata(headline_key: str = "hit", **more: Any) -> dict[str, Any]:
    """Task metadata as `task_metadata` builds it."""
    return {
        "full_task_version": "1-A",
        "task_comparability_version": 1,
        "task_interface_version": "A",
        "propensity_version": "0.1.0",
        "data_sha256": {"toy.yaml": "ab" * 32},
        "prompt_versions": {"toy": "3"},
        "headline_key": headline_key,
        "keys": {headline_key: {"range": [0, 1], "lower_is_better": True, "label": "hits"}},
        "factors": {"seed": 0, "mode": "ours"},
        "contrasts": [],
        "cluster_label": "place",
    } | more


@metric(scores="unreduced")
def hit_rate() -> Metric:
    """A metric over what was scored; its value is of no interest here."""

    def compute(scores: list[SampleScore]) -> float:
        return float(len(scores))

    return compute


@scorer(metrics=[hit_rate()])
def toy_score() -> Scorer:
    """Returns what the sample's metadata prescribes for the subject and epoch."""

    async def score(state: TaskState, target: Target) -> Score:
        prescribed = state.metadata["score"]
        if callable(prescribed):
            prescribed = prescribed(state)
        if isinstance(prescribed, BaseException):
            raise prescribed
        if isinstance(prescribed, Score):
            return prescribed
        return Score(value=prescribed)

    return score


@scorer(metrics=[hit_rate()])
def toy_adjudicated() -> Scorer:
    """A copy of the raw score until somebody edits it."""
    raw = toy_score()

    async def score(state: TaskState, target: Target) -> Score:
        found = await raw(state, target)
        assert found is not None
        return found

    return score


@solver
def toy_policy(name: str = "always", seed: int = 0) -> Solver:
    """Answers with its name; two more messages, so that texts can be pointed at."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.messages += [
            ChatMessageUser(content="first prompt " + "p" * 300),
            ChatMessageAssistant(content=f"first answer of {name}"),
        ]
        state.output = ModelOutput.from_content("none/none", name)
        return state

    return solve


def sample(sample_id: str, score: Any = 1.0, **more: Any) -> Sample:
    """A sample with a prescribed score; further fields go into its metadata."""
    return Sample(id=sample_id, input="question", metadata={"score": score} | more)


@dataclass
class Made:
    """What a toy task is built of; kept aside, since a log keeps arguments as plain data."""

    samples: Sequence[Sample]
    about: Mapping[str, Any]


MADE: dict[str, Made] = {}


@task(name="toy")
def toy_task(
    made: str = "", epochs: int = 1, adjudicated: bool = False, unit: str = "codepoint"
) -> Task:
    """The toy task out of `MADE`."""
    return Task(
        dataset=list(MADE[made].samples),
        solver=toy_policy(),
        scorer=[toy_score(), toy_adjudicated()] if adjudicated else [toy_score()],
        epochs=Epochs(epochs, "mean"),
        version=1,
        metadata=dict(MADE[made].about),
        headline_metric="toy_score.hit_rate",
        tags=["propensity", "toy"],
    )


def toy(
    samples: Sequence[Sample],
    *,
    about: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Task:
    """A toy task of these samples."""
    name = f"made-{len(MADE)}"
    MADE[name] = Made(samples, metadata() if about is None else about)
    return toy_task(made=name, **arguments)


def trials(records: Sequence[Mapping[str, Any]], value: Any = 1.0) -> Score:
    """A score that carries unit records."""
    return Score(value=value, metadata=score_metadata(units=records))
