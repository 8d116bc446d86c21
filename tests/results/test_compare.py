"""Comparisons: what is refused, what is counted, and what is shown."""

import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from propensity.results.report.compare import (
    Comparison,
    Request,
    compare,
    compare_task,
    records,
)
from propensity.results.report.select import CompareRefused
from propensity.results.store.tables import Frames
from tests.results.fixtures import paired_60x3
from tests.results.tables import Run, Unit, frames, series


def compared(*runs: Run, **options: Any) -> Comparison:
    made = frames(*runs)
    return compare_task(made, made.runs, Request(**options))


def refusal(*runs: Run, **options: Any) -> CompareRefused:
    with pytest.raises(CompareRefused) as caught:
        compared(*runs, **options)
    return caught.value


def zeros(n: int = 20) -> list[Unit]:
    return series([0.0] * n)


def halves(n: int = 20) -> list[Unit]:
    return series([float(k % 2) for k in range(n)])


def text(error: CompareRefused) -> str:
    return f"{error}\n{error.fix}"


def sixty() -> Frames:
    """The fixture of two models as runs."""
    import csv

    from tests.results.fixtures import DATA

    units: dict[str, list[Unit]] = {"A": [], "B": []}
    with (DATA / "paired_60x3.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            units[row["model"]].append(
                Unit(
                    row["item_id"],
                    float(row["value"]) if row["status"] == "scored" else None,
                    cluster=row["cluster_id"],
                    epoch=int(row["epoch"]),
                    status=row["status"],
                    reason="grader_failed" if row["status"] == "unscored" else None,
                )
            )
    return frames(Run("A", units["A"]), Run("B", units["B"]))


def test_the_fixture_of_two_models_from_the_tables() -> None:
    made = sixty()
    found = compare_task(made, made.runs, Request())
    a, b = found.rates
    assert (a.scored, a.unscored, a.errored) == (178, 1, 1)
    assert (b.scored, b.unscored, b.errored) == (175, 2, 3)
    assert a.estimate == pytest.approx(0.3472222222)
    assert (a.low, a.high) == pytest.approx((0.2247061461, 0.4939765511), abs=1e-6)
    assert (a.low_if_missing, a.high_if_missing) == pytest.approx((0.3444444444, 0.3555555556))
    assert (b.low_if_missing, b.high_if_missing) == pytest.approx((0.5055555556, 0.5333333333))
    (pair,) = found.pairs
    assert (pair.a, pair.b, pair.declared) == ("A", "B", False)
    assert pair.overall.estimate == pytest.approx(0.1610169492)
    assert pair.overall.p == 0.001953125
    assert [one.split("\t")[1] for one in pair.missing] == ["s23"]
    assert (pair.to_b, pair.to_a) == (11, 4)
    assert pair.overall.low_if_missing == pytest.approx(0.5055555556 - 0.3555555556)
    assert found.faults == []
    assert paired_60x3("A").rows == a.n_rows
    assert a.warnings == ("2 items with missing epochs",)


def test_one_subject_has_rates_and_no_pairs() -> None:
    found = compared(Run("m", halves()))
    assert len(found.rates) == 1 and found.pairs == ()
    assert found.group_column is None


def test_few_clusters_show_the_items_line_too() -> None:
    units = [Unit(f"i{n}", float(n % 3 == 0), cluster=f"c{n % 7}") for n in range(28)]
    clusters, items = compared(Run("m", units)).rates
    assert clusters.population == "places like these (7 observed)"
    assert items.population == "items like these"


def test_rates_by_variant_are_shown_and_gated() -> None:
    units = [Unit(f"i{n}", float(n % 2), variant=v, cluster=f"c{n % 9}")
             for v, size in (("T10", 18), ("T2", 18), ("T1", 3)) for n in range(size)]  # fmt: skip
    other = [replace(unit, value=1.0) for unit in units]
    found = compared(Run("a", units), Run("b", other))
    assert found.group_column == "variant"
    assert [one.group for one in found.group_rates[::2]] == ["T1", "T2", "T10"]
    small = found.group_rates[0]
    assert small.estimate == pytest.approx(1 / 3) and small.low is None
    differences = found.pairs[0].groups
    assert [one.group for one in differences] == ["T1", "T2", "T10"]
    assert differences[0].p is None and differences[0].estimate == pytest.approx(2 / 3)
    assert differences[1].estimate == pytest.approx(0.5)
    assert {one.family_size for one in differences[1:]} == {2}
    assert differences[1].adjust_method == "BH"


def test_pooled_ratios_are_compared_as_shown() -> None:
    def side(tops: list[int]) -> list[Unit]:
        return [Unit(f"i{n}", (top, 4), cluster=f"c{n % 6}") for n, top in enumerate(tops)]

    low, high = side([0, 1, 2] * 8), side([2, 2, 4] * 8)
    found = compared(Run("a", low), Run("b", high))
    assert found.rates[0].estimate == pytest.approx(24 / 96)
    assert found.pairs[0].overall.estimate == pytest.approx(64 / 96 - 24 / 96)
    assert found.rates[0].low_if_missing is None


def test_a_ratio_without_a_denominator_counts_as_scored() -> None:
    units = [*series([(1, 4), (2, 4)] * 10), Unit("z", (0, 0))]
    rate = compared(Run("a", units)).rates[0]
    assert (rate.scored, rate.unscored) == (21, 0)
    assert rate.estimate == pytest.approx(30 / 80)


def test_a_refusal_counts_against_coverage_and_never_as_zero() -> None:
    refused = [Unit(f"r{n}", (0, 0), reason="refusal") for n in range(2)]
    rate = compared(Run("a", [*series([(1, 4)] * 38), *refused])).rates[0]
    assert (rate.scored, rate.unscored) == (38, 2)
    assert rate.estimate == pytest.approx(0.25)


def test_low_coverage_is_marked_and_then_withheld() -> None:
    def with_errors(n: int) -> Run:
        return Run("m", [*halves(40 - n), *(Unit(f"e{k}", status="error") for k in range(n))])

    fine = compared(with_errors(1))
    assert fine.rates[0].warnings == () and not fine.faults
    marked = compared(with_errors(4))
    assert "coverage 90.0 %" in marked.rates[0].warnings
    assert marked.rates[0].estimate is not None
    assert "m: coverage 90.0 %" in marked.faults
    withheld = compared(with_errors(10))
    assert withheld.rates[0].estimate is None and withheld.rates[0].low is None
    assert withheld.rates[0].method == "withheld: coverage 75.0 %"
    assert (withheld.rates[0].scored, withheld.rates[0].errored) == (30, 10)
    shown = compared(with_errors(10), allow_low_coverage=True)
    assert shown.rates[0].estimate == pytest.approx(0.5)
    assert shown.faults


def test_a_pair_with_many_gaps_is_withheld() -> None:
    holes = [Unit(f"i{n:02d}", status="unscored") for n in range(20)]
    found = compared(Run("a", halves(40)), Run("b", [*holes, *halves(40)[20:]]))
    assert found.pairs[0].overall.estimate is None
    assert "withheld" in found.pairs[0].overall.method


def test_unscored_everywhere_is_not_available() -> None:
    units = [Unit(f"i{n}", status="unscored", reason="refusal") for n in range(20)]
    found = compared(Run("a", units), Run("b", [replace(u, status="scored", value=1.0, reason=None)
                                                for u in units]))  # fmt: skip
    assert found.rates[0].estimate is None
    assert (found.rates[0].unscored, found.rates[0].coverage) == (20, 0.0)
    assert "no shared item with a score" in found.pairs[0].overall.method


def test_a_gap_where_the_key_does_not_apply_is_no_gap() -> None:
    def run(name: str, last: Unit) -> Run:
        return Run(name, [*halves(), last])

    broken = run("a", Unit("other", status="error"))
    whole = run("b", Unit("other", None, level="sample"))
    made = frames(broken, whole)
    made = replace(made, scores=made.scores[made.scores["item_id"] != "other"])
    a, b = compare_task(made, made.runs, Request()).rates
    assert (a.errored, b.errored) == (0, 0)
    alone = compared(Run("a", broken.units))
    assert alone.rates[0].errored == 1


def test_slots_do_not_count_as_planned_items() -> None:
    def run(name: str, broken: bool) -> Run:
        slots = [Unit(f"s{n}#{k}", float(k), level="slot") for n in range(12) for k in range(2)]
        samples = [Unit(f"s{n}", 1.0) for n in range(12)]
        if broken:
            samples[0] = Unit("s0", status="error")
            slots = slots[2:]
        return Run(name, [*samples, *slots])

    made = frames(run("a", True), run("b", False))
    slot = made.units["level"] == "slot"
    for frame in (made.units, made.scores):
        hash_at = frame["item_id"].str.contains("#")
        frame.loc[hash_at, "sample_uuid"] = frame.loc[hash_at, "sample_uuid"].str.replace(
            r"#\d", "", regex=True
        )
    made.units.loc[slot, "sample_id"] = made.units.loc[slot, "sample_id"].str.replace(
        r"#\d", "", regex=True
    )
    made.scores.loc[made.scores["item_id"].str.contains("#"), "key"] = "slot_correct"
    found = compare_task(made, made.runs, Request(metric="slot_correct"))
    a, b = found.rates
    assert (a.scored, a.errored, b.scored, b.errored) == (22, 1, 24, 0)


def test_different_factors_are_refused_with_values_and_counts() -> None:
    error = refusal(
        Run("a", zeros()),
        Run("b", zeros(), more={"factors": {"seed": 1, "grader": "x"}}),
        Run("c", zeros()),
    )
    assert "seed: 0 (2 runs: a, c) | 1 (1 run: b)" in text(error)
    assert 'grader: "x" (1 run: b) | not set (2 runs: a, c)' in text(error)
    assert "--models" in error.fix


def test_agreeing_models_can_be_chosen() -> None:
    runs = [Run("a", zeros()), Run("b", zeros(), more={"factors": {"seed": 1}}), Run("c", zeros())]
    assert [one.subject for one in compared(*runs, models=("a", "c")).rates] == ["a", "c"]
    assert "has no run of d" in text(refusal(*runs, models=("a", "d")))


def test_versions_are_refused_unless_allowed() -> None:
    runs = [
        Run("a", zeros()),
        Run("b", halves(), more={"comparability_version": 2, "task_version": "2-A"}),
    ]
    error = refusal(*runs)
    assert "task version N: 1 (1 run: a) | 2 (1 run: b)" in text(error)
    assert "--allow-version-mismatch" in error.fix
    found = compared(*runs, allow_version_mismatch=True)
    assert any("across task versions" in note for note in found.notes)
    both = [runs[0], replace(runs[1], more=runs[1].more | {"factors": {"seed": 1}})]
    assert "seed" in text(refusal(*both, allow_version_mismatch=True))


def test_unequal_epochs_are_allowed_and_told() -> None:
    twice = [replace(unit, epoch=epoch) for unit in halves() for epoch in (1, 2)]
    found = compared(Run("a", halves(), more={"epochs": 1}), Run("b", twice, more={"epochs": 2}))
    assert "epochs differ: 1 (1 run: a) | 2 (1 run: b)" in found.notes
    assert found.pairs[0].overall.estimate == 0


def test_other_versions_of_tools_are_a_note() -> None:
    found = compared(Run("a", zeros()), Run("b", halves(), more={"inspect_version": "0.4.0"}))
    assert any("versions of inspect-ai differ" in note for note in found.notes)


def test_unequal_items_are_refused_or_shared() -> None:
    runs = [Run("A", halves(22)), Run("B", halves(20))]
    error = refusal(*runs)
    assert "A has 22 items, B 20; 20 shared; only in A: i20, i21" in text(error)
    found = compared(*runs, intersect=True)
    assert [one.n_items for one in found.rates] == [20, 20]
    assert "20 of 22 items are shared and used" in found.notes
    assert any("A on the items left out: mean 0.500 of 2 rows" in note for note in found.notes)
    disjoint = [Run("A", series([1.0], variant="x")), Run("B", series([1.0], variant="y"))]
    assert "no shared item" in text(refusal(*disjoint, intersect=True))


def test_the_same_items_twice_need_a_choice() -> None:
    runs = [Run("a", zeros()), Run("b", zeros()), Run("a", halves())]
    error = refusal(*runs)
    assert "a i00 epoch 1: runs eval0, eval2" in text(error)
    assert text(error).count("epoch 1") == 5
    assert "--latest" in error.fix
    found = compared(*runs, latest=True)
    assert found.rates[0].estimate == pytest.approx(0.5)
    assert "older run left out: a eval0" in found.notes


def test_two_scorers_of_one_key_are_refused() -> None:
    made = frames(Run("a", zeros()))
    again = made.scores.assign(scorer="toy_score1")
    made = replace(made, scores=pd.concat([made.scores, again]))
    with pytest.raises(
        CompareRefused, match="several scorers give this key: toy_score, toy_score1"
    ):
        compare_task(made, made.runs, Request())


def test_two_runs_of_different_items_are_one_subject() -> None:
    first = [Unit(f"a{n}", 0.0) for n in range(10)]
    second = [Unit(f"b{n}", 1.0) for n in range(10)]
    (rate,) = compared(Run("m", first), Run("m", second)).rates
    assert (rate.n_items, rate.estimate) == (20, 0.5)


def test_of_a_retry_chain_the_newest_complete_run_counts() -> None:
    chain = {"task_id": "one"}
    found = compared(
        Run("m", zeros(), more=chain | {"status": "error"}),
        Run("m", halves(), more=chain),
        Run("m", series([1.0] * 20), more=chain | {"status": "cancelled"}),
    )
    assert found.rates[0].estimate == pytest.approx(0.5)
    assert found.faults == []
    assert "retried, left out: m eval0 (error)" in found.notes
    broken = compared(
        Run("m", zeros(), more=chain | {"status": "error"}),
        Run("m", halves(), more=chain | {"status": "cancelled"}),
    )
    assert broken.rates[0].estimate == pytest.approx(0.5)
    assert "m: status cancelled" in broken.faults


def test_declared_pairs_get_holm_and_all_pairs_bh() -> None:
    runs = [
        Run(name, series([float(n % 7 < limit) for n in range(42)]))
        for name, limit in (("a", 1), ("b", 3), ("c", 6))
    ]
    everything = compared(*runs)
    assert [one.name for one in everything.pairs] == ["b - a", "c - a", "c - b"]
    assert {one.overall.adjust_method for one in everything.pairs} == {"BH"}
    baseline = compared(*runs, baseline="b")
    assert [one.name for one in baseline.pairs] == ["a - b", "c - b"]
    assert {(one.overall.adjust_method, one.overall.family_size) for one in baseline.pairs} == {
        ("Holm", 2)
    }
    pair = compared(*runs, pairs=(("c", "a"),))
    assert [one.name for one in pair.pairs] == ["a - c"]
    assert [one.subject for one in pair.rates] == ["a", "c"]
    assert "with itself" in text(refusal(*runs, pairs=(("a", "a"),)))
    assert "no run of z" in text(refusal(*runs, baseline="z"))


def test_flips_are_listed_up_to_a_number() -> None:
    runs = [Run("a", zeros()), Run("b", halves())]
    assert len(compared(*runs).pairs[0].flips) == 10
    few = compared(*runs, flips=3).pairs[0]
    assert (len(few.flips), few.to_b, few.to_a) == (3, 10, 0)
    assert len(compared(*runs, flips=0).pairs[0].flips) == 10


def test_slices_by_any_factor() -> None:
    units = [
        Unit(f"i{n}", float(n % 2), factors={"topic": "law" if n < 16 else "art"})
        for n in range(32)
    ]
    found = compared(Run("a", units), by="topic")
    assert found.group_column == "topic"
    assert [(one.group, one.n_items) for one in found.group_rates] == [("art", 16), ("law", 16)]
    by_run = compared(Run("a", units, more={"factors": {"seed": 0}}), by="seed")
    assert [one.group for one in by_run.group_rates] == ["0"]
    by_column = compared(Run("a", units), by="model")
    assert [one.group for one in by_column.group_rates] == ["a"]
    error = refusal(Run("a", units), by="topik")
    assert "no column or factor 'topik'; did you mean 'topic'?" in text(error)


def test_an_unknown_key_names_those_there_are() -> None:
    error = refusal(Run("a", zeros()), metric="hits")
    assert "no scores of 'hits'; did you mean 'hit'?" in text(error)


@pytest.mark.parametrize("value", [1.5, -0.1, math.inf])
def test_a_value_outside_the_declared_range_is_an_error(value: float) -> None:
    error = refusal(Run("a", series([0.0, value] + [1.0] * 20)))
    assert "hit is" in text(error) and "item i01" in text(error)


def test_the_range_may_end_where_the_item_says() -> None:
    units = series([1.5] * 20, more={"value_max": 2.0})
    found = compared(Run("a", [*units, Unit("x", status="error", more={"value_max": 2.0})]))
    rate = found.rates[0]
    assert rate.estimate == pytest.approx(1.5)
    assert rate.low_if_missing == pytest.approx(30 / 21)
    assert rate.high_if_missing == pytest.approx(32 / 21)


def test_adjudicated_values_count_and_both_are_told() -> None:
    changed = Unit("x", 0.0, more={"adjudicated_value": 1.0, "adjudicated_by": "Reviewer 1"})
    taken = Unit("y", 1.0, more={"adjudicated_by": "Reviewer 1"})
    found = compared(Run("a", [*zeros(40), changed, taken]))
    rate = found.rates[0]
    assert rate.estimate == pytest.approx(1 / 41)
    assert (rate.scored, rate.unscored) == (41, 1)
    assert any("2 rows adjudicated; raw mean 0.024, now 0.024" in note for note in found.notes)


def test_a_judge_without_human_labels_is_not_validated() -> None:
    judged = series([0.0] * 20, more={"judge_model": "j"})
    note = "judge not validated: the store holds no human labels of this key"
    assert note in compared(Run("a", judged)).notes
    made = frames(Run("a", judged), labels=[{"task": "toy", "item_id": "i00", "key": "hit"}])
    assert note not in compare_task(made, made.runs, Request()).notes


def test_different_answer_formats_are_a_note() -> None:
    def run(name: str, form: str) -> Run:
        return Run(name, series([0.0] * 20, factors={"response_format": form}))

    found = compared(run("a", "schema"), run("b", "text"))
    assert "response formats differ: a schema, b text" in found.notes
    assert compared(run("a", "text"), run("b", "text")).notes == ()


def test_health_counts_reasons_and_crosses_limits() -> None:
    units = [
        *halves(90),
        *(Unit(f"u{n}", status="unscored", reason="grader_failed") for n in range(3)),
        *(Unit(f"e{n}", status="error") for n in range(7)),
    ]
    more = {"limited": 15, "truncated": 3, "refused": 2, "missing": 4, "planned": 100}
    found = compared(Run("m", units, more=more, samples={"error_type": "TimeoutError"}))
    (health,) = found.health
    assert health.line == (
        "planned 100 samples · scored 90 · unscored 3 (grader_failed 3) · "
        "errored 7 (TimeoutError 7) · "
        "missing 4 · limit hits 15 · refusals 2 · truncated 3 · retries 0"
    )
    assert health.faults == ("errored 7.0 % of planned",)
    assert health.marks == (
        "limited 15.0 % of planned",
        "truncated 3.0 % of planned",
        "missing 4 of 100",
    )


def test_tasks_are_never_mixed() -> None:
    made = frames(
        Run("a", zeros()),
        Run("a", zeros(), more={"task": "zoo"}),
        Run("a", zeros(), more={"package": "other"}),
        Run("a", zeros(), more={"task": "zoo", "factors": {"seed": 9}}),
    )
    results = compare(made, Request())
    assert [type(one).__name__ for one in results] == ["Comparison", "Comparison", "CompareRefused"]


def test_all_estimates_fit_one_table() -> None:
    found = compared(Run("a", zeros()), Run("b", halves()))
    table = records([found])
    assert table["kind"].tolist() == ["rate", "rate", "difference"]
    assert set(table["task"]) == {"toy"}
    assert "coverage" in table


def test_the_order_of_runs_changes_nothing() -> None:
    runs = [Run("a", halves()), Run("b", list(reversed(zeros()))), Run("c", halves()[::-1])]
    one, other = compared(*runs), compared(*reversed(runs))
    assert [rate.estimate for rate in one.rates] == [rate.estimate for rate in other.rates]
    assert [pair.overall for pair in one.pairs] == [pair.overall for pair in other.pairs]


def test_answers_that_were_none_stand_beside_the_rate() -> None:
    read = series([1.0, 1.0, 1.0, 0.0] * 5)
    none = [Unit(f"x{n}", 0.0, reason="invalid_response_format") for n in range(4)]
    found = compared(Run("a", [*read, *none]), Run("b", [*read, *(Unit(f"x{n}", 1.0)
                                                                  for n in range(4))]))  # fmt: skip
    assert found.health[0].invalid == {"invalid_response_format": 4}
    assert "scored 24 (invalid_response_format 4)" in found.health[0].line
    assert found.rates[0].estimate == pytest.approx(15 / 24)
    (valid,) = found.valid_rates
    assert (valid.subject, valid.n_items) == ("a", 20)
    assert valid.estimate == pytest.approx(15 / 20)
    document = found.document()
    assert document["rates_of_valid_answers"][0]["estimate"] == pytest.approx(15 / 20)
    assert document["health"][0]["invalid"] == {"invalid_response_format": 4}
    kinds = records([found])["kind"].tolist()
    assert kinds.count("rate of valid answers") == 1


def test_slots_of_an_answer_that_was_none_follow_it() -> None:
    units = [
        *(Unit(f"s{n}", 0.0, reason="truncated" if n < 2 else None) for n in range(20)),
        *(Unit(f"s{n}#{k}", float(n >= 2), level="slot") for n in range(20) for k in range(2)),
    ]
    made = frames(Run("m", units))
    for frame in (made.units, made.scores):
        frame["sample_uuid"] = frame["sample_uuid"].str.replace(r"#\d", "", regex=True)
    made.units["sample_id"] = made.units["sample_id"].str.replace(r"#\d", "", regex=True)
    made.scores.loc[made.scores["item_id"].str.contains("#"), "key"] = "slot_correct"
    found = compare_task(made, made.runs, Request(metric="slot_correct"))
    assert found.rates[0].estimate == pytest.approx(36 / 40)
    assert found.valid_rates[0].estimate == 1.0
    assert found.health[0].invalid == {"truncated": 2}


def test_errors_are_counted_in_the_units_of_the_line() -> None:
    """Trials of a sample that was cancelled, and trials whose own call failed."""
    failed = {"error": "RateLimitError: try later"}
    units = [
        *(Unit(f"i{n}", 1.0, level="trial") for n in range(90)),
        *(Unit(f"e{n}", status="error", level="trial") for n in range(3)),
        *(Unit(f"f{n}", status="error", level="trial", factors=failed) for n in range(2)),
    ]
    made = frames(Run("m", units))
    cut = made.units["item_id"].str.startswith("e")
    made.units.loc[cut, "sample_uuid"] = "one sample"
    cut = made.samples["sample_id"].str.startswith("sample-e")
    made.samples.loc[cut, ["sample_uuid", "error_type"]] = ["one sample", "CancelledError"]
    (health,) = compare_task(made, made.runs, Request()).health
    assert "planned 95 trials · scored 90 · " in health.line
    assert "errored 5 (CancelledError 3, RateLimitError 2)" in health.line


def test_a_refusal_without_any_reading_shows_the_health() -> None:
    units = [
        *(Unit(f"e{n}", status="error") for n in range(3)),
        Unit("u", status="unscored", reason="refusal"),
    ]
    error = refusal(Run("m", units, samples={"error_type": "TimeoutError"}))
    assert "no scores of 'hit'" in str(error)
    (line,) = error.health
    assert "unscored 1 (refusal 1) · errored 3 (TimeoutError 3)" in line


def test_slots_planned_beside_samples_make_the_line_count_units() -> None:
    units = [
        *(Unit(f"s{n}", 0.0, reason="refusal" if n < 2 else None) for n in range(20)),
        *(Unit(f"s{n}#{k}", 1.0, level="slot") for n in range(20) for k in range(2)),
    ]
    (health,) = compared(Run("m", units)).health
    assert "planned 60 units · scored 60 (refusal 2)" in health.line
    assert health.answers == 20
