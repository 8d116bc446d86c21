import pytest
from pydantic import ValidationError

from propensity.common.units import judge, score_metadata, unit


def test_absent_fields_are_left_out() -> None:
    assert unit("u1", scores={"broad": (1, 4)}) == {
        "unit_id": "u1",
        "scores": {"broad": [1.0, 4.0]},
    }


@pytest.mark.parametrize(
    "fields",
    [{"reason": "dont_know"}, {"scores": {"x": float("nan")}}, {"status": "ok"}, {"colour": 1}],
)
def test_what_the_store_could_not_read_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        unit("u1", **fields)


def test_judge_replies_are_cut() -> None:
    assert len(judge("verdict", "m", "p@1", ["match"], "x" * 5_000)["raw"]) == 2_000


def test_empty_reserved_keys_are_left_out() -> None:
    assert score_metadata(outcome="x") == {"outcome": "x"}
    assert score_metadata(reasons={"match": "grader_failed"})["reasons"] == {
        "match": "grader_failed"
    }
