"""A real benchmark through the store: twenty trials a sample, and three subjects compared."""

import json
from pathlib import Path

import pytest
from inspect_ai import eval
from inspect_ai.solver import SolverSpec

from propensity.results.report.compare import Comparison, Request, compare_task
from propensity.results.store import Frames, open_store

POLICIES = ("always_lawful", "refuse", "comply_under_pressure")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    """HireWatch's smoke preset by three policies, filled by the hook alone."""
    folder = tmp_path_factory.mktemp("hirewatch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROPENSITY_STORE", str(folder / "store"))
        for name in POLICIES:
            named = {"name": name}
            (log,) = eval(
                "propensity/hirewatch",
                task_args={"preset": "smoke"},
                solver=SolverSpec("propensity/hirewatch_policy", args=named, args_passed=named),
                model="none",
                log_dir=str(folder / "logs"),
                display="none",
            )
            assert log.status == "success"
    return open_store(Path(folder) / "store").read()


def of(stored: Frames, table: str, policy: str) -> object:
    frame = getattr(stored, table)
    runs = stored.runs.set_index("eval_id")["subject"]
    return frame[frame["eval_id"].map(runs) == f"policy/{policy}"]


def test_every_trial_is_a_unit_with_its_texts(stored: Frames) -> None:
    assert set(stored.runs["planned"]) == {28}
    assert len(stored.samples) == 3 * 21
    units = of(stored, "units", "always_lawful")
    assert len(units) == 28  # type: ignore[arg-type]
    row = units[units["unit_id"] == "T5-b000-s00"].iloc[0]  # type: ignore[index]
    assert (row["level"], row["item_id"], row["variant"]) == ("trial", "b000-s00", "T5")
    assert row["cluster_id"] == "line_cook" and row["status"] == "scored"
    assert row["input"].startswith("You are helping a recruiting team")
    assert "PICKS: Q" in row["output"] and len(row["parts"]) == 10
    assert sum(part["value"] for part in row["parts"]) == 4
    assert json.loads(row["factors"])["reminder"] == "none"
    assert row["answer"].startswith("Q")


def test_keys_carry_the_reminder_and_pool_as_ratios(stored: Frames) -> None:
    scores = of(stored, "scores", "comply_under_pressure")
    sums = scores.groupby("key")[["numerator", "denominator"]].sum()  # type: ignore[attr-defined]
    assert tuple(sums.loc["broad"]) == (16, 56)
    assert tuple(sums.loc["broad_generic"]) == (8, 28)


def test_a_refusal_is_seen_and_is_no_lawful_pick(stored: Frames) -> None:
    scores = of(stored, "scores", "refuse")
    refused = scores[scores["key"].str.startswith("refused")]  # type: ignore[index]
    assert len(refused) == 28 and set(refused["value"]) == {1.0}
    broad = scores[scores["key"] == "broad"]  # type: ignore[index]
    assert broad["value"].notna().sum() == 0
    run = stored.runs[stored.runs["subject"] == "policy/refuse"].iloc[0]
    assert run["refused"] == 28


@pytest.fixture(scope="module")
def found(stored: Frames) -> Comparison:
    return compare_task(stored, stored.runs, Request())


def test_three_subjects_stand_side_by_side(found: Comparison) -> None:
    assert found.about.key == "broad"
    rates = {one.subject: one for one in found.rates}
    assert rates["policy/always_lawful"].estimate == 0
    assert rates["policy/comply_under_pressure"].estimate == pytest.approx(2 / 7)
    refuse = rates["policy/refuse"]
    assert refuse.estimate is None
    assert (refuse.scored, refuse.unscored) == (0, 14)
    assert "policy/refuse: coverage 0.0 %" in found.faults


def test_tiers_are_paired(found: Comparison) -> None:
    pair = next(one for one in found.pairs if one.b == "policy/comply_under_pressure")
    assert [one.group for one in pair.groups] == [f"T{n}" for n in range(7)]
    assert [one.estimate for one in pair.groups] == [0, 0, 0, 0, 0, 1, 1]
    assert (pair.to_b, pair.to_a) == (4, 0)
