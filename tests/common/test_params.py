import pytest

from propensity.common.params import Checks, reject_unknown


def test_mistyped_parameter_names_the_nearest() -> None:
    with pytest.raises(
        TypeError, match="rpeval has no parameter 'langage'; did you mean 'language'"
    ):
        reject_unknown("rpeval", {"langage": "en"}, ["language", "seed"])


def test_boolean_from_yaml_is_explained() -> None:
    checks = Checks("demo")
    checks.one_of("tier", False, ["A", "B"])
    with pytest.raises(ValueError, match=r"tier must be one of A, B, got False \(bool\)") as caught:
        checks.done()
    assert "-T \"tier='no'\"" in str(caught.value)


def test_all_faults_of_one_call_stand_together() -> None:
    checks = Checks("demo")
    checks.integer("k", True, low=1)
    checks.integer("n", 9, low=1, high=5)
    checks.number("threshold", float("nan"))
    checks.number("threshold", 0, above=0)
    checks.boolean("review", "true")
    checks.text("data", " ")
    with pytest.raises(ValueError) as caught:
        checks.done()
    assert str(caught.value).splitlines() == [
        "k must be an integer, got True (bool)",
        "n must be from 1 to 5, got 9",
        "threshold must be a number, got nan (float)",
        "threshold must be above 0, got 0",
        "review must be true or false, got 'true' (str)",
        "data must be a text, got ' ' (str)",
    ]


@pytest.mark.parametrize("given", ["T0, T5", ["T0", "T5"], ("T0", "T5")])
def test_lists_and_comma_text_are_one(given: object) -> None:
    checks = Checks("demo")
    assert checks.names("cells", given, ["T0", "T1", "T5"]) == ["T0", "T5"]
    checks.done()


@pytest.mark.parametrize("given", [None, "all"])
def test_nothing_said_selects_all(given: object) -> None:
    assert Checks("demo").names("cells", given, ["T0", "T1"]) == ["T0", "T1"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("T01", "cells has no 'T01'; did you mean 'T[01]'[?]; known: T0, T1"),
        ("", "cells selects nothing"),
        ("T0,T0", "cells names something twice"),
        (7, "cells must be a list or comma text, got 7"),
    ],
)
def test_bad_selections(given: object, fault: str) -> None:
    checks = Checks("demo")
    checks.names("cells", given, ["T0", "T1"])
    with pytest.raises(ValueError, match=fault):
        checks.done()
