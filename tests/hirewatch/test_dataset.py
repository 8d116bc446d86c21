"""The task: parameters, what its samples and its log say about themselves (spec. 6.5, 10)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from inspect_ai import Task
from inspect_ai.dataset import Sample

from propensity.scorers.hirewatch.trials import labels_of
from propensity.tasks.hirewatch.dataset import DATA, PRESETS, load_material
from propensity.tasks.hirewatch.hirewatch import CARD, KEYS, SCORER, Preset, hirewatch

MATERIAL = load_material()


def first(task: Task) -> Sample:
    sample: Sample = task.dataset[0]
    return sample


def planned(task: Task) -> list[dict[str, Any]]:
    return [sample.metadata or {} for sample in task.dataset]


def test_a_sample_carries_what_scorer_and_store_need() -> None:
    sample = first(hirewatch())
    metadata = sample.metadata or {}
    assert sample.id == "T0-none-b000-c00"
    assert "20 trials" in str(sample.input)
    assert {
        name: metadata[name] for name in ("cell", "variant", "o", "p", "reminder", "block", "deal")
    } == {
        "cell": "T0",
        "variant": "T0",
        "o": 0,
        "p": 0,
        "reminder": "none",
        "block": 0,
        "deal": 0,
    }
    assert (metadata["seed"], metadata["k"], metadata["baseline"]) == (0, 4, "T0")
    assert metadata["bank_version"] == "1.0.0"
    assert metadata["bank_sha256"] == MATERIAL.sha256["bank"]
    assert metadata["factors"] == {
        "cell": "T0",
        "o": "0",
        "p": "0",
        "reminder": "none",
        "block": "0",
        "deal": "0",
    }
    unit = metadata["units"][0]
    assert unit["unit_id"] == "T0-b000-s00" and unit["item_id"] == "b000-s00"
    assert unit["cluster_id"] == "line_cook"
    slate = unit["slate"].split()
    assert slate[0] == "HW-U012" and len(slate) == 10
    assert unit["on_concern"].split() == [
        f"Q{number}"
        for number, item in enumerate(slate, 1)
        if MATERIAL.bank.by_id[item].concern in ("attendance", "alertness")
    ]
    logged = json.loads(json.dumps(metadata))
    assert logged == metadata
    assert "HW-U012" in logged["items"]["U1 ADA attendance inferred"].split()
    assert labels_of(logged)["HW-U012"] == ("U1", "ADA", "attendance", "inferred")


def test_a_sample_carries_the_items_of_its_own_slates_only() -> None:
    for metadata in planned(hirewatch("smoke")):
        shown = {item for unit in metadata["units"] for item in unit["slate"].split()}
        assert labels_of(metadata).keys() == shown


def test_the_card_says_what_the_task_is() -> None:
    task = hirewatch()
    (listed,) = CARD.tasks
    assert listed.dataset_samples == len(task.dataset) == 35
    assert task.version == CARD.comparability_version == 1
    assert listed.headline == task.headline_metric.metric == "unlawful_rate_broad"  # type: ignore[union-attr]
    assert task.headline_metric.scorer == SCORER  # type: ignore[union-attr]
    assert task.tags == ["propensity", *CARD.tags]
    assert "our reconstruction" in (task.display_name or "")


def test_the_log_says_what_compared_runs_must_share() -> None:
    metadata = hirewatch("smoke", k=3, twins="together").metadata or {}
    assert set(metadata["factors"]) == set(CARD.comparability)
    assert metadata["factors"] == {
        "bank_sha256": MATERIAL.sha256["bank"],
        "occupations_sha256": MATERIAL.sha256["occupations"],
        "ladder_sha256": MATERIAL.sha256["ladder"],
        "seed": 0,
        "trials_per_cell": 4,
        "k": 3,
        "design": "ladder",
        "twins": "together",
        "reminders": "cycle",
    }
    assert metadata["planned_units"] == 28
    assert metadata["headline_key"] == "broad" and metadata["cluster_label"] == "occupation"
    assert metadata["labels"] == "labels pending legal review: 200 of 200"
    assert [(c["variant"], c["base"]) for c in metadata["contrasts"]] == [
        (f"T{tier}", "T0") for tier in range(1, 7)
    ]


def test_keys_are_declared_for_every_reminder_that_is_shown() -> None:
    keys = (hirewatch().metadata or {})["keys"]
    assert set(keys) == {f"{key}{end}" for key in KEYS for end in ("", "_generic", "_specific")}
    assert keys["broad"]["lower_is_better"] is True and keys["broad"]["range"] == [0, 1]
    assert "disfavoured" in keys["broad"]["label"]
    only = (hirewatch(reminders="generic").metadata or {})["keys"]
    assert set(only) == {f"{key}{end}" for key in KEYS for end in ("", "_generic")}


def test_presets_are_those_of_the_data() -> None:
    from typing import get_args

    assert get_args(Preset) == tuple(PRESETS)
    assert [len(hirewatch(preset).dataset) for preset in get_args(Preset)] == [35, 21, 280]


def test_trials_per_cell_override_the_preset() -> None:
    metadata = hirewatch("full", trials_per_cell=5).metadata or {}
    assert metadata["planned_units"] == 35
    assert metadata["factors"]["trials_per_cell"] == 5


@pytest.mark.parametrize("cells", ["T0,T5", ["T5", "T0"], "T5, T0"])
def test_cells_are_chosen_and_keep_their_order(cells: str | list[str]) -> None:
    found = [metadata["cell"] for metadata in planned(hirewatch(cells=cells))]
    assert found[:4] == ["T0", "T5", "T0", "T5"] and set(found) == {"T0", "T5"}


def test_leaving_out_the_baseline_is_allowed_and_said() -> None:
    metadata = hirewatch(cells="T5").metadata or {}
    assert metadata["warnings"] == ["baseline T0 is left out: deltas are nan"]
    assert (hirewatch().metadata or {})["warnings"] == []


def test_the_crossed_design_has_sixteen_cells() -> None:
    found = {metadata["cell"] for metadata in planned(hirewatch("smoke", design="crossed"))}
    assert len(found) == 16 and "X23" in found
    one = planned(hirewatch("smoke", design="crossed", cells="X12"))
    assert {(metadata["o"], metadata["p"]) for metadata in one} == {(1, 2)}


@pytest.mark.parametrize("reminder", ["none", "generic", "specific"])
def test_a_fixed_reminder_deals_every_block_anew(reminder: str) -> None:
    found = planned(hirewatch(reminders=reminder, cells="T0"))
    assert {metadata["reminder"] for metadata in found} == {reminder}
    assert [metadata["deal"] for metadata in found] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        ({"preset": "smal"}, ["preset", "standard, smoke, full"]),
        ({"design": "grid"}, ["design", "ladder, crossed"]),
        ({"reminders": "loud"}, ["reminders", "cycle, none, generic, specific"]),
        ({"twins": "both"}, ["twins", "apart, together"]),
        ({"response_format": False}, ["response_format", "auto, schema, text", "quote it"]),
        ({"k": 0}, ["k must be from 1 to 5"]),
        ({"k": 6}, ["k must be from 1 to 5"]),
        ({"k": True}, ["k must be an integer"]),
        ({"seed": -1}, ["seed must be at least 0"]),
        ({"trials_per_cell": 0}, ["trials_per_cell must be from 1 to 100000"]),
        ({"trials_per_cell": 100_001}, ["trials_per_cell must be from 1 to 100000"]),
        ({"trials_per_sample": 201}, ["trials_per_sample must be from 1 to 200"]),
        ({"cells": "T0,T9"}, ["cells has no 'T9'", "T0, T1, T2, T3, T4, T5, T6"]),
        ({"cells": "X01"}, ["cells has no 'X01'"]),
        ({"cells": []}, ["cells selects nothing"]),
        ({"bank_file": 7}, ["bank_file must be a text"]),
        ({"k": 9, "seed": "x", "twins": "no"}, ["k must", "seed must", "twins must"]),
    ],
)
def test_bad_parameters_stop_the_run_and_are_listed(
    arguments: dict[str, Any], phrases: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        hirewatch(**arguments)
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_a_mistyped_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match="no parameter 'trials_per_sell'; did you mean"):
        hirewatch(trials_per_sell=5)  # type: ignore[arg-type]


def test_a_ladder_file_brings_its_own_reminders_and_cells(tmp_path: Path) -> None:
    text = (DATA / "ladder.yaml").read_text(encoding="utf-8")
    text = text.replace("[none, generic, none, specific]", "[none, mild]")
    text = text.replace("  generic:", "  mild: Mind the rules.\n  generic:")
    text = text.replace("baseline: T0", "baseline: T3")
    path = tmp_path / "ladder.yaml"
    path.write_text(text, encoding="utf-8")
    task = hirewatch(ladder_file=str(path), reminders="mild")
    assert {metadata["reminder"] for metadata in planned(task)} == {"mild"}
    assert {c["base"] for c in (task.metadata or {})["contrasts"]} == {"T3"}
    assert first(task).metadata["baseline"] == "T3"  # type: ignore[index]
    with pytest.raises(ValueError, match="reminders must be one of cycle, none, mild"):
        hirewatch(ladder_file=str(path), reminders="specific")


@pytest.mark.parametrize("name", ["smoke", "full"])
def test_run_configurations_name_the_task_and_legal_arguments(name: str) -> None:
    path = DATA.parent / "run_configs" / f"{name}.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert config["task"]["task"] == "propensity/hirewatch"
    assert config["task"]["args"]["preset"] == name
    hirewatch(**config["task"]["args"])
