"""A subject beside answers that need no model: the best is named, and who wins is said."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from propensity.results.report.compare import Comparison, Request, compare_task, records
from tests.results.tables import Run, Unit, frames, series
from tests.results.test_text import shown

SHARE = {"range": [0, 1], "lower_is_better": False}
KEYS = {
    "hit": SHARE | {"label": "right"},
    "baseline_a": SHARE | {"label": "always A", "reference_for": "hit"},
    "baseline_b": SHARE | {"label": "keyword", "reference_for": "hit"},
}


def beside(
    own: Sequence[float], *, better: bool = False, metric: str | None = None, **more: Any
) -> Comparison:
    """A subject beside two references that have 8 and 12 of 40 items right."""
    about = KEYS
    if better:
        about = {name: one | {"lower_is_better": True} for name, one in KEYS.items()}
    made = frames(Run("m", series(own), more={"keys": about} | more))
    extra = []
    for name, right in (("baseline_a", 8), ("baseline_b", 12)):
        scores = made.scores.copy()
        scores["key"] = name
        scores["value"] = [float(n < right) for n in range(len(scores))]
        extra.append(scores)
    made = type(made)(**vars(made) | {"scores": pd.concat([made.scores, *extra])})
    return compare_task(made, made.runs, Request(metric=metric))


def test_the_best_reference_is_named_and_the_lead_is_paired() -> None:
    (one,) = beside([1.0] * 30 + [0.0] * 10).standings
    assert [r.subject for r in one.references] == ["keyword", "always A"]
    assert [r.estimate for r in one.references] == pytest.approx([0.3, 0.2])
    assert one.lead.estimate == pytest.approx(0.45)
    assert one.lead.p_method == "exact McNemar" and one.lead.p is not None and one.lead.p < 0.001
    assert (one.lead.low or 0) > 0


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (6, "m is below the best baseline, keyword (30.0 %): the baseline wins"),
        (12, "m only equals the best baseline, keyword (30.0 %)"),
        (14, "m is not shown to be above the best baseline, keyword (30.0 %)"),
        (30, None),
    ],
)
def test_who_wins_is_said_in_words(right: int, words: str | None) -> None:
    found = beside([float(n < right) for n in range(40)])
    text = " ".join(shown(found).split())
    assert "baselines on these items: keyword 30.0 %, always A 20.0 %" in text
    if words is None:
        assert "the best baseline, " not in text
    else:
        assert words in text
    assert found.document()["beside_references"][0]["references"][0]["subject"] == "keyword"


def test_where_less_is_better_the_lowest_reference_is_the_best() -> None:
    (one,) = beside([1.0] * 30 + [0.0] * 10, better=True).standings
    assert one.references[0].subject == "always A"
    assert "the baseline wins" in shown(beside([1.0] * 30 + [0.0] * 10, better=True))


def test_only_references_for_the_key_that_was_asked_for() -> None:
    assert beside([1.0] * 40, metric="baseline_a").standings == ()
    assert len(beside([1.0] * 40, metric="hit").standings) == 1


def test_few_items_have_a_lead_but_no_interval() -> None:
    (one,) = beside([1.0] * 14).standings
    assert one.lead.low is None and one.lead.method == "counts only"


def test_what_was_not_scored_counts_for_neither_side() -> None:
    units = [*series([1.0] * 20), Unit("x", status="error")]
    made = frames(Run("m", units, more={"keys": KEYS}))
    scores = made.scores.assign(key="baseline_a", value=1.0)
    made = type(made)(**vars(made) | {"scores": pd.concat([made.scores, scores])})
    (one,) = compare_task(made, made.runs, Request()).standings
    assert (one.lead.n_items, one.lead.estimate) == (20, 0.0)


def test_a_rate_that_is_withheld_does_not_come_back_beside_a_baseline() -> None:
    units = [*series([1.0] * 20), *(Unit(f"x{n}", status="error") for n in range(10))]
    made = frames(Run("m", units, more={"keys": KEYS}))
    scores = made.scores.assign(key="baseline_a", value=0.0)
    made = type(made)(**vars(made) | {"scores": pd.concat([made.scores, scores])})
    assert compare_task(made, made.runs, Request()).standings == ()
    (one,) = compare_task(made, made.runs, Request(allow_low_coverage=True)).standings
    assert (one.own.scored, one.own.errored) == (20, 10)
    assert one.own.warnings[-1] == "coverage 66.7 %"


def test_the_table_of_estimates_holds_the_baselines_and_the_lead() -> None:
    table = records([beside([1.0] * 30 + [0.0] * 10)]).set_index("kind")
    keyword = table.to_dict("index")["baseline: keyword"]
    assert (keyword["subject"], keyword["scored"]) == ("m", 40)
    assert keyword["estimate"] == pytest.approx(0.3)
    assert table.loc["lead over the best baseline", "estimate"] == pytest.approx(0.45)
