r"""HireWatch: does a hiring assistant pick unlawful interview questions under pressure?

Our reconstruction of a benchmark that is known by its abstract only: the items, the ladder and
the prompts here are ours, so its figures must not be set beside those of the paper.

    inspect eval propensity/hirewatch --model openai/gpt-5.5
    inspect eval propensity/hirewatch -T preset=smoke --model embedded/smollm2-135m
    inspect eval propensity/hirewatch -T preset=full --model anthropic/claude-sonnet-5
    inspect eval propensity/hirewatch -T cells=T0,T5,T6 --model openai/gpt-5.5
    inspect eval propensity/hirewatch -T bank_file=my-bank.yaml --model openai/gpt-5.5
    inspect eval propensity/hirewatch --model none \
        --solver propensity/hirewatch_policy -S name=random
"""

from inspect import signature
from logging import getLogger
from typing import Any, Literal, Never, get_args

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import HeadlineMetric

from propensity.common.answers import RESPONSE_FORMATS, ResponseFormat
from propensity.common.params import Checks
from propensity.common.versions import load_card, task_metadata
from propensity.common.viewer import samples_view
from propensity.scorers.hirewatch.scorer import hirewatch_score
from propensity.tasks.hirewatch.dataset import (
    PRESETS,
    Material,
    Plan,
    is_out_of_date,
    load_material,
    samples,
)
from propensity.tasks.hirewatch.plan import Design, Twins, planned_cells
from propensity.tasks.hirewatch.prompts import NO_REMINDER, PROMPT_VERSION
from propensity.tasks.hirewatch.solver import hirewatch_trials

logger = getLogger(__name__)

Preset = Literal["standard", "smoke", "full"]
CYCLE = "cycle"

CARD = load_card(__file__)
SCORER = "hirewatch_score"
KEYS: dict[str, tuple[str, bool | None]] = {
    "broad": ("picks that are unlawful or disfavoured", True),
    "strict": ("picks that are unlawful to ask", True),
    "any_broad": ("trials with an unlawful or disfavoured pick", True),
    "any_strict": ("trials with a pick that is unlawful to ask", True),
    "itt_broad": ("unlawful or disfavoured picks per pick asked for", True),
    "itt_strict": ("picks that are unlawful to ask per pick asked for", True),
    "refused": ("trials refused", None),
    "flagged": ("trials flagged as legally doubtful", None),
}
"""Key of a trial's scores → what it is a share of, and whether less is better (None: neither)."""
COLUMNS = ("complete", "refused", "flagged", "n_u1", "n_u2", "n_u3", "n_l", "n_lx")


@task
def hirewatch(
    preset: Preset = "standard",
    *,
    seed: int = 0,
    k: int = 4,
    design: Design = "ladder",
    cells: str | list[str] | None = None,
    reminders: str = CYCLE,
    twins: Twins = "apart",
    response_format: ResponseFormat = "auto",
    trials_per_cell: int | None = None,
    trials_per_sample: int = 20,
    bank_file: str | None = None,
    occupations_file: str | None = None,
    ladder_file: str | None = None,
    **unknown: Never,
) -> Task:
    """Pick questions for a hiring script, as job context and pressure rise.

    Args:
        preset: Trials per cell: 100 (`standard`), 4 (`smoke`) or 800 (`full`).
        seed: Order of slates; compared runs must share it.
        k: Questions to choose from each ten, 1 to 5.
        design: The seven cells of the ladder, or all crossings of job and pressure level.
        cells: Only these cells, such as `T0,T5,T6`.
        reminders: `cycle` through all, or `none`, `generic` or `specific` in every trial (or one
            named in the ladder file).
        twins: Whether a question and its lawful twin may share a slate.
        response_format: JSON by schema, a last line, or whichever the provider takes.
        trials_per_cell: 1 to 100,000; overrides the preset.
        trials_per_sample: Trials that share an Inspect sample, 1 to 200; changes no score.
        bank_file: A bank of your own.
        occupations_file: Occupations of your own.
        ladder_file: Cells and prompt parts of your own.
        **unknown: Rejected.

    Raises:
        TypeError: a parameter that does not exist.
        ValueError: values that are not allowed, or a data file with faults (all listed).
    """
    checks = Checks("hirewatch")
    files = (bank_file, occupations_file, ladder_file)
    for name, value in zip(("bank_file", "occupations_file", "ladder_file"), files, strict=True):
        checks.text(name, value)
    material = load_material() if checks.faults else load_material(*files)
    checks.unknown(unknown, signature(hirewatch).parameters.keys() - {"unknown"})
    checks.one_of("preset", preset, get_args(Preset))
    checks.one_of("design", design, get_args(Design))
    checks.one_of("reminders", reminders, [CYCLE, *material.ladder.reminders])
    checks.one_of("twins", twins, get_args(Twins))
    checks.one_of("response_format", response_format, RESPONSE_FORMATS)
    checks.integer("seed", seed, low=0)
    checks.integer("k", k, low=1, high=5)
    checks.integer("trials_per_sample", trials_per_sample, low=1, high=200)
    if trials_per_cell is not None:
        checks.integer("trials_per_cell", trials_per_cell, low=1, high=100_000)
    known = planned_cells(material.ladder, "crossed" if design == "crossed" else "ladder")
    chosen = checks.names("cells", cells, [cell.id for cell in known])
    checks.done()

    plan = Plan(
        cells=tuple(cell for cell in known if cell.id in chosen),
        trials_per_cell=trials_per_cell or PRESETS[preset],
        trials_per_sample=trials_per_sample,
        seed=seed,
        k=k,
        twins=twins,
        reminder=None if reminders == CYCLE else reminders,
        response_format=response_format,
    )
    warnings = _warnings(material, plan)
    for warning in warnings:
        logger.warning("hirewatch: %s", warning)
    return Task(
        dataset=MemoryDataset(samples(material, plan), name="hirewatch"),
        solver=hirewatch_trials(),
        scorer=hirewatch_score(),
        version=CARD.comparability_version,
        metadata=_metadata(material, plan, design, reminders) | {"warnings": warnings},
        tags=CARD.all_tags,
        headline_metric=HeadlineMetric(scorer=SCORER, metric="unlawful_rate_broad"),
        viewer=samples_view("trials", SCORER, COLUMNS),
        display_name=CARD.title,
        description=CARD.description,
    )


def _warnings(material: Material, plan: Plan) -> list[str]:
    warnings = []
    baseline = material.ladder.baseline
    if baseline not in {cell.id for cell in plan.cells}:
        warnings.append(f"baseline {baseline} is left out: deltas are nan")
    if is_out_of_date(material.bank):
        warnings.append(f"bank may be out of date: as_of {material.bank.as_of}")
    return warnings


def _metadata(material: Material, plan: Plan, design: str, reminders: str) -> dict[str, Any]:
    bank, baseline = material.bank, material.ladder.baseline
    shown = [plan.reminder] if plan.reminder else material.ladder.reminders
    suffixes = ["", *(f"_{name}" for name in shown if name != NO_REMINDER)]
    digests = {f"{kind}_sha256": digest for kind, digest in material.sha256.items()}
    metadata = task_metadata(
        CARD,
        headline_key="broad",
        keys={
            f"{key}{suffix}": {"range": [0, 1], "lower_is_better": lower, "label": label}
            for suffix in suffixes
            for key, (label, lower) in KEYS.items()
        },
        factors={
            **digests,
            "seed": plan.seed,
            "trials_per_cell": plan.trials_per_cell,
            "k": plan.k,
            "design": design,
            "twins": plan.twins,
            "reminders": reminders,
        },
        cluster_label="occupation",
        contrasts=[
            {"variant": cell.id, "base": baseline, "primary": False, "without": []}
            for cell in plan.cells
            if cell.id != baseline
        ],
        prompt_versions={"trial": PROMPT_VERSION},
        data_sha256=dict(material.sha256),
        planned_units=len(plan.cells) * plan.trials_per_cell,
    )
    pending = f"labels pending legal review: {bank.pending} of {len(bank.items)}"
    return metadata | {"bank_version": bank.version, "labels": pending}
