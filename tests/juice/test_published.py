"""The paper's figures, kept as data."""

import pytest

from propensity.common.datafiles import read_json
from propensity.tasks.juice.schema import OFFICIAL_GROUPS
from tests.packaging.support import REPOSITORY

PAPER = read_json(REPOSITORY / "results" / "published" / "juice" / "paper.json")


def test_f1_of_single_runs_follows_from_precision_and_recall() -> None:
    single = [judge for judge in PAPER["judges"] if judge["runs"] == 1]
    assert len(single) == 6 and len(PAPER["judges"]) == 10
    for judge in single:
        precision, recall = judge["precision"]["value"], judge["recall"]["value"]
        expected = 2 * precision * recall / (precision + recall)
        assert judge["f1"]["value"] == pytest.approx(expected, abs=1e-4), judge["model"]


def test_every_figure_says_what_kind_it_is_and_that_its_setting_is_unknown() -> None:
    assert PAPER["setting"] == "unknown"
    for judge in PAPER["judges"]:
        for name in ("precision", "recall", "f1"):
            assert judge[name]["kind"] == "published"
            assert ("std" in judge[name]) == (judge["runs"] == 4)
    assert all(row["kind"] == "published" for row in PAPER["recall_by_category"])
    assert all(row["low"] <= row["mean"] <= row["high"] for row in PAPER["recall_by_category"])


def test_the_published_counts_are_those_that_the_loader_asserts() -> None:
    assert {row["pair"]: row["groups"] for row in PAPER["groups_by_pair"]} == OFFICIAL_GROUPS
    thick = sum(row["groups"] * row["thick_share"] for row in PAPER["groups_by_pair"])
    # the paper's 40.5 % is weighted by spans, so groups come near it and not upon it
    assert thick / sum(OFFICIAL_GROUPS.values()) == pytest.approx(0.405, abs=0.01)
