"""The paper's figures: counts, percentages and contrasts follow from each other (section 10)."""

import math
from typing import Any

import pytest

from propensity.common.datafiles import read_json
from propensity.results.stats.rates import clopper_pearson, quantile, wilson
from tests.packaging.support import REPOSITORY

PAPER = read_json(REPOSITORY / "results" / "published" / "instrumental" / "paper.json")
MODELS = {entry["model"]: entry for entry in PAPER["models"]}
COUNTS = {entry["variant"]: entry["ic_count"]["value"] for entry in PAPER["variants"]}
Z = quantile(None)


def figures(node: Any) -> list[dict[str, Any]]:
    """Every entry that has a value."""
    if isinstance(node, list):
        return [found for part in node for found in figures(part)]
    if not isinstance(node, dict):
        return []
    own = [node] if "value" in node else []
    return own + [found for part in node.values() for found in figures(part)]


def percent(interval: tuple[float, float]) -> tuple[float, float]:
    return round(100 * interval[0], 1), round(100 * interval[1], 1)


def test_every_figure_says_whether_it_was_published() -> None:
    found = figures(PAPER)
    assert len(found) > 60
    assert {entry["kind"] for entry in found} == {"published", "reconstructed"}


def test_counts_fit_the_published_percentages_and_add_up() -> None:
    runs = PAPER["runs_per_model"]["value"]
    assert runs == 7 * 8 * 3 and PAPER["total"]["runs"]["value"] == runs * len(MODELS) == 1680
    for entry in MODELS.values():
        assert round(100 * entry["ic_count"]["value"] / runs, 1) == entry["ic_percent"]["value"]
    assert sum(entry["ic_count"]["value"] for entry in MODELS.values()) == 86
    assert sum(COUNTS.values()) == PAPER["total"]["ic_count"]["value"] == 86
    assert round(100 * 86 / 1680, 1) == PAPER["total"]["ic_percent"]["value"] == 5.1


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        ("Gemini 3 Flash (preview)", 12.3, 23.7),
        ("Gemini 3.1 Pro (preview)", 11.8, 23.0),
        ("Kimi K2.6", 3.7, 11.3),
        ("MiniMax M2.7", 2.0, 8.3),
        ("GLM-5.1", 0.9, 6.0),
        ("Qwen3.5-397B-A17B", 0.6, 5.1),
        ("GPT-5.4", 0.3, 4.2),
        ("GPT-5.5", 0.0, 2.2),
    ],
)
def test_wilson_intervals_of_the_models(model: str, low: float, high: float) -> None:
    count = MODELS[model]["ic_count"]["value"]
    assert percent(wilson(count / 168, 168, Z)) == (low, high)


def test_a_model_without_a_case_has_an_upper_bound() -> None:
    assert round(100 * clopper_pearson(0, 168, level=0.90)[1], 2) == 1.77
    assert percent(wilson(86 / 1680, 1680, Z)) == (4.2, 6.3)


def test_contrasts_follow_from_the_counts() -> None:
    told = {(c["base"], c["variant"]): c["difference_pp"]["value"] for c in PAPER["contrasts"]}
    exact = {pair: 100 * (COUNTS[pair[1]] - COUNTS[pair[0]]) / 210 for pair in told}
    rounded = {pair: round(value, 2) + 0.0 for pair, value in exact.items()}
    assert rounded == {
        ("A", "H"): 15.71,
        ("A", "F"): 6.19,
        ("A", "C"): 4.76,
        ("A", "B"): 0.95,
        ("A", "D"): 0.0,
        ("D", "E"): -0.48,
        ("F", "G"): -7.62,
    }
    for pair, value in exact.items():
        assert math.isclose(round(value, 1), told[pair], abs_tol=0.051)


def test_violations_leave_the_permitted_variants_out() -> None:
    count, runs = 86 - COUNTS["F"] - COUNTS["G"], 6 * 210
    found = PAPER["violations"]
    assert (found["count"]["value"], found["runs"]["value"]) == (count, runs) == (68, 1260)
    assert found["percent"]["value"] == round(100 * count / runs, 2) == 5.4
    low, high = wilson(count / runs, runs, Z)
    assert (round(100 * low, 2), round(100 * high, 2)) == (4.28, 6.79)


def test_where_the_cases_are() -> None:
    found = PAPER["concentration"]
    gemini = [entry["ic_count"]["value"] for name, entry in MODELS.items() if "Gemini" in name]
    assert sum(gemini) == found["two_gemini_models"]["value"] == 57
    assert found["other_models"]["value"] == 86 - 57 and found["other_models"]["runs"] == 8 * 168
    assert round(100 * 29 / 1344, 1) == 2.2
    assert round(100 * 17 / 24) == found["gemini_3_flash_in_budget_siphon_percent"]["value"]
    assert round(100 * PAPER["eval_awareness"]["value"] / 1680, 2) == 0.65


def test_no_count_gives_the_published_completion_of_blocked_runs() -> None:
    told = PAPER["completion"]["blocked_completed_percent"]["value"]
    assert told not in {round(100 * count / 210, 1) for count in range(211)}
