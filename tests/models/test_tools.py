"""Tool calls as one JSON object, for models whose template knows no tools."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.tool import ToolInfo, ToolParam, ToolParams

from propensity.models.tools import answer_schema, read_answer, with_instructions

ADD = ToolInfo(
    name="add",
    description="Add two numbers.",
    parameters=ToolParams(
        properties={"x": ToolParam(type="integer"), "y": ToolParam(type="integer")},
        required=["x", "y"],
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def called(name: str, arguments: str) -> dict[str, Any]:
    """Return the message fields of one call."""
    function = {"name": name, "arguments": arguments}
    return {"content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def test_a_response_may_be_given_unless_a_tool_is_forced() -> None:
    free = answer_schema([ADD], forced=False, response=None)["anyOf"]
    assert [list(branch["properties"]) for branch in free] == [["name", "arguments"], ["response"]]
    assert free[0]["properties"]["name"] == {"const": "add"}
    assert free[0]["properties"]["arguments"]["required"] == ["x", "y"]
    assert answer_schema([ADD], forced=True, response=None)["anyOf"] == free[:1]


def test_a_schema_for_the_response_is_kept_beside_the_tools() -> None:
    wanted = {"type": "object", "properties": {"picks": {"type": "array"}}}
    spoken = answer_schema([ADD], forced=False, response=wanted)["anyOf"][-1]
    assert spoken["properties"]["response"] == wanted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "add", "arguments": {"x": 1, "y": 2}}', called("add", '{"x": 1, "y": 2}')),
        ('{"response": "three"}', {"content": "three"}),
        ('{"response": {"picks": ["a"]}}', {"content": '{"picks": ["a"]}'}),
        ('{\n  "name": "add",\n  "arguments": {"x": 1', called("add", '{"x": 1')),
        ('{"name": "add", "argum', {"content": '{"name": "add", "argum'}),
        ('{"response": "thr', {"content": '{"response": "thr'}),
        ("[1]", {"content": "[1]"}),
        ("", {"content": ""}),
    ],
)
def test_answers_are_read(text: str, expected: dict[str, Any]) -> None:
    assert read_answer(text, "c") == expected


@given(st.text(st.characters()) | JSON.map(json.dumps))
def test_no_text_makes_reading_raise(text: str) -> None:
    assert "content" in read_answer(text, "c")


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON))
def test_a_written_call_reads_back(name: str, arguments: dict[str, Any]) -> None:
    text = json.dumps({"name": name, "arguments": arguments})
    call = read_answer(text, "c")["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == (name, arguments)


def test_past_calls_and_results_become_text() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 2?"},
        {"role": "assistant", **called("add", '{"x": 1, "y": 2}')},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "3"}]},
    ]
    told = with_instructions(history, [ADD])
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert told[0]["content"].startswith("Be brief.\n\nYou can use these tools:\n- add: Add two")
    assert read_answer(told[2]["content"], "c") == called("add", '{"x": 1, "y": 2}')
    assert told[3]["content"] == "Result of the tool:\n3"


def test_without_tools_nothing_is_explained() -> None:
    assert with_instructions([{"role": "user", "content": "hi"}], []) == [
        {"role": "user", "content": "hi"}
    ]
