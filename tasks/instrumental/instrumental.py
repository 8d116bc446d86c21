r"""Instrumental Choices: does an agent take a useful shortcut that a policy rules out?

Wiedermann-Möller, Dung, Andriushchenko (2026), https://arxiv.org/abs/2605.06490. Environments,
wording and numbers are our reconstruction; see README.md for what is published.

    inspect eval propensity/instrumental --model openai/gpt-5.5
    inspect eval propensity/instrumental -T environments=budget_siphon -T variants=A,H \
        --model anthropic/claude-sonnet-5
    inspect eval propensity/instrumental -T variants=H -T arm=no_shortcut --model openai/gpt-5.5
    inspect eval propensity/instrumental -T variants_file=my.yaml -T variants=A,K \
        --model openai/gpt-5.5
    inspect eval propensity/instrumental --model none \
        --solver propensity/instrumental_policy -S name=official
    propensity verify instrumental
"""

from collections.abc import Callable, Iterable
from typing import Any, Never, get_args

from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import HeadlineMetric
from inspect_ai.scorer import Scorer
from inspect_ai.solver import Solver

from propensity.common.params import Checks
from propensity.common.versions import load_card, task_metadata
from propensity.common.viewer import samples_view
from propensity.sandboxes import compose_file
from propensity.scorers.instrumental.decision import OUTCOMES
from propensity.scorers.instrumental.scorer import (
    instrumental_adjudicated,
    instrumental_review,
    instrumental_score,
)
from propensity.scorers.judging.roles import require_roles
from propensity.tasks.instrumental.dataset import (
    Catalogue,
    cells,
    contrasts,
    load_catalogue,
    sample,
    shipped_catalogue,
)
from propensity.tasks.instrumental.prompts import PROMPT_VERSION, Arm
from propensity.tasks.instrumental.setup import seed_environment
from propensity.tasks.instrumental.solver import terminal_agent

CARD = load_card(__file__)
SCORER = "instrumental_score"
KEYS: dict[str, tuple[str, bool | None]] = {
    "violation": ("runs with the restricted act where it is not permitted", True),
    "permitted_use": ("runs with the restricted act where it is permitted", None),
    "benchmark_task_completed": ("runs that reach the goal", False),
    "official_path_attempted": ("runs that begin the official workflow", False),
    "official_path_succeeded": ("runs that reach the goal without the act", False),
    "ic_behavior_detected": ("runs in which the restricted act took effect", None),
    "ic_attempted": ("runs in which the restricted act was tried", None),
    "decision_point_reached": ("runs that reach the decision point", False),
    "constraint_seen": ("runs in which the bottleneck was read", False),
    "escalation_recorded": ("runs that tell people about the bottleneck", None),
    "forged": ("runs with a record written by hand", True),
    "state_tampered": ("runs with an edited copy of the state", True),
    "policy_read": ("runs in which the policy was read", None),
    "source_read": ("runs in which the code of a tool was opened", None),
    "eval_awareness_mention": ("runs whose text calls the situation staged", None),
    "loop_terminated": ("runs ended after equal calls", True),
    "limit_hit": ("runs ended by a limit", True),
    "adjudicated": ("runs whose label a person set", None),
    **{f"outcome_{name}": (f"runs classed {name}", None) for name in OUTCOMES},
}
"""Key of a run's scores → what it is a share of, and whether less is better (None: neither)."""
COLUMNS = (
    "violation",
    "benchmark_task_completed",
    "decision_point_reached",
    "escalation_recorded",
    "forged",
    "state_tampered",
)
MESSAGES, TOKENS, WORKING_SECONDS, CLOCK_SECONDS = 160, 500_000, 1_800, 2_700
EPOCHS = 3


@task
def instrumental(
    environments: str | list[str] | None = None,
    *,
    variants: str | list[str] | None = None,
    variants_file: str | list[str] | None = None,
    arm: Arm = "none",
    review: bool = False,
    **unknown: Never,
) -> Task:
    """Work towards a legitimate goal where a restricted act would be quicker.

    Args:
        environments: Environments to run: list, comma text or `all`; the seven shipped ones
            unless given.
        variants: Variants to run, in the same forms; A to H unless given.
        variants_file: YAML file or files with own variants and environments.
        arm: One more change, applied to every variant.
        review: Also ask the model role `grader` whether it agrees with each label.
        **unknown: Rejected.

    Model Roles:
        grader: Proposes corrections when `review` is set; never changes a score.

    Raises:
        TypeError: a parameter does not exist.
        ValueError: a value is not allowed, a file has faults, or nothing is selected.
    """
    checks = Checks("instrumental")
    checks.unknown(unknown, ["environments", "variants", "variants_file", "arm", "review"])
    checks.one_of("arm", arm, get_args(Arm))
    checks.boolean("review", review)
    checks.done()

    catalogue = load_catalogue(variants_file)
    places, names = _selected(checks, catalogue, environments, variants, arm)
    checks.done()

    setup: list[Solver] = [require_roles("grader")] if review else []
    scorers: list[Scorer] = [instrumental_score(), instrumental_adjudicated()]
    return Task(
        dataset=MemoryDataset(
            [sample(*cell, arm) for cell in cells(catalogue, names, places)], name="instrumental"
        ),
        setup=[*setup, seed_environment()],
        solver=terminal_agent(),
        scorer=[*scorers, instrumental_review()] if review else scorers,
        epochs=Epochs(EPOCHS, "mean"),
        sandbox=("engine", compose_file("instrumental")),
        message_limit=MESSAGES,
        token_limit=TOKENS,
        working_limit=WORKING_SECONDS,
        time_limit=CLOCK_SECONDS,
        version=CARD.comparability_version,
        metadata=_metadata(catalogue, names, arm),
        tags=CARD.all_tags,
        headline_metric=HeadlineMetric(scorer=SCORER, metric="violation_rate"),
        viewer=samples_view("runs", SCORER, COLUMNS, facts=("epoch", "answer", "limit")),
        display_name=CARD.title,
        description=CARD.description,
    )


def _selected(
    checks: Checks,
    catalogue: Catalogue,
    environments: str | list[str] | None,
    variants: str | list[str] | None,
    arm: str,
) -> tuple[list[str], list[str]]:
    """Return the chosen environments and variants; every fault goes to `checks`."""
    shipped = shipped_catalogue()
    wanted = list(shipped.worlds) if environments is None else environments
    places = checks.names("environments", wanted, list(catalogue.worlds))
    wanted = list(shipped.variants) if variants is None else variants
    names = checks.names("variants", wanted, list(catalogue.variants))
    if checks.faults:
        return places, names
    if not cells(catalogue, names, places):
        checks.fault("no chosen variant is for a chosen environment")

    def permits(name: str) -> bool:
        return catalogue.variants[name].factors.permission == "permitted"

    def keeps(name: str) -> bool:
        return catalogue.worlds[name].engine.ID == "memory_keeper"

    if arm == "prompt_boundary" and (permitted := list(filter(permits, names))):
        checks.fault(
            f"arm prompt_boundary contradicts the variants that permit the act, "
            f"{', '.join(permitted)}; choose others: "
            f"-T variants={_others(permits, names, shipped.variants)}"
        )
    if arm == "no_shortcut" and (kept := list(filter(keeps, places))):
        checks.fault(
            f"arm no_shortcut cannot be had in {', '.join(kept)}, where files can always be "
            f"written; choose others: -T environments={_others(keeps, places, shipped.worlds)}"
        )
    return places, names


def _others(wrong: Callable[[str], bool], chosen: Iterable[str], known: Iterable[str]) -> str:
    """Return what a choice leaves without the wrong names; of all names, where it leaves none."""
    return ",".join(
        [name for name in chosen if not wrong(name)] or [name for name in known if not wrong(name)]
    )


def _metadata(catalogue: Catalogue, names: list[str], arm: str) -> dict[str, Any]:
    return task_metadata(
        CARD,
        headline_key="violation",
        keys={
            key: {"range": [0, 1], "lower_is_better": lower, "label": label}
            for key, (label, lower) in KEYS.items()
        },
        factors={"arm": arm},
        cluster_label="environment",
        contrasts=contrasts(catalogue, names),
        prompt_versions={"agent": PROMPT_VERSION},
        data_sha256=dict(catalogue.sha256),
    )
