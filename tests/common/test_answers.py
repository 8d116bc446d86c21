import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.common.answers import last_json_object, wants_schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON), st.text(st.characters(exclude_characters="{")))
def test_an_object_is_found_behind_any_text(value: dict[str, object], before: str) -> None:
    assert last_json_object(before + json.dumps(value)) == value


@given(st.text(st.characters()))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    found = last_json_object(text)
    assert found is None or isinstance(found, dict)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ('first {"a": 1} then {"a": 2}', None, {"a": 2}),
        ('{"picks": ["Q1"]} and {"other": 1}', "picks", {"picks": ["Q1"]}),
        ('{"outer": {"picks": []}}', "picks", None),
        ('```json\n{"a": 1}\n```', None, {"a": 1}),
        ("{not json}", None, None),
        ("[1, 2]", None, None),
        ('{"a": ' + "9" * 5_000 + "}", None, None),
    ],
)
def test_which_object_counts(text: str, key: str | None, expected: object) -> None:
    assert last_json_object(text, key) == expected


@pytest.mark.parametrize("flood", ["{", '{"a":', '{"a":x', '{"a'])
def test_floods_of_braces_end_soon(flood: str) -> None:
    started = time.monotonic()
    assert last_json_object(flood * (1_000_000 // len(flood))) is None
    assert time.monotonic() - started < 10


def test_schema_is_asked_for_where_the_provider_has_it() -> None:
    assert wants_schema("openai/gpt", "auto") and wants_schema("embedded/x", "auto")
    assert not wants_schema("mockllm/model", "auto")
    assert wants_schema("mockllm/model", "schema") and not wants_schema("openai/gpt", "text")
