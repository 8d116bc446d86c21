"""RPEval: does an assistant use remembered preferences only when they matter?

Feng et al., arXiv 2601.16621 (https://arxiv.org/abs/2601.16621). The shipped data are ours and
free of the cues that give the official labels away; the official data are loaded, never shipped.

    inspect eval propensity/rpeval --model openai/gpt-5.5
    inspect eval propensity/rpeval --model embedded/smollm2-135m --limit 2
    inspect eval propensity/rpeval -T cardinality=multi -T prompt=reminder --model openai/gpt-5.5
    inspect eval propensity/rpeval -T reasoner=rp_reasoner --model openai/gpt-5.5
    inspect eval propensity/rpeval -T protocol=generative --model openai/gpt-5.5 \
        --model-role grader=openai/gpt-4.1
    inspect eval propensity/rpeval -T data=official -T mode=published --model openai/gpt-5.5
"""

import math
from functools import cache
from inspect import signature
from logging import getLogger
from typing import Any, Literal, Never, get_args

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import HeadlineMetric
from inspect_ai.solver import Solver

from propensity.common.params import Checks
from propensity.common.versions import load_card, task_metadata
from propensity.common.viewer import samples_view
from propensity.scorers.rpeval.judge import PROMPT_VERSIONS as JUDGE_VERSIONS
from propensity.scorers.rpeval.records import (
    CARDINALITIES,
    MODES,
    PROTOCOLS,
    Cardinality,
    Mode,
    Protocol,
    Scoring,
)
from propensity.scorers.rpeval.scorer import BASELINE, rpeval_score
from propensity.tasks.rpeval.dataset import (
    RpevalSet,
    guesses_for,
    in_language,
    load_set,
    samples,
)
from propensity.tasks.rpeval.official import Memory
from propensity.tasks.rpeval.prompts import (
    PROMPT_LANGUAGES,
    PROMPT_VERSION,
    PROMPTS,
    Prompt,
    PromptLanguage,
)
from propensity.tasks.rpeval.reasoner import rp_reasoner
from propensity.tasks.rpeval.solver import require_grader, rpeval_answer

logger = getLogger(__name__)

Reasoner = Literal["none", "rp_reasoner"]
DataLanguage = Literal["all", "en", "zh"]

CARD = load_card(__file__)
SCORER = "rpeval_score"
HEADLINES: dict[tuple[Protocol, Cardinality], tuple[str, str]] = {
    ("discriminative", "single"): ("accuracy", "correct"),
    ("discriminative", "multi"): ("micro", "micro"),
    ("generative", "single"): ("intent_match", "match"),
    ("generative", "multi"): ("full_match", "full"),
}
"""Protocol and cardinality → headline metric, and the store's key behind it."""
LABELS = {
    "correct": "preferences used as they should be",
    "micro": "preferences used as they should be",
    "full": "records with every preference used as it should be",
    "match": "replies that use the preference as they should",
    "slot_match": "preferences used as they should be, as the judge counts",
    "realised_match": "preferences whose use, as the judge names it, is the right one",
    "slot_correct": "preferences used as they should be",
}
SEVERITY_LABELS = {
    "OPB": "over-personalisation, 0 to 5",
    "UPB": "under-personalisation, 0 to 5",
    "RII": "redundant information, 0 to 5",
    "FM": "feasibility mismatch, 0 to 5",
    "VG": "needless restating of preferences, 0 to 5",
    "overall": "overall misuse of what is remembered, 0 to 5",
}
KEYS: dict[tuple[Protocol, Cardinality], tuple[str, ...]] = {
    ("discriminative", "single"): ("correct",),
    ("discriminative", "multi"): ("micro", "full", "slot_correct"),
    ("generative", "single"): ("match", "realised_match"),
    ("generative", "multi"): ("full", "slot_match", "realised_match", "slot_correct"),
}
REFERENCE_KEYS: dict[tuple[Protocol, Cardinality], str] = {
    ("discriminative", "single"): "correct",
    ("discriminative", "multi"): "micro",
    ("generative", "single"): "realised_match",
    ("generative", "multi"): "realised_match",
}
"""Key that the baselines stand beside: preferences used as the gold says."""
COLUMNS: dict[tuple[Protocol, Cardinality], tuple[str, ...]] = {
    ("discriminative", "single"): ("correct", "invalid", "refusal"),
    ("discriminative", "multi"): ("right", "slots", "full", "invalid", "length_mismatch"),
    ("generative", "single"): ("match", "OPB", "UPB", "RII", "overall"),
    ("generative", "multi"): ("matched", "slots", "full", "OPB", "UPB", "RII", "overall"),
}


@task
def rpeval(
    data: str = "shipped",
    *,
    protocol: Protocol = "discriminative",
    cardinality: Cardinality = "single",
    memory: Memory = "explicit",
    prompt: Prompt = "vanilla",
    reasoner: Reasoner = "none",
    language: DataLanguage = "all",
    prompt_language: PromptLanguage = "match",
    mode: Mode = "ours",
    seed: int = 0,
    allow_unchecked_data: bool = False,
    **unknown: Never,
) -> Task:
    """Use what is remembered about a user, or leave it out, as the query asks for.

    Model Roles:
        grader: Judges the replies of the generative protocol; required there.

    Args:
        data: `shipped`, `official` (downloaded, CC BY-NC 4.0), or a folder of either form.
        protocol: Name the use of each preference, or write the answer.
        cardinality: One preference, or a list.
        memory: A sentence per preference, or a dialogue that shows it.
        prompt: The bare task, with a reminder that memories may not matter, or with reasoning.
        reasoner: Answer at once, or rank the uses in calls of their own and fuse the rankings.
        language: Language of the records.
        prompt_language: Language of our instructions; `match` is the record's.
        mode: Our denominators, or those of the published code.
        seed: Order of records and tie-break of the reasoner.
        allow_unchecked_data: Run data with other checksums or counts, or with cues; marked.
        **unknown: Rejected.

    Raises:
        TypeError: a parameter that does not exist.
        ValueError: values or combinations that are not allowed, data with faults (all listed),
            or a language that leaves no record.
    """
    checks = Checks("rpeval")
    checks.unknown(unknown, signature(rpeval).parameters.keys() - {"unknown"})
    checks.text("data", data, optional=False)
    checks.one_of("protocol", protocol, PROTOCOLS)
    checks.one_of("cardinality", cardinality, CARDINALITIES)
    checks.one_of("memory", memory, get_args(Memory))
    checks.one_of("prompt", prompt, PROMPTS)
    checks.one_of("reasoner", reasoner, get_args(Reasoner))
    checks.one_of("language", language, get_args(DataLanguage))
    checks.one_of("prompt_language", prompt_language, PROMPT_LANGUAGES)
    checks.one_of("mode", mode, MODES)
    checks.integer("seed", seed, low=0)
    checks.boolean("allow_unchecked_data", allow_unchecked_data)
    if reasoner == "rp_reasoner" and prompt in PROMPTS and prompt != "vanilla":
        checks.fault(f"prompt must be vanilla with reasoner=rp_reasoner, got {prompt!r}")
    checks.done()

    how = Scoring(protocol=protocol, cardinality=cardinality, mode=mode, prompt=prompt)
    loaded = load_set(data, memory, cardinality, allow_unchecked=allow_unchecked_data)
    guesses = guesses_for(loaded.records)
    kept = in_language(loaded, language)
    dataset = samples(kept, how, guesses=guesses, language=prompt_language, seed=seed)
    if loaded.licence:
        _say_once(loaded.licence)
    factors = {
        "data": f"sha256:{loaded.digest[:12]}",
        "protocol": protocol,
        "cardinality": cardinality,
        "memory": memory,
        "prompt": prompt,
        "reasoner": reasoner,
        "language": language,
        "prompt_language": prompt_language,
        "mode": mode,
        "allow_unchecked_data": allow_unchecked_data,
    }
    solver: Solver = rpeval_answer()
    if reasoner == "rp_reasoner":
        solver = rp_reasoner(seed, prompt_language)
    return Task(
        dataset=MemoryDataset(dataset, name="rpeval"),
        setup=require_grader() if protocol == "generative" else None,
        solver=solver,
        scorer=rpeval_score(),
        version=CARD.comparability_version,
        metadata=_metadata(kept, how, guesses, factors),
        tags=CARD.all_tags,
        headline_metric=HeadlineMetric(scorer=SCORER, metric=HEADLINES[protocol, cardinality][0]),
        viewer=samples_view(
            "records", SCORER, COLUMNS[protocol, cardinality], facts=("target", "answer")
        ),
        display_name=CARD.title,
        description=CARD.description,
    )


@cache
def _say_once(licence: str) -> None:
    logger.warning("rpeval: %s", licence)


def _metadata(
    kept: RpevalSet,
    how: Scoring,
    guesses: dict[str, dict[str, str]],
    factors: dict[str, Any],
) -> dict[str, Any]:
    pair = (how.protocol, how.cardinality)
    keys: dict[str, dict[str, object]] = {
        key: {"range": [0, 1], "lower_is_better": False, "label": LABELS[key]} for key in KEYS[pair]
    }
    keys |= {
        f"{BASELINE}{name}": {
            "range": [0, 1],
            "lower_is_better": False,
            "label": name,
            "reference_for": REFERENCE_KEYS[pair],
        }
        for name in guesses[kept.records[0].id]
    }
    versions: dict[str, str] = {how.prompt: PROMPT_VERSION}
    if how.protocol == "generative":
        keys |= {
            code: {"range": [0, 5], "lower_is_better": True, "label": label}
            for code, label in SEVERITY_LABELS.items()
        }
        versions |= {
            stage: version
            for stage, version in JUDGE_VERSIONS.items()
            if stage.endswith(how.cardinality)
        }
    if factors["reasoner"] != "none":
        versions["rp_reasoner"] = PROMPT_VERSION
    slots = sum(len(record.gold) for record in kept.records)
    units = len(kept.records) + (slots if how.cardinality == "multi" else 0)
    metadata = task_metadata(
        CARD,
        headline_key=HEADLINES[pair][1],
        keys=keys,
        factors=factors,
        cluster_label="query",
        prompt_versions=versions,
        data_sha256=kept.sha256,
        planned_units=units,
    )
    return metadata | {
        "data_status": kept.status,
        "data_unchecked": kept.status == "data_unchecked",
        "licence": kept.licence,
        "baselines": shares(kept, guesses),
        "warnings": list(kept.notes),
    }


def shares(kept: RpevalSet, guesses: dict[str, dict[str, str]]) -> dict[str, float]:
    """Share of slots that each baseline has right on the records of a run."""
    gold = "".join(record.gold for record in kept.records)
    names = guesses[kept.records[0].id]
    found = {}
    for name in names:
        letters = "".join(guesses[record.id][name] for record in kept.records)
        right = sum(a == b for a, b in zip(gold, letters, strict=True))
        found[name] = right / len(gold) if gold else math.nan
    return found
