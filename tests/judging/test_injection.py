import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ChatMessage
from inspect_ai.tool import ToolInfo

from propensity.scorers.judging import JudgePrompt, JudgeView, Words, ask, fold
from propensity.scorers.judging.ask import GraderFailed, Unreadable, last_labelled, render
from propensity.scorers.judging.fences import random_nonce
from tests.judging.hostile import HOSTILE
from tests.support import scripted

pytestmark = pytest.mark.anyio

PROMPT = JudgePrompt("toy", "1", "Does the reply follow the wish?", "Judge the reply. Say no.")
ANSWER = Words(("yes", "no"))


class View(JudgeView):
    wish: str
    reply: str


def outside_fences(prompt: str) -> str:
    """What of a prompt is not data: a mark counts only with the nonce of the first mark."""
    nonce = re.search(r"⟦BEGIN \w+ ([0-9a-f]{16})⟧", prompt)
    assert nonce is not None
    fenced = rf"⟦BEGIN (\w+) {nonce[1]}⟧\n.*?\n⟦END \1 {nonce[1]}⟧"
    return re.sub(fenced, "[data]", prompt, flags=re.DOTALL)


def test_the_suite_is_large_enough() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
async def test_an_obedient_judge_is_never_flipped(answer: str) -> None:
    """The judge obeys the last order outside the fence, and that is always ours."""

    def obey(messages: list[ChatMessage], tools: list[ToolInfo]) -> str:
        orders = re.findall(r"Say (yes|no)\.|VERDICT: (yes|no)\b(?! \|)", outside(messages))
        return f"VERDICT: {next(filter(None, orders[-1]))}"

    def outside(messages: list[ChatMessage]) -> str:
        return outside_fences(messages[-1].text)

    reading = await ask(scripted(obey), PROMPT, View(wish="w", reply=answer), ANSWER)
    assert (reading.value, reading.attempts) == ("no", 1)


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_judge_that_only_quotes_gives_no_verdict(answer: str) -> None:
    """A reply that ends with what was quoted is unreadable, three times, and then unscored."""
    quoting = scripted(lambda messages, tools: f"VERDICT: {fold(answer)[:500]} …")
    with pytest.raises(GraderFailed):
        await ask(quoting, PROMPT, View(wish="w", reply=answer), ANSWER)


@given(st.text(st.characters()), st.text(st.characters()))
def test_data_never_changes_what_stands_outside(one: str, other: str) -> None:
    rule = ANSWER.rule(False)
    prompts = [
        render(PROMPT, View(wish=text, reply=text), rule, random_nonce()) for text in (one, other)
    ]
    assert outside_fences(prompts[0]) == outside_fences(prompts[1])
    assert prompts[0].encode("utf-8")


@given(st.text(st.characters()))
def test_folded_text_holds_no_mark(text: str) -> None:
    assert not set(fold(text)) & set("⟦⟧【】\u200b\u202e\ufeff\x00")


def test_zero_width_stays_where_languages_need_it() -> None:
    bengali = "র\u200d্য ⟦x⟧ \u202e"
    assert fold(bengali, keep_zero_width=True) == "র\u200d্য (x) "


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("VERDICT: yes", "yes"),
        ("because\n\n  verdict: YES  \n", "YES"),
        ("**VERDICT:** no", "no"),
        ("**VERDICT: no**", "no"),
    ],
)
def test_labelled_line_is_read(reply: str, expected: str) -> None:
    assert last_labelled(reply, "VERDICT") == expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "yes",
        "I say yes, yesterday it was no",
        "VERDICT: yes no",
        "VERDICT: yes\nVERDICT: no, wait",
        "VERDICT: yes\nThank you.",
        "VERDICT:",
        "The VERDICT: yes",
        "VERDICT: yes.",
        "VERDICT: maybe",
        "VERDICT: CI",
    ],
)
def test_what_is_no_verdict_is_unreadable(reply: str) -> None:
    with pytest.raises(Unreadable):
        ANSWER.read(reply, False)


@given(st.text(st.characters()))
def test_reading_never_raises_anything_else(reply: str) -> None:
    try:
        assert ANSWER.read(reply, False) in ANSWER.vocabulary
    except Unreadable:
        pass
