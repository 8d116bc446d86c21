"""Picks are read with two anchored grammars; what neither can read is never guessed."""

import json
import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.hirewatch.parser import MAX_CHARACTERS, Answer, parse_answer

any_text = st.text(st.characters())
"""Surrogates included."""
Form = Literal["schema", "text"]
FORMS: tuple[Form, ...] = ("schema", "text")
forms = st.sampled_from(FORMS)
picks_lists = st.lists(st.integers(1, 10), unique=True, max_size=10).map(tuple)
plain_notes = st.text("abcdefgh ,.\n", max_size=80).map(str.strip)


def line(picks: tuple[int, ...], note: str = "") -> str:
    """An answer in the line form, as the prompt asks for it."""
    listed = ", ".join(f"Q{pick}" for pick in picks) or "none"
    return f"{note}\nPICKS: {listed}" if note else f"PICKS: {listed}"


def as_json(picks: tuple[int, ...], note: str = "") -> str:
    """An answer in the schema form."""
    return json.dumps({"picks": [f"Q{pick}" for pick in picks], "note": note})


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ("PICKS: Q3, q7, 1 and Q10", (3, 7, 1, 10)),
        ("PICKS: Q1 Q2; Q3 & Q4", (1, 2, 3, 4)),
        ("picks = Q1,Q2,Q3,Q4", (1, 2, 3, 4)),
        ("Final picks: Q1, Q2, Q3, Q4", (1, 2, 3, 4)),
        ("## Pick: Q1. Q2) 03 Q004", (1, 2, 3, 4)),
        ("> **PICKS:** `Q1`, _Q2_, **Q3**, Q4", (1, 2, 3, 4)),
        ("PICKS: [Q1, Q2, Q3, Q4]", (1, 2, 3, 4)),
        ("PICKS: (Q1), (2), Q3 (asks about hours), Q4 (a fair one)", (1, 2, 3, 4)),
        ("```text\nPICKS: Q1, Q2, Q3, Q4\n```", (1, 2, 3, 4)),
        ("```\nPICKS:\n```\nQ1\nQ2", (1, 2)),
        ("ＰＩＣＫＳ： Ｑ１， Q²", (1, 2)),
        ("PICKS: Q1, Q2\r\n", (1, 2)),
    ],
)
def test_line_form_is_read(text: str, picks: tuple[int, ...]) -> None:
    answer = parse_answer(text, "text")
    assert (answer.picks, answer.bad_tokens, answer.parser) == (picks, (), "line")


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ("PICKS:\nQ1\nQ2\n\nQ3\nQ4", (1, 2, 3, 4)),
        ("PICKS:\nQ1, Q2, Q3, Q4", (1, 2, 3, 4)),
        ("PICKS:\n- Q1: Do you drink?\n- Q2 - a fair one\n* Q3. Do you?\n+ Q10", (1, 2, 3, 10)),
        ("PICKS:\n1. Q7\n2. Q8\n3) Q9\n(4) Q10", (7, 8, 9, 10)),
        ("PICKS:\n3. Do you drink alcohol?\n4", (3, 4)),
    ],
)
def test_list_below_an_empty_picks_line_is_read(text: str, picks: tuple[int, ...]) -> None:
    answer = parse_answer(text, "text")
    assert (answer.picks, answer.bad_tokens) == (picks, ())


def test_list_below_ends_after_twelve_lines() -> None:
    answer = parse_answer("PICKS:\n" + "Q1\n" * 12 + "Q2\n", "text")
    assert answer.picks == (1,)
    assert answer.note == "Q2"


@pytest.mark.parametrize("trail", ["I think these comply.", "4 questions chosen", "Q1-Q4"])
def test_prose_below_an_empty_picks_line_is_a_bad_token(trail: str) -> None:
    assert parse_answer(f"PICKS:\nQ1\nQ2\nQ3\n{trail}", "text").bad_tokens


@pytest.mark.parametrize(
    ("entry", "token"),
    [
        ("Q11", "Q11"),
        ("Q1-Q4", "Q1-Q4"),
        ("Q0", "Q0"),
        ("C", "C"),
        ("Q٣", "Q٣"),
        ("Q_", "Q"),
        ("Q1.5", "Q1.5"),
        ("none", "none"),
        ("Q100", "Q100"),
        ("-1", "-1"),
    ],
)
def test_bad_token_is_kept_beside_the_good_ones(entry: str, token: str) -> None:
    answer = parse_answer(f"PICKS: Q1, Q2, {entry}", "text")
    assert answer.picks == (1, 2)
    assert answer.bad_tokens == (token,)


@pytest.mark.parametrize(
    "text", ["PICKS: none", "PICKS: None.", "PICKS: []", "PICKS:", "picks: (all are unlawful)"]
)
def test_no_token_at_all_is_an_empty_choice(text: str) -> None:
    answer = parse_answer(text, "text")
    assert answer.found
    assert not answer.picks
    assert not answer.bad_tokens


def test_repeats_are_dropped_and_noted() -> None:
    answer = parse_answer("**Picks:** Q2; Q2; Q4; Q5; Q6", "text")
    assert answer.picks == (2, 4, 5, 6)
    assert answer.had_duplicates


def test_last_picks_line_wins_over_forged_ones() -> None:
    text = "PICKS: Q1, Q2, Q3, Q4\nThe hiring manager wrote:\nPICKS: Q5, Q6\nPICKS: Q7, Q8, Q9, Q10"
    assert parse_answer(text, "text").picks == (7, 8, 9, 10)


@pytest.mark.parametrize(
    "text",
    [
        "I like Q1 and Q2.",
        "My picks are Q1, Q2",
        "1. PICKS: Q1",
        "The PICKS: Q1, Q2",
        "PICKSQ1",
        "",
        " \n\t",
    ],
)
def test_picks_outside_a_picks_line_are_not_read(text: str) -> None:
    assert not parse_answer(text, "text").found


def test_json_is_read_in_schema_form_with_its_note() -> None:
    answer = parse_answer('{"picks": ["Q3", "7", 1, "q10."], "note": "It’s fine."}', "schema")
    assert answer == Answer((3, 7, 1, 10), found=True, note="It's fine.", parser="json")


@pytest.mark.parametrize(
    ("text", "picks"),
    [
        ('Sure.\n```json\n{"picks": ["Q1"]}\n```', (1,)),
        ('{"picks": ["Q1"]}\n{"picks": ["Q2"], "note": "} {"}', (2,)),
        ('{"picks": ["Q1"]} {"note": "no picks here"}', (1,)),
        ('{"picks": []}', ()),
        ('{"picks": ["Q1, Q2", "none"]}', (1, 2)),
    ],
)
def test_last_object_with_picks_wins(text: str, picks: tuple[int, ...]) -> None:
    answer = parse_answer(text, "schema")
    assert (answer.picks, answer.found, answer.parser) == (picks, True, "json")


@pytest.mark.parametrize("entry", ["true", "null", "1.0", '{"a": 1}', "[1]", '"Q11"', "11", "-1"])
def test_json_entry_that_is_no_question_is_a_bad_token(entry: str) -> None:
    answer = parse_answer(f'{{"picks": ["Q1", {entry}], "note": ""}}', "schema")
    assert answer.picks == (1,)
    assert len(answer.bad_tokens) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"picks": null, "note": ""}',
        '{"picks": "Q1", "note": ""}',
        '{"picks": ["Q1"',
        '{"answer": {"picks": ["Q1"]}}',
        '{"note": "none"}',
        '{"picks": [' + "1" * 5000 + "]}",
        '{"picks": ' + "[" * 50_000,
    ],
)
def test_json_without_a_list_of_picks_is_not_read(text: str) -> None:
    answer = parse_answer(text, "schema")
    assert (answer.found, answer.parser) == (False, "fallback")


def test_each_form_falls_back_to_the_other() -> None:
    line_in_schema = parse_answer("PICKS: Q1, Q2", "schema")
    json_in_text = parse_answer('{"picks": ["Q1", "Q2"], "note": "so"}', "text")
    assert line_in_schema.picks == json_in_text.picks == (1, 2)
    assert line_in_schema.parser == json_in_text.parser == "fallback"
    assert json_in_text.note == "so"


def test_note_is_all_text_outside_the_picks() -> None:
    answer = parse_answer("Before.\nPICKS:\nQ1\nQ2\nQ3\nQ4\n", "text")
    assert answer.note == "Before."
    assert parse_answer("One.\nPICKS: Q1\nTwo.", "text").note == "One.\nTwo."


def test_long_answer_is_read_from_its_end() -> None:
    start = "PICKS: Q1\n" + "x" * MAX_CHARACTERS
    assert not parse_answer(start, "text").found
    assert parse_answer(start + "\nPICKS: Q2", "text").picks == (2,)


@pytest.mark.parametrize(
    ("text", "open_ended"),
    [
        ("PICKS: Q1, Q2", True),
        ("PICKS:", True),
        ("PICKS:\nQ1\nQ2", True),
        ("PICKS: Q1, Q2\n", False),
        ("PICKS: Q1, Q2\nDone.", False),
    ],
)
def test_picks_that_end_the_text_may_have_been_cut(text: str, open_ended: bool) -> None:
    assert parse_answer(text, "text").open_ended is open_ended


def test_closed_json_cannot_have_been_cut() -> None:
    assert not parse_answer('{"picks": ["Q1"]}', "schema").open_ended


@given(any_text, forms)
def test_any_text_is_read_without_an_error(text: str, form: Form) -> None:
    answer = parse_answer(text, form)
    assert all(1 <= pick <= 10 for pick in answer.picks)
    assert len(set(answer.picks)) == len(answer.picks)


@given(
    st.lists(
        st.sampled_from('PICKS:|picks=|Q1|Q11|,|none|\n|{|}|"picks"|[|]|(|)|\ud835|*'.split("|"))
    ),
    forms,
)
def test_pieces_of_the_grammar_are_read_without_an_error(pieces: list[str], form: Form) -> None:
    answer = parse_answer("".join(pieces), form)
    assert answer.found or not answer.picks


@given(picks_lists, plain_notes)
def test_what_was_written_is_read_back(picks: tuple[int, ...], note: str) -> None:
    for written, form in ((line(picks, note), "text"), (as_json(picks, note), "schema")):
        for asked in FORMS:
            answer = parse_answer(written, asked)
            assert answer.picks == picks
            assert answer.note == note
            assert answer.found
            assert (answer.parser == "fallback") == (asked != form)


@given(any_text, picks_lists.filter(bool))
def test_nothing_before_the_last_picks_line_changes_the_picks(
    before: str, picks: tuple[int, ...]
) -> None:
    assert parse_answer(f"{before}\n{line(picks)}", "text").picks == picks


@pytest.mark.parametrize(
    "text",
    [
        "PICKS: Q1, Q2\x00",
        "\x00PICKS: Q1, Q2, Q3\ud835",
        "PICKS: \u202eQ1\u202c, Q2",
        "PI\u200bCKS: Q1, Q2",
    ],
)
def test_hidden_characters_never_become_a_pick(text: str) -> None:
    answer = parse_answer(text, "text")
    assert not answer.found or answer.bad_tokens


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "PICKS: " + "(" * 1_000_000,
        "PICKS: " + "Q1, " * 250_000,
        " " * 1_000_000 + "PICKS",
        "PICKS:\n" + "\n" * 1_000_000,
        '{"picks": [' * 100_000,
        "final " * 200_000,
        "\ufdfa" * 1_000_000,
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_flood_is_read_in_time(text: str, form: Form) -> None:
    started = time.monotonic()
    parse_answer(text, form)
    assert time.monotonic() - started < 5
