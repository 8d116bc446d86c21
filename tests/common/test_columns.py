"""Text tables."""

from propensity.common.columns import columns


def test_columns_line_up_by_their_width_on_a_screen() -> None:
    assert columns([("a", "한국", "end"), ("long", "b", "")]) == ["a     한국  end", "long  b"]


def test_no_rows_give_no_lines() -> None:
    assert columns([]) == []
