"""Counts of one answer: the specification's cases, fixture F, settings and hostile input."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.juice.answers import Answer, AnswerReason, parse_answer
from propensity.scorers.juice.comparison import Gold, Values, compare
from propensity.scorers.juice.metrics import Row, compute_metrics
from propensity.scorers.juice.placing import Item
from propensity.scorers.juice.records import Response, Settings
from propensity.scorers.juice.taxonomy import LOGICAL
from propensity.tasks.juice.policies import POLICIES
from tests.juice.builders import (
    EXPLICIT,
    FIXTURE,
    X_TEXT,
    Y_TEXT,
    Z_TEXT,
    Offsets,
    answer,
    distinct,
    group,
    response,
    scored,
)

NAN = "nan"
TEXT = distinct(40)


def metrics(values: Sequence[Values]) -> dict[str, float]:
    return compute_metrics([Row(one, str(place), {}) for place, one in enumerate(values)])


def shown(values: dict[str, float], suffix: str = "") -> str:
    """P/R/F1 as the specification prints them: four digits, no trailing or leading zero."""
    texts = (f"{values[name + suffix]:.4f}" for name in ("precision", "recall", "f1"))
    return "/".join(
        text if text == NAN else text.rstrip("0").rstrip(".").removeprefix("0") or "0"
        for text in texts
    )


# Groups (members), predictions, absent predictions, then one-to-one, any-overlap and characters.
CASES: list[tuple[list[list[Offsets]], list[Offsets], int, str, str, str]] = [
    ([[(10, 20)]], [(10, 20)], 0, "1/1/1", "1/1/1", "1/1/1"),
    ([[(10, 20)]], [(10, 30)], 0, "1/1/1", "1/1/1", ".5/1/.6667"),
    ([[(10, 20)]], [(10, 31)], 0, "0/0/0", "1/1/1", ".4762/1/.6452"),
    ([[(10, 20)]], [(15, 25)], 0, "0/0/0", "1/1/1", ".5/.5/.5"),
    ([[(10, 19)]], [(13, 22)], 0, "1/1/1", "1/1/1", ".6667/.6667/.6667"),
    ([[(10, 14), (10, 20)]], [(10, 16)], 0, "1/1/1", "1/1/1", "1/.6/.75"),
    ([[(0, 10)], [(10, 20)]], [(0, 20)], 0, "1/.5/.6667", "1/1/1", "1/1/1"),
    ([[(0, 20)]], [(0, 12), (8, 20)], 0, ".5/1/.6667", "1/1/1", "1/1/1"),
    ([[(0, 11)], [(3, 14)]], [(2, 14), (6, 16)], 0, "1/1/1", "1/1/1", ".8571/.8571/.8571"),
    ([[(0, 8)], [(0, 20)]], [(0, 12)], 0, "1/.5/.6667", "1/1/1", "1/.6/.75"),
    ([], [(0, 5), (7, 9)], 0, "0/nan/0", "0/nan/0", "0/nan/0"),
    ([[(0, 5)], [(9, 12)]], [], 0, "nan/0/0", "nan/0/0", "nan/0/0"),
    ([], [], 0, "nan/nan/nan", "nan/nan/nan", "nan/nan/nan"),
    ([[(0, 5)], [(9, 12)]], [(0, 5)], 1, ".5/.5/.5", ".5/.5/.5", "1/.625/.7692"),
]


@pytest.mark.parametrize(("groups", "spans", "absent", "one", "any_", "chars"), CASES)
def test_worked_cases(
    groups: list[list[Offsets]],
    spans: list[Offsets],
    absent: int,
    one: str,
    any_: str,
    chars: str,
) -> None:
    of = response(TEXT, *(group(TEXT, f"g{n}", members) for n, members in enumerate(groups)))
    given_answer = answer(TEXT, *spans, absent=absent)
    strict = metrics([scored(of, given_answer)])
    loose = metrics([scored(of, given_answer, matching="any_overlap")])
    assert shown(strict) == one
    assert shown(loose) == shown(strict, "_any") == any_
    assert shown(strict, "_chars") == shown(loose, "_chars") == chars


def by_policy(name: str) -> list[Values]:
    golds = [Gold(one, Settings()) for one in FIXTURE]
    return [compare(gold, parse_answer(POLICIES[name](gold), "spans")).values for gold in golds]


def mixed() -> list[Values]:
    answers = [
        answer(X_TEXT, (0, 10), (22, 38), (61, 64), (70, 75), (80, 88)),
        answer(Y_TEXT, (10, 30)),
        answer(Z_TEXT, (3, 9)),
    ]
    return [scored(of, one) for of, one in zip(FIXTURE, answers, strict=True)]


# Judge: TP/predictions/groups, P/R/F1, any, characters, thin and thick recall.
FIXTURE_ROWS = {
    "perfect": ("6/6/6", "1/1/1", "1/1/1", "1/.8936/.9438", "3/3", "4/4"),
    "silent": ("0/0/6", "nan/0/0", "nan/0/0", "nan/0/0", "0/3", "0/4"),
    "everything": ("1/4/6", ".25/.1667/.2", ".75/1/.8571", ".4747/1/.6438", "1/3", "1/4"),
    "half": ("3/3/6", "1/.5/.6667", "1/.6667/.8", "1/.3617/.5312", "1/3", "2/4"),
    "shifted": ("2/6/6", ".3333/.3333/.3333", "1/1/1", ".6404/.6064/.623", "1/3", "2/4"),
    "mixed": ("4/7/6", ".5714/.6667/.6154", ".7143/1/.8333", ".8382/.6064/.7037", "1/3", "3/4"),
}
CURVES = {
    "mixed": [0.7692] * 4 + [0.6154, 0.6154, 0.4615, 0.3077, 0.1538, 0.1538],
    "everything": [0.6] * 4 + [0.2] + [0.0] * 5,
    "shifted": [1.0] * 3 + [0.3333, 0.3333, 0.1667] + [0.0] * 4,
    "perfect": [1.0] * 10,
    "silent": [0.0] * 10,
}


@pytest.mark.parametrize("judge", FIXTURE_ROWS)
def test_fixture_f(judge: str) -> None:
    values = mixed() if judge == "mixed" else by_policy(judge)
    counts, plain, any_, chars, thin, thick = FIXTURE_ROWS[judge]
    totals: Counter[str] = Counter()
    for one in values:
        totals.update(one)
    of = metrics(values)
    assert "/".join(f"{totals[key]:g}" for key in ("tp", "n_pred", "n_gold")) == counts
    assert (shown(of), shown(of, "_any"), shown(of, "_chars")) == (plain, any_, chars)
    assert f"{totals['hit_thin']:g}/{totals['n_thin']:g}" == thin
    assert f"{totals['hit_thick']:g}/{totals['n_thick']:g}" == thick
    assert (totals["n_inaccuracy"], totals["two_labels"]) == (2, 1)


@pytest.mark.parametrize("judge", CURVES)
def test_fixture_f_curves(judge: str) -> None:
    of = metrics(mixed() if judge == "mixed" else by_policy(judge))
    assert [round(of[f"f1_{step:02d}"], 4) for step in range(1, 11)] == CURVES[judge]
    assert of["f1_curve"] == pytest.approx(sum(CURVES[judge]) / 10, abs=1e-4)


def test_mean_iou_of_matched_pairs() -> None:
    assert round(metrics(by_policy("shifted"))["iou_mean"], 4) == 0.5833
    assert round(metrics(mixed())["iou_mean"], 4) == 0.7875


def test_duplicates_merge_and_two_categories_do_not() -> None:
    of = response(TEXT, group(TEXT, "g", [(0, 5)]))
    item = Item(TEXT[0:5], 0)
    twice = scored(of, Answer(items=(item, item, item._replace(explanation="other"))))
    assert (twice["n_pred"], twice["duplicates"], twice["tp"]) == (1, 2, 1)
    labelled = item._replace(label=EXPLICIT)
    both = scored(of, Answer(items=(item, labelled)))
    assert (both["n_pred"], both["duplicates"], both["tp"]) == (2, 0, 1)


def test_empty_and_absent_items_are_false_positives() -> None:
    of = response(TEXT, group(TEXT, "g", [(0, 5)]))
    items = (Item(TEXT[0:5], 0), Item("", 0), Item(" ", None), Item("nowhere", 0))
    values = scored(of, Answer(items=items))
    assert (values["n_pred"], values["tp"]) == (4, 1)
    assert (values["empty_pred"], values["unlocatable_pred"], values["ch_pred"]) == (2, 1, 5)


def test_gold_that_is_nowhere_stays_in_the_denominator() -> None:
    lost = group("nowhere to be found", "lost", [(0, 7)])
    of = response(TEXT, group(TEXT, "g", [(0, 5)]), lost)
    values = scored(of, answer(TEXT, (0, 5)))
    assert (values["n_gold"], values["unlocatable_gold"], values["moved_gold"]) == (2, 1, 1)
    figures = metrics([values])
    assert (figures["recall"], figures["recall_located"]) == (0.5, 1.0)


def logical_response() -> Response:
    return response(
        TEXT,
        group(TEXT, "a", [(0, 10)]),
        group(TEXT, "b", [(20, 30)], LOGICAL),
        group(TEXT, "c", [(32, 36), (32, 38)], LOGICAL, "Cultural Incoherence"),
    )


def test_logical_errors_count_in_no_family() -> None:
    values = scored(logical_response(), answer(TEXT, (20, 30)))
    assert (values["n_gold"], values["tp"], values["hit_logical"]) == (3, 1, 1)
    families = ("thin", "thick", "linguistic", "cultural")
    assert [values[f"n_{name}"] for name in families] == [1, 1, 1, 1]


@pytest.mark.parametrize("matching", ["one_to_one", "any_overlap"])
def test_ignored_logical_errors_leave_both_denominators(matching: str) -> None:
    settings = {"logical_error": "ignore", "matching": matching}
    values = scored(logical_response(), answer(TEXT, (0, 10), (20, 30), (32, 38)), **settings)
    assert (values["n_gold"], values["n_pred"], values["right"], values["found"]) == (2, 2, 2, 2)
    assert (values["ch_gold"], values["ch_pred"]) == (16, 16)
    assert values["tp_10"] == 2
    # a prediction that matches nothing stays wrong, also beside an ignored group
    beside = scored(logical_response(), answer(TEXT, (13, 16)), **settings)
    assert (beside["n_pred"], beside["right"]) == (1, 0)


def test_ignored_groups_take_no_prediction_that_only_touches_them() -> None:
    # IoU 2/10 is no match at .5, so the prediction stays in the denominator
    values = scored(logical_response(), answer(TEXT, (20, 22)), logical_error="ignore")
    assert (values["n_pred"], values["tp"], values["n_gold"]) == (1, 0, 2)
    loose = scored(
        logical_response(),
        answer(TEXT, (20, 22)),
        logical_error="ignore",
        matching="any_overlap",
    )
    assert (loose["n_pred"], loose["right"]) == (0, 0)


def test_sentences_of_ignored_groups_are_not_judged() -> None:
    text = "One fact. Another fact. A third."
    of = response(
        text, group(text, "a", [(0, 8)]), group(text, "b", [(10, 17)], LOGICAL), language="en"
    )
    everything = Answer(sentences=(0, 1, 2))
    values = scored(of, everything, protocol="sentences", logical_error="ignore")
    assert (values["n_pred"], values["tp"], values["n_gold"], values["sent_n"]) == (2, 1, 1, 2)
    assert scored(of, everything, protocol="sentences")["n_gold"] == 2


def test_human_gold_leaves_out_marks_of_models_and_their_groups() -> None:
    of = response(
        TEXT,
        group(
            TEXT,
            "a",
            [(0, 10), (0, 20)],
            EXPLICIT,
            "Cultural Incoherence",
            finders=["human", "model"],
        ),
        group(TEXT, "b", [(25, 30)], finders=["model"]),
    )
    given_answer = answer(TEXT, (0, 20), (25, 30))
    all_marks = scored(of, given_answer)
    assert (all_marks["tp"], all_marks["n_gold"], all_marks["n_thick"]) == (2, 2, 1)
    assert [all_marks[f"n_{who}"] for who in ("human", "model", "both")] == [0, 1, 1]
    people = scored(of, given_answer, gold="human")
    assert (people["tp"], people["n_gold"], people["n_pred"], people["n_thick"]) == (1, 1, 2, 0)
    assert people["ch_gold"] == 10


def test_occurrences_are_given_out_before_marks_are_left_out() -> None:
    text = "aa bb aa bb"
    of = response(
        text,
        group(text, "a", [(0, 2)], finders=["model"]),
        group(text, "b", [(0, 2)], finders=["human"]),
    )
    gold = Gold(of, Settings(gold="human"))
    assert [one.spans for one in gold.groups] == [((6, 8),)]


def test_the_gravest_criticality_of_a_group_counts() -> None:
    marks = [
        group(TEXT, "a", [(0, 5)], criticality=level).marks[0]
        for level in ("Low", "High", "odd", None)
    ]
    of = response(TEXT, group(TEXT, "a", [(0, 5)]).model_copy(update={"marks": tuple(marks)}))
    values = scored(of, answer(TEXT, (0, 5)))
    assert [values[f"hit_crit_{name}"] for name in ("low", "middle", "high")] == [0, 0, 1]


def test_other_units_and_thresholds_change_the_match() -> None:
    text = "It is a state-of-the-art mosque."
    start = text.index("state")
    of = response(text, group(text, "g", [(start, len(text) - 1)]))
    given_answer = answer(text, (text.index("mosque"), len(text) - 1))
    assert scored(of, given_answer, threshold=0.26)["tp"] == 1
    assert scored(of, given_answer, threshold=0.27)["tp"] == 0
    assert scored(of, given_answer, threshold=0.125, unit="word")["tp"] == 1
    assert scored(of, given_answer, threshold=0.13, unit="word")["tp"] == 0


def test_span_answers_project_on_sentences() -> None:
    text = "One fact. Another fact. A third."
    of = response(text, group(text, "a", [(0, 3)]), group(text, "b", [(26, 31)]))
    values = scored(of, answer(text, (4, 8), (10, 17)))
    counts = [values[f"sent_{name}"] for name in ("tp", "pred", "gold", "n", "outside")]
    assert counts == [1, 2, 2, 3, 0]


def test_gold_outside_sentences_is_counted() -> None:
    text = "One fact.\n---\nTwo."
    of = response(text, group(text, "a", [(10, 13)]))
    values = scored(of, Answer(), protocol="sentences")
    assert (values["sent_outside"], values["n_gold"]) == (1, 0)


def test_sentence_indices_that_do_not_exist_are_false_positives() -> None:
    text = "One fact. Another fact."
    of = response(text, group(text, "a", [(0, 3)]))
    given_answer = Answer(sentences=(0, 0, 2, -1, None, 99))
    values = scored(of, given_answer, protocol="sentences")
    assert (values["n_pred"], values["tp"], values["bad_index"]) == (5, 1, 4)
    assert values["duplicates"] == 1


def test_an_unreadable_answer_is_no_prediction() -> None:
    of = FIXTURE[0]
    for reason in get_args(AnswerReason):
        values = scored(of, Answer(reason))
        assert (values["n_pred"], values["n_gold"], values["invalid"]) == (0, 4, 1)
        assert values["valid_gold"] == 0
        flagged = {name for name in ("no_response", "refusal", "truncated") if values[name]}
        assert flagged == {reason} - {"invalid_response_format"}


PIECES = st.tuples(st.integers(0, 39), st.integers(1, 12)).map(
    lambda pair: (pair[0], min(40, pair[0] + pair[1]))
)
GROUPS = st.lists(st.lists(PIECES, min_size=1, max_size=2), max_size=4)


@given(GROUPS, st.lists(PIECES, max_size=5), st.randoms())
def test_order_of_predictions_and_groups_changes_nothing(
    groups: list[list[Offsets]], spans: list[Offsets], rng: object
) -> None:
    records = [group(TEXT, f"g{n}", members) for n, members in enumerate(groups)]
    expected = scored(response(TEXT, *records), answer(TEXT, *spans))
    backwards = scored(response(TEXT, *records[::-1]), answer(TEXT, *spans[::-1]))
    assert backwards == pytest.approx(expected)


@given(GROUPS, st.lists(PIECES, max_size=5))
def test_counts_hang_together(groups: list[list[Offsets]], spans: list[Offsets]) -> None:
    of = response(TEXT, *(group(TEXT, f"g{n}", members) for n, members in enumerate(groups)))
    values = scored(of, answer(TEXT, *spans, absent=1))
    assert values["tp"] == values["tp_05"] == values["right"] == values["found"]
    assert values["tp"] <= min(values["n_pred"], values["n_gold"])
    assert values["tp"] <= values["any_gold"] <= values["n_gold"] == len(groups)
    assert values["ch_both"] <= min(values["ch_pred"], values["ch_gold"])
    assert values["n_pred"] == len(set(spans)) + 1
    assert values["n_thin"] == len(groups)


@given(GROUPS, st.lists(PIECES, max_size=5), PIECES)
def test_a_wrong_prediction_more_never_helps(
    groups: list[list[Offsets]], spans: list[Offsets], extra: Offsets
) -> None:
    of = response(TEXT, *(group(TEXT, f"g{n}", members) for n, members in enumerate(groups)))
    before = scored(of, answer(TEXT, *spans))
    after = scored(of, answer(TEXT, *spans, absent=1))
    assert after["tp"] == before["tp"]
    assert after["n_pred"] == before["n_pred"] + 1
    more = scored(of, answer(TEXT, *spans, extra))
    assert before["tp"] <= more["tp"] <= before["tp"] + 1


def test_a_span_of_a_megabyte_and_ten_thousand_errors_are_scored() -> None:
    of = FIXTURE[0]
    started = time.monotonic()
    huge = scored(of, Answer(items=(Item("क" * 1_000_000, 0), Item("x " * 500_000, None))))
    assert (huge["unlocatable_pred"], huge["n_pred"]) == (2, 2)
    repeated = tuple(Item(X_TEXT[0], 0) for _ in range(10_000))
    many = scored(of, Answer(items=repeated))
    assert (many["n_pred"], many["duplicates"]) == (1, 9_999)
    text = "a" * 4_000
    dense = scored(
        response(text, group(text, "g", [(0, 1)])),
        Answer(items=tuple(Item("a", 0) for _ in range(10_000))),
    )
    assert (dense["n_pred"], dense["duplicates"], dense["tp"]) == (4_000, 6_000, 1)
    assert time.monotonic() - started < 10
