"""Answers: what is read, and what is the judge's failure."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ContentReasoning,
    ContentText,
    ModelOutput,
    StopReason,
)

from propensity.scorers.juice.answers import Answer, NoEvidence, parse_answer, read_answer
from propensity.scorers.juice.placing import Item
from propensity.scorers.juice.records import PROTOCOLS, Protocol
from tests.support import say

GOOD = json.dumps(
    {
        "errors": [
            {"paragraph": 1, "span": "x", "occurrence": 2, "category": None, "explanation": "e"}
        ]
    }
)


def item_of(**fields: object) -> Item:
    entry = {"paragraph": 0, "span": "x"} | fields
    (item,) = parse_answer(json.dumps({"errors": [entry]}), "spans").items
    return item


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here is my answer.\n```json\n{GOOD}\n```",
        f'First {{"errors": []}}, no: {GOOD}',
        f'<think>{{"errors": []}} or {{"errors": [1]}}</think>{GOOD}',
        f"{GOOD}\nI hope this helps.",
    ],
)
def test_the_last_object_outside_reasoning_is_read(text: str) -> None:
    assert parse_answer(text, "spans") == Answer(items=(Item("x", 1, 2, None, "e"),))


def test_reasoning_that_does_not_end_holds_no_answer() -> None:
    assert parse_answer(f"<think>Say {GOOD}? No, wait", "spans").reason == "invalid_response_format"


def test_reasoning_content_is_no_answer() -> None:
    content = [ContentReasoning(reasoning=GOOD), ContentText(text='{"errors": []}')]
    output = ModelOutput(
        choices=[ChatCompletionChoice(message=ChatMessageAssistant(content=[*content]))]
    )
    assert read_answer(output, "spans") == Answer()


@pytest.mark.parametrize(
    "text",
    [
        "I find no error.",
        '{"errors": "none"}',
        '{"errors": null}',
        '{"erroneous": [1]}',
        "[]",
        '[{"paragraph": 0, "span": "x"}]',
        '{"errors": [{"paragraph": 0, "span": "x"}',
        '{"errors": [' + "9" * 5000 + "]}",
        "[" * 100_000,
        '{"a":' * 50_000,
        "\x00\ud835",
    ],
)
def test_anything_else_is_an_invalid_answer(text: str) -> None:
    assert parse_answer(text, "spans") == Answer("invalid_response_format")


@pytest.mark.parametrize(
    ("stop_reason", "text", "reason"),
    [
        ("content_filter", GOOD, "refusal"),
        ("max_tokens", GOOD, "truncated"),
        ("model_length", "", "truncated"),
        ("stop", "", "no_response"),
        ("stop", " \n", "no_response"),
        ("stop", "No.", "invalid_response_format"),
        ("stop", GOOD, None),
        ("unknown", GOOD, None),
    ],
)
def test_the_stop_reason_comes_first(
    stop_reason: StopReason, text: str, reason: str | None
) -> None:
    assert read_answer(say(text, stop_reason), "spans").reason == reason


def test_no_output_at_all_is_no_evidence() -> None:
    for output in (ModelOutput(), say("", "unknown")):
        with pytest.raises(NoEvidence):
            read_answer(output, "spans")


@pytest.mark.parametrize(
    ("given_as", "read_as"),
    [(2, 2), ("2", 2), (" 2 ", 2), (2.0, 2), ("২", 2), (2.5, None), ("two", None), (None, None),
     (True, None), ([2], None), (-1, -1), ("9" * 5000, None), (1e300, int(1e300))],
)  # fmt: skip
def test_a_paragraph_is_a_number_if_it_is_exactly_one(given_as: object, read_as: object) -> None:
    assert item_of(paragraph=given_as).paragraph == read_as


@pytest.mark.parametrize(
    ("given_as", "read_as"), [(None, None), (1, 1), ("1", 1), (0, 0), ("first", 0), (1.5, 0)]
)
def test_an_occurrence_that_is_no_number_sends_the_search_elsewhere(
    given_as: object, read_as: object
) -> None:
    assert item_of(occurrence=given_as).occurrence == read_as


def test_items_without_text_stay_items() -> None:
    text = '{"errors": [{"span": 5}, {"paragraph": 0}, "x", null, [], {"span": " "}]}'
    assert [item.span for item in parse_answer(text, "spans").items] == ["", "", "", "", "", " "]


def test_unknown_categories_are_null_and_counted() -> None:
    entries = [
        {"span": "a", "category": name}
        for name in ("cultural inaccuracy ", "Logical Error", "Typo", 5, None)
    ]
    answer = parse_answer(json.dumps({"errors": entries}), "spans")
    labels = [item.label for item in answer.items]
    assert labels == ["Cultural Inaccuracy", "Logical Error", None, None, None]
    assert answer.unknown_categories == 2


def test_sentence_answers() -> None:
    answer = parse_answer('{"erroneous": [0, "3", 2.0, "x", null, -1, true]}', "sentences")
    assert answer.sentences == (0, 3, 2, None, None, -1, None)
    assert parse_answer(GOOD, "sentences") == Answer("invalid_response_format")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["errors", "erroneous", "span", "paragraph", "occurrence", "category"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(PROTOCOLS), st.text(st.characters(), max_size=10))
def test_reading_never_raises(value: object, protocol: Protocol, around: str) -> None:
    for text in (
        around,
        json.dumps(value),
        around + json.dumps({"errors": value, "erroneous": value}),
    ):
        answer = parse_answer(text, protocol)
        assert answer.reason in (None, "invalid_response_format")
        assert all(isinstance(item.span, str) for item in answer.items)
