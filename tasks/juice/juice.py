"""JuICE: can a model find cultural and linguistic errors in generated text?

Jin et al., "JuICE", arXiv 2605.26955 (https://arxiv.org/abs/2605.26955). The model under test is
the *judge*: it reads a response that another model wrote and marks what is wrong in it. The shipped
responses are synthetic; the official data come from their owner's copy.

    inspect eval propensity/juice --model openai/gpt-5.5
    inspect eval propensity/juice --model embedded/smollm2-135m --limit 2
    inspect eval propensity/juice -T data=my-copy.json -T prompt=taxonomy --model openai/gpt-5.5
    inspect eval propensity/juice -T protocol=sentences -T pairs=korea-ko --model openai/gpt-5.5
    inspect score LOG --scorer propensity/juice_score -S threshold=.3 --action overwrite --overwrite
    inspect eval propensity/juice --solver propensity/juice_policy -S name=half --model none
"""

from inspect import signature
from logging import getLogger
from typing import Any, Never

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import HeadlineMetric

from propensity.common.answers import RESPONSE_FORMATS, ResponseFormat
from propensity.common.datafiles import file_sha256
from propensity.common.params import Checks
from propensity.common.versions import load_card, task_metadata
from propensity.common.viewer import samples_view
from propensity.scorers.juice.records import (
    GOLD_MARKS,
    LOGICAL_ERRORS,
    MATCHINGS,
    PROTOCOLS,
    SPANS_ONLY,
    UNITS,
    GoldMarks,
    LogicalError,
    Matching,
    Protocol,
    Settings,
    Unit,
)
from propensity.scorers.juice.scorer import juice_score
from propensity.scorers.juice.taxonomy import CATEGORIES
from propensity.tasks.juice.dataset import (
    FEWSHOT,
    SYNTHETIC_NOTICE,
    TAXONOMY,
    JuiceSet,
    load_set,
    samples,
)
from propensity.tasks.juice.prompts import PROMPT_VERSION, PROMPTS, Prompt
from propensity.tasks.juice.schema import PAIRS
from propensity.tasks.juice.solver import juice_answer

logger = getLogger(__name__)

CARD = load_card(__file__)
SCORER = "juice_score"
COLUMNS = ("right", "n_pred", "found", "n_gold", "unlocatable_pred", "invalid")
SPAN_SETTINGS: dict[str, object] = {
    name: Settings.model_fields[name].default for name in SPANS_ONLY
}
"""Settings that mean nothing for sentences, and their defaults."""


@task
def juice(
    data: str = "shipped",
    *,
    pairs: str | list[str] = "all",
    protocol: Protocol = "spans",
    prompt: Prompt = "zero_shot",
    response_format: ResponseFormat = "auto",
    gold: GoldMarks = "all",
    logical_error: LogicalError = "include",
    unit: Unit = "codepoint",
    threshold: float = 0.5,
    matching: Matching = "one_to_one",
    allow_unchecked_data: bool = False,
    **unknown: Never,
) -> Task:
    """Mark the errors in responses; gold spans say how well the judge did.

    Args:
        data: `shipped` (synthetic), the path of a copy of the official file, or
            `hf://<id>@<40 hex>[/<file>.json]`.
        pairs: Country-language pairs, such as `korea-ko,us-en`.
        protocol: Mark spans, or say which sentences hold an error.
        prompt: The bare task, with definitions of the labels, or with definitions and three
            worked items.
        response_format: JSON by response schema, JSON in the text, or whichever the provider
            takes.
        gold: All marks, or those of people only; then precision is a lower bound.
        logical_error: Whether groups labelled Logical Error alone count.
        unit: Unit of IoU.
        threshold: Least IoU of a match, in (0, 1].
        matching: One to one, or any overlap at all.
        allow_unchecked_data: Run 1,050 entries whose groups are not the published number.
        **unknown: Rejected.

    Raises:
        TypeError: a parameter that does not exist.
        ValueError: values that are not allowed, data with faults (all listed), or a choice that
            leaves nothing to run.
    """
    checks = Checks("juice")
    checks.unknown(unknown, [name for name in signature(juice).parameters if name != "unknown"])
    checks.text("data", data, optional=False)
    chosen = checks.names("pairs", pairs, PAIRS)
    checks.one_of("protocol", protocol, PROTOCOLS)
    checks.one_of("prompt", prompt, PROMPTS)
    checks.one_of("response_format", response_format, RESPONSE_FORMATS)
    checks.one_of("gold", gold, GOLD_MARKS)
    checks.one_of("logical_error", logical_error, LOGICAL_ERRORS)
    checks.one_of("unit", unit, UNITS)
    checks.number("threshold", threshold, above=0, high=1)
    checks.one_of("matching", matching, MATCHINGS)
    checks.boolean("allow_unchecked_data", allow_unchecked_data)
    if protocol == "sentences":
        given = {"unit": unit, "threshold": threshold, "matching": matching}
        for name, default in SPAN_SETTINGS.items():
            if given[name] != default:
                checks.fault(f"{name} is for spans; leave it out with protocol=sentences")
    checks.done()

    settings = Settings(
        protocol=protocol,
        gold=gold,
        logical_error=logical_error,
        unit=unit,
        threshold=threshold,
        matching=matching,
    )
    loaded = load_set(data, allow_unchecked=allow_unchecked_data)
    dataset = samples(loaded, settings, prompt, chosen)
    for warning in loaded.warnings:
        logger.warning("juice: %s", warning)
    return Task(
        dataset=MemoryDataset(dataset, name="juice"),
        solver=juice_answer(protocol, response_format),
        scorer=juice_score(),
        version=CARD.comparability_version,
        metadata=_metadata(loaded, settings, prompt),
        tags=CARD.all_tags,
        headline_metric=HeadlineMetric(scorer=SCORER, metric="f1"),
        viewer=samples_view("responses", SCORER, COLUMNS),
        display_name=CARD.title,
        description=CARD.description,
    )


def _metadata(loaded: JuiceSet, settings: Settings, prompt: Prompt) -> dict[str, Any]:
    keys = {
        "f1": "F1 of marked spans",
        "precision": "marked spans that are right",
        "recall": "gold groups found",
    }
    if settings.protocol == "spans":
        keys |= {f"recall_{name}": f"{label} found" for name, label in CATEGORIES.items()}
        keys["hit"] = "gold groups found"
    digests = {"data": loaded.sha256}
    if prompt != "zero_shot":
        digests["taxonomy"] = file_sha256(TAXONOMY)
    if prompt == "few_shot":
        digests["fewshot"] = file_sha256(FEWSHOT)
    metadata = task_metadata(
        CARD,
        # F1 is no quotient of sums over responses when the two numerators differ.
        headline_key="f1" if settings.matching == "one_to_one" else "recall",
        keys={
            key: {"range": [0, 1], "lower_is_better": False, "label": label}
            for key, label in keys.items()
        },
        factors={
            "data": f"sha256:{loaded.sha256[:12]}",
            "prompt": prompt,
            **settings.model_dump(mode="json"),
        },
        cluster_label="query",
        prompt_versions={prompt: PROMPT_VERSION},
        data_sha256=digests,
    )
    synthetic = [SYNTHETIC_NOTICE] if loaded.status == "synthetic" else []
    return metadata | {
        "data_source": loaded.source,
        "data_status": loaded.status,
        "warnings": [*synthetic, *loaded.warnings],
    }
