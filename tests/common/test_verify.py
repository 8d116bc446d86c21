"""Which reference policies are verified, and how numbers are compared."""

import math

import pytest

from propensity.common.verify import chosen_policies, compared

KNOWN = ("best", "worst")


def test_all_policies_unless_some_are_named() -> None:
    assert chosen_policies("toy", None, KNOWN, None, {"mode": 1}, ["mode"]) == ["best", "worst"]
    assert chosen_policies("toy", ["worst"], KNOWN, None, {}, ["mode"]) == ["worst"]


def test_what_has_no_known_values_is_refused_at_once() -> None:
    with pytest.raises(ValueError) as caught:
        chosen_policies("toy", ["bets"], KNOWN, "docker", {"seed": 1}, ["mode"])
    for words in ("best", "without a sandbox", "known for mode only, not for seed"):
        assert words in str(caught.value)


def test_numbers_agree_to_four_digits_and_nan_with_nan() -> None:
    expected = {"a": 1 / 3, "b": math.nan, "c": 0.5}
    checks = compared(expected, {"a": 0.33333, "b": math.nan, "c": 0.5001, "d": 9.0})
    assert [check.agrees for check in checks] == [True, True, False]
