"""Plans: check values, balance, pairing and ids of specification 6."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propensity.tasks.hirewatch.dataset import PRESETS, Plan, load_material, samples
from propensity.tasks.hirewatch.plan import (
    ROW,
    SLATE,
    Dealer,
    Slot,
    Twins,
    batches,
    digest,
    planned_cells,
    slots,
)
from propensity.tasks.hirewatch.schema import Cell

MATERIAL = load_material()
BANK, JOBS, LADDER = MATERIAL.bank, MATERIAL.occupations, MATERIAL.ladder
CYCLE = LADDER.reminders_cycle


def dealer(seed: int = 0, twins: Twins = "apart", pairs: int = 100) -> Dealer:
    return Dealer(BANK.pairs[:pairs], JOBS, seed, twins)


def units(trials: int, **options: Any) -> list[dict[str, Any]]:
    plan = Plan(LADDER.cells, trials, **options)
    return [
        {**(sample.metadata or {}), **unit}
        for sample in samples(MATERIAL, plan)
        for unit in (sample.metadata or {})["units"]
    ]


def test_check_values_of_the_specification() -> None:
    deal = dealer().deal(0)
    assert digest("pair", 0, 0, "001").startswith("d5d8e534bb3b8682")
    assert deal.shifts == (3, 13, 5, 15, 7)
    assert dealer().mask(0, 0) == [0, 1, 3, 5, 9]
    assert deal.rotation == 5
    first, second = deal.slates[:2]
    assert first.occupation == "line_cook"
    assert [item[3:] for item in first.items] == (
        "U012 U051 L061 U023 L003 U073 L037 L087 L050 U084".split()
    )
    assert second.occupation == "night_baker"
    assert [item[3:] for item in second.items] == (
        "L045 L005 U041 L040 U100 L088 U071 U034 U006 L080".split()
    )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), number=st.integers(0, 500))
def test_a_deal_shows_every_item_once_and_balances_strata_and_positions(
    seed: int, number: int
) -> None:
    deal = dealer(seed).deal(number)
    shown = [item for slate in deal.slates for item in slate.items]
    assert sorted(shown) == sorted(BANK.by_id)
    for slate in deal.slates:
        others = [BANK.by_id[item] for item in slate.items if "-U" in item]
        assert len({item.stratum for item in others}) == len(others) == ROW
        assert sum(item.label_code == "U1" for item in others) in (3, 4)
    for even, odd in zip(deal.slates[::2], deal.slates[1::2], strict=True):
        places = [q for slate in (even, odd) for q in range(SLATE) if "-U" in slate.items[q]]
        assert sorted(places) == list(range(SLATE))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), number=st.integers(0, 500))
def test_twins_share_a_slate_only_if_asked_to(seed: int, number: int) -> None:
    for twins, sharing in (("apart", 0), ("together", ROW)):
        for slate in dealer(seed, twins).deal(number).slates:  # type: ignore[arg-type]
            numbers = Counter(item[-3:] for item in slate.items)
            assert sum(count == 2 for count in numbers.values()) == sharing


@pytest.mark.parametrize("pairs", [30, 95, 100])
def test_banks_of_any_allowed_size_are_dealt_whole(pairs: int) -> None:
    small = dealer(pairs=pairs)
    deal = small.deal(3)
    assert len(deal.slates) == small.size == pairs // 5
    assert all(len(slate.items) == SLATE for slate in deal.slates)
    shown = Counter(item for slate in deal.slates for item in slate.items)
    assert set(shown.values()) == {1} and len(shown) == 2 * pairs


def test_occupations_take_turns_and_mostly_fit() -> None:
    """At seed 0, 97 % of slates have a fitting item, 1.625 of 5 on average (20 deals)."""
    jobs = {job.id: job for job in JOBS}
    hits = [
        sum(BANK.by_id[item].concern in jobs[slate.occupation].concerns for item in others)
        for number in range(20)
        for slate in dealer().deal(number).slates
        for others in [[item for item in slate.items if "-U" in item]]
    ]
    assert sum(hit > 0 for hit in hits) / len(hits) == 0.97
    assert sum(hits) / len(hits) == 1.625


def test_another_seed_deals_other_slates() -> None:
    assert dealer(1).deal(0).slates != dealer(0).deal(0).slates
    assert dealer(0).deal(1).slates != dealer(0).deal(0).slates


@pytest.mark.parametrize(
    ("preset", "total", "split", "n_samples"),
    [
        ("smoke", 28, {"none": 2, "generic": 1, "specific": 1}, 21),
        ("standard", 700, {"none": 60, "generic": 20, "specific": 20}, 35),
        ("full", 5600, {"none": 400, "generic": 200, "specific": 200}, 280),
    ],
)
def test_presets(preset: str, total: int, split: dict[str, int], n_samples: int) -> None:
    plan = Plan(LADDER.cells, PRESETS[preset])
    planned = samples(MATERIAL, plan)
    assert len(planned) == n_samples
    found = units(PRESETS[preset])
    assert len(found) == total == len({unit["unit_id"] for unit in found})
    for cell in LADDER.cells:
        own = [unit for unit in found if unit["cell"] == cell.id]
        assert Counter(unit["reminder"] for unit in own) == split


@pytest.mark.parametrize(("trials", "items", "jobs"), [(100, 5, 5), (800, 40, 40)])
def test_whole_blocks_expose_every_item_and_occupation_equally(
    trials: int, items: int, jobs: int
) -> None:
    for cell in ("T0", "T6"):
        own = [unit for unit in units(trials) if unit["cell"] == cell]
        shown = Counter(item for unit in own for item in unit["slate"].split())
        assert set(shown.values()) == {items} and len(shown) == 200
        assert set(Counter(unit["cluster_id"] for unit in own).values()) == {jobs}


@settings(max_examples=20, deadline=None)
@given(trials=st.integers(1, 130))
def test_exposures_differ_by_at_most_one(trials: int) -> None:
    own = [unit for unit in units(trials) if unit["cell"] == "T3"]
    shown = Counter({item: 0 for item in BANK.by_id})
    shown.update(item for unit in own for item in unit["slate"].split())
    assert max(shown.values()) - min(shown.values()) <= 1


def test_cells_and_reminders_are_compared_on_the_same_slates() -> None:
    by_slot: defaultdict[str, set[Any]] = defaultdict(set)
    by_deal: defaultdict[tuple[int, str], set[Any]] = defaultdict(set)
    for unit in units(160):
        shown = (unit["cluster_id"], unit["slate"])
        by_slot[unit["item_id"]].add(shown)
        slate = unit["item_id"].split("-")[1]
        by_deal[unit["deal"], slate].add((unit["reminder"], shown))
    assert all(len(slates) == 1 for slates in by_slot.values())
    for (deal, _), slates in by_deal.items():
        reminder = "generic" if deal % 2 == 0 else "specific"
        assert {name for name, _ in slates} == {"none", reminder}
        assert len({shown for _, shown in slates}) == 1


def test_slots_follow_the_rule_of_the_specification() -> None:
    """Blocks 4j, 4j+1 share a deal without and with `generic`, the next two with `specific`."""
    blocks = {slot.block: (slot.deal, slot.reminder) for slot in slots(100, 20, CYCLE)}
    assert blocks == {
        0: (0, "none"),
        1: (0, "generic"),
        2: (1, "none"),
        3: (1, "specific"),
        4: (2, "none"),
    }
    few = list(slots(4, 20, CYCLE))
    assert [(slot.block, slot.deal, slot.slate, slot.reminder) for slot in few] == [
        (0, 0, 0, "none"),
        (0, 0, 1, "generic"),
        (0, 0, 2, "none"),
        (0, 0, 3, "specific"),
    ]
    fixed = list(slots(60, 20, CYCLE, "generic"))
    assert [(slot.block, slot.deal) for slot in fixed[::20]] == [(0, 0), (1, 1), (2, 2)]
    assert {slot.reminder for slot in fixed} == {"generic"}


def test_ids_spell_out_the_condition() -> None:
    planned = samples(MATERIAL, Plan(LADDER.cells, 100))
    assert [sample.id for sample in planned[:5]] == [
        "T0-none-b000-c00",
        "T1-none-b000-c00",
        "T2-none-b000-c00",
        "T3-none-b000-c00",
        "T4-none-b000-c00",
    ]
    last = (planned[-1].metadata or {})["units"][-1]
    assert (last["unit_id"], last["item_id"]) == ("T6-b004-s19", "b004-s19")


def test_samples_come_by_block_reminder_chunk_and_cell() -> None:
    places = tuple(slots(45, 20, CYCLE))
    keys = [
        (
            batch.slots[0].block,
            LADDER.reminders.index(batch.slots[0].reminder),
            batch.chunk,
            LADDER.cells.index(batch.cell),
        )
        for batch in batches(places, LADDER.cells, LADDER.reminders, 8)
    ]
    assert all(one < two for one, two in pairwise(keys))


def test_a_limit_keeps_cells_balanced() -> None:
    planned = samples(MATERIAL, Plan(LADDER.cells, 800))
    cells = Counter((sample.metadata or {})["cell"] for sample in planned[:70])
    assert set(cells.values()) == {10}


@settings(max_examples=10, deadline=None)
@given(per_sample=st.integers(1, 200))
def test_the_size_of_samples_changes_no_trial(per_sample: int) -> None:
    kept = ("unit_id", "item_id", "cluster_id", "slate", "on_concern", "reminder", "deal")

    def trials(size: int) -> list[list[object]]:
        found = units(45, trials_per_sample=size)
        return sorted([[unit[name] for name in kept] for unit in found], key=str)

    assert trials(per_sample) == trials(20)


def test_crossing_adds_the_nine_other_cells() -> None:
    cells = planned_cells(LADDER, "crossed")
    assert [cell.id for cell in cells] == (
        "T0 T1 T2 T3 T4 T5 T6 X01 X02 X03 X11 X12 X13 X21 X22 X23".split()
    )
    assert all(cell.id == f"X{cell.o}{cell.p}" for cell in cells[7:])


def test_an_off_ladder_name_on_the_ladder_is_refused() -> None:
    clash = LADDER.model_copy(update={"cells": (*LADDER.cells, Cell(id="X01", o=4, p=0))})
    with pytest.raises(ValueError, match="X01"):
        planned_cells(clash, "crossed")


def test_blocks_beyond_a_thousand_keep_their_order() -> None:
    assert Slot(1234, 7, 617, "none").item_id == "b1234-s07"
