"""Answers are read as the tables say, and never crash the reader."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ModelOutput, StopReason

from propensity.scorers.rpeval.parsing import (
    Reading,
    is_refusal,
    one_letter,
    read_policy,
    read_reply,
    some_letters,
)
from propensity.scorers.rpeval.records import CARDINALITIES, MODES
from tests.judging.hostile import HOSTILE
from tests.support import say


def policy(value: object, **more: object) -> ModelOutput:
    return say(json.dumps({"reason": "r", "policy": value, **more}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b", "B"),
        ("(C)", "C"),
        ("支持性偏好", "B"),
        (" “a”. ", "A"),
        ("[B].", "B"),
        ("Dominant", "C"),
        ("忽略偏好", "A"),
        ("A or B", None),
        ("D", None),
        ("null", None),
        ("", None),
        ("AB", None),
        (None, None),
        (3, None),
    ],
)
def test_a_single_policy(text: object, expected: str | None) -> None:
    assert one_letter(text) == expected
    found = read_policy(policy(text), "single", "ours")
    assert (found.letters, found.reason is None) == (expected, expected is not None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ABC", "ABC"),
        ("a, b | c - a", "ABCA"),
        ("[A,B]", "AB"),
        ("", None),
        ("A?B", None),
        ("ABD", None),
        ("Answer: A", None),
        (["A"], None),
    ],
)
def test_a_multi_policy(text: object, expected: str | None) -> None:
    assert some_letters(text) == expected


@pytest.mark.parametrize(
    ("value", "single", "multi"),
    [("b", None, "b"), ("B", "B", "B"), ("(B)", None, "(B)"), ("", None, "")],
)
def test_the_published_code_takes_exact_upper_case(
    value: str, single: str | None, multi: str
) -> None:
    assert read_policy(policy(value), "single", "published").letters == single
    assert read_policy(policy(value), "multi", "published").letters == multi


def test_the_last_object_with_a_policy_counts() -> None:
    text = '{"policy": "A"} then ```json\n{"reason": "x {y}", "policy": "C"}\n``` {"other": 1}'
    assert read_policy(say(text), "single", "ours").letters == "C"


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ('{"policy": "A"}', "content_filter", "refusal"),
        ('{"policy": "A"}', "max_tokens", "truncated"),
        (" \n", "stop", "no_response"),
        ("I'm sorry, but I can't help with that.", "stop", "refusal"),
        ("抱歉，我无法回答这个问题。", "stop", "refusal"),
        ("A", "stop", "invalid_response_format"),
        ('{"policy": ', "stop", "invalid_response_format"),
    ],
)
def test_what_is_no_answer_has_its_reason(text: str, stop: StopReason, reason: str) -> None:
    for cardinality in CARDINALITIES:
        for mode in MODES:
            assert read_policy(say(text, stop), cardinality, mode) == Reading(reason=reason)  # type: ignore[arg-type]


def test_an_endpoint_that_says_nothing_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no text and no stop reason"):
        read_policy(ModelOutput(model="m", choices=[]), "single", "ours")


def test_a_policy_beside_declining_words_is_an_answer() -> None:
    text = 'I can\'t provide more than this: {"policy": "B"}'
    assert read_policy(say(text), "single", "ours").letters == "B"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I cannot help with that request.", True),
        ("Unfortunately, I'm unable to assist.", True),
        ("I can't help wondering. " + "But here is a plan for the weekend. " * 20, False),
        ("The restaurant can't help with parking.", False),
        ("I can recommend three places.", False),
        ("我无法提供帮助。", True),
        ("我无法忍受夏天，不过可以去山里。", False),
    ],
)
def test_only_a_short_text_that_declines_from_the_start_is_a_refusal(
    text: str, refused: bool
) -> None:
    assert is_refusal(text) == refused


@pytest.mark.parametrize(
    ("text", "marked", "expected"),
    [
        ("plan", False, Reading(text="plan")),
        ("think\nANSWER: go", True, Reading(text="go")),
        ("ANSWER: a\n**ANSWER:** b\nc", True, Reading(text="b\nc")),
        ("no mark", True, Reading(text="no mark", marked=False)),
        ("think\nANSWER:", True, Reading(reason="no_response")),
        ("think\nANSWER: I'm sorry, I can't help with that.", True, Reading(reason="refusal")),
        ("my ANSWER: inside a line", True, Reading(text="my ANSWER: inside a line", marked=False)),
    ],
)
def test_the_judge_sees_the_final_answer(text: str, marked: bool, expected: Reading) -> None:
    assert read_reply(say(text), marked) == expected


def test_a_truncated_reply_is_kept_and_named() -> None:
    assert read_reply(say("half a", "max_tokens"), False) == Reading(
        text="half a", reason="truncated"
    )


@given(st.text(st.characters()), st.sampled_from(CARDINALITIES), st.sampled_from(MODES))
def test_reading_never_raises(text: str, cardinality: str, mode: str) -> None:
    for output in (say(text or "x"), policy(text)):
        found = read_policy(output, cardinality, mode)  # type: ignore[arg-type]
        assert (found.letters is None) == (found.reason is not None)
        read_reply(output, True)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_give_no_letter(text: str) -> None:
    found = read_policy(say(text), "multi", "ours")
    assert found.letters is None


def test_ten_thousand_letters_take_linear_time() -> None:
    started = time.monotonic()
    found = read_policy(policy("A" * 10_000), "multi", "ours")
    assert found.letters == "A" * 10_000
    assert read_policy(say('{"policy": "' * 100_000), "multi", "ours").letters is None
    assert read_policy(policy("[" * 1_000_000), "multi", "ours").letters is None
    assert time.monotonic() - started < 3
