"""Parts of a unit: one text in a log, a list for whoever reads it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from propensity.common.units import UnitRecord, unit

WORDS = st.text(
    st.characters(blacklist_characters=";", blacklist_categories=("Cs", "Z", "C")), min_size=1
)
VALUES = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(WORDS, WORDS, VALUES), min_size=1, max_size=10))
def test_what_was_written_is_read(parts: list[tuple[str, str, float]]) -> None:
    logged = unit("u", parts=parts)
    assert isinstance(logged["parts"], str)
    assert UnitRecord.model_validate(logged).parts == parts


def test_a_log_shows_one_text() -> None:
    assert (
        unit("u", parts=[("HW-U1", "U1", 1.0), ("HW-L2", "L", 0)])["parts"]
        == "HW-U1 HW-L2; U1 L; 1 0"
    )


def test_a_list_is_read_too() -> None:
    record = UnitRecord.model_validate({"unit_id": "u", "parts": [["HW-U1", "U1", 0.5]]})
    assert record.parts == [("HW-U1", "U1", 0.5)]


@pytest.mark.parametrize(
    "parts",
    [
        "",
        "a",
        "a; b",
        "a; b; c",
        "a; b; nan",
        "a b; c; 1",
        "a; b; 1; 2",
        [("a b", "c", 1)],
        [("a", "b;", 1)],
    ],
)
def test_what_cannot_be_read_back_is_refused(parts: Any) -> None:
    with pytest.raises(ValidationError):
        UnitRecord.model_validate({"unit_id": "u", "parts": parts})


def test_no_parts_leave_no_trace() -> None:
    assert unit("u", parts=[]) == unit("u") == {"unit_id": "u"}
