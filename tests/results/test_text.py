"""What a comparison looks like: readable at 100 columns, hostile names harmless."""

import io
import re

import pytest
from rich.console import Console

from propensity.results.report.blocks import Block, Heading, Lines, Table, markdown, show
from propensity.results.report.compare import Comparison, Request, compare_task
from propensity.results.report.measure import KeyAbout
from propensity.results.report.text import amount, comparison, difference_line, p_text, percent
from tests.results.tables import Run, Unit, frames, series
from tests.results.test_compare import sixty

RATE = KeyAbout("hit", "hits", True, 0.0, 1.0)
PLAIN = KeyAbout("severity", "severity", True, 0.0, 4.0)


def printed(*runs: Run, width: int = 100, **options: object) -> str:
    made = frames(*runs)
    return shown(compare_task(made, made.runs, Request(**options)), width)  # type: ignore[arg-type]


def shown(found: Comparison, width: int = 100) -> str:
    out = io.StringIO()
    show(comparison(found), Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_the_line_of_a_difference() -> None:
    made = sixty()
    found = compare_task(made, made.runs, Request())
    line = difference_line(found.pairs[0], found.about)
    assert line == (
        "B - A  +16.1 pp [5.6, 26.6] (95 % t_11, clustered; places like these (12 observed)); "
        "p = .002 sign-flip (10 of 12 clusters count, floor .002); 59 pairs, 1 missing (s23); "
        "flips 11 to B, 4 to A; range if missing +15.0 pp to +18.9 pp"
    )


def test_the_order_is_differences_flips_health_rates() -> None:
    made = sixty()
    text = shown(compare_task(made, made.runs, Request()))
    parts = ["Differences (B - A)", "Flips, B - A: 11 to B, 4 to A", "Health", "Rates"]
    assert sorted(parts, key=text.index) == parts
    assert (
        "planned 180 samples · scored 178 · unscored 1 (grader_failed 1) · errored 1 (error 1)"
        in text
    )
    assert re.search(r"A +34.7 % +\[22.5, 49.4\] +60 +178 +1 +1", text)
    assert "95 % Wilson, n_eff 56.2, t_11; places like these (12 observed)" in text
    assert "A: range if missing 34.4 % to 35.6 %" in text
    assert "log of A: /logs/eval0.eval" in text


def test_no_difference_is_never_said() -> None:
    text = printed(Run("a", series([0.0, 1.0] * 30)), Run("b", series([1.0, 0.0, 0.0, 1.0] * 15)))
    assert "no difference shown" in text
    assert "no difference;" not in text


@pytest.mark.parametrize("subjects", [2, 3, 5])
def test_nothing_is_wider_than_the_terminal(subjects: int) -> None:
    runs = [
        Run(
            f"openai-api/some-provider/a-rather-long-model-name-{one}-2026-07-18",
            [
                Unit(f"item-{n:02d}", float((n * one) % 3 == 0), variant=v, cluster=f"c{n % 9}")
                for v in ("T0", "T1", "T2")
                for n in range(18)
            ],
        )
        for one in range(1, subjects + 1)
    ]
    text = printed(*runs)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    whole = re.sub(r"[\s·]+", "", text)
    for run in runs:
        assert run.subject in whole


def test_text_of_logs_is_no_markup() -> None:
    text = printed(Run("[red]x[/red]<b>", series([0.0] * 20)), Run("y|z", series([1.0] * 20)))
    assert "[red]x[/red]<b>" in text and "y|z" in text
    made = frames(Run("a<script>|`b`", series([0.0] * 20)))
    document = markdown(comparison(compare_task(made, made.runs, Request())))
    assert "<script>" not in document.replace("\\<script\\>", "")
    assert "a\\<script\\>\\|\\`b\\`" in document


def test_markdown_tables() -> None:
    blocks: list[Block] = [
        Heading("Title", level=1),
        Lines(["one", "two"]),
        Table(["name", "value"], [["a", "1"], ["b", "2"]], caption=["a note"]),
    ]
    assert markdown(blocks) == (
        "## Title\n\n- one\n- two\n\n| name | value |\n| :-- | --: |\n| a | 1 |\n| b | 2 |"
        "\n\na note\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.347, "34.7 %"), (0.0051, "0.51 %"), (0.0, "0 %"), (1.0, "100 %"), (0.95, "95.0 %")],
)
def test_rates_in_percent(value: float, text: str) -> None:
    assert percent(value) == amount(value, RATE) == text


def test_other_amounts() -> None:
    assert amount(0.161, RATE, signed=True) == "+16.1 pp"
    assert amount(-0.161, RATE, signed=True) == "-16.1 pp"
    assert amount(2.345, PLAIN) == "2.35"
    assert amount(None, RATE) == "-"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0004, "< .001"), (0.0019, "= .002"), (1.0, "= 1.000"), (0.5, "= .500")]
)
def test_p_values(p: float, text: str) -> None:
    assert p_text(p, equals=True) == text


def test_many_pairs_stand_in_a_table_with_their_family() -> None:
    runs = [Run(f"m{k}", series([float((n * k) % 5 == 0) for n in range(40)])) for k in range(1, 5)]
    text = printed(*runs)
    assert "BH over 6, exploratory" in text
    assert "adjusted p" in text and "m2\n" in re.sub(r" +\n", "\n", text)


def test_faults_are_said_in_words() -> None:
    units = [*series([0.0] * 18), Unit("x", status="error"), Unit("y", status="error")]
    text = printed(Run("m", units))
    assert "FALLS SHORT: m: errored 10.0 % of planned" in text
    assert "FALLS SHORT: m: coverage 90.0 %" in text


def test_what_answers_that_were_none_do_is_said_in_words() -> None:
    none = [Unit(f"x{n}", 0.0, reason="no_response") for n in range(4)]
    text = " ".join(printed(Run("m", [*series([1.0, 0.0] * 10), *none])).split())
    assert "m: 4 of 24 answers unreadable, refused or cut off (no_response 4)" in text
    assert "counted by the task's rule; without them: 50.0 % [29.9, 70.1] (20 items)" in text
    alone = " ".join(printed(Run("m", none)).split())
    assert "without them: nothing left" in alone


def test_a_pair_without_any_difference_takes_no_column() -> None:
    units = [Unit(f"i{n}", 1.0, variant=f"T{n % 2}") for n in range(8)]
    none = [Unit(f"i{n}", status="unscored", reason="refusal", variant=f"T{n % 2}")
            for n in range(8)]  # fmt: skip
    text = printed(Run("a", units), Run("b", units), Run("c", none))
    assert "c - a: not available" in text and "counts only)" not in text
    table = text[text.index("Differences by variant") :]
    assert "b - a" in table and "c - a" not in table


def test_a_table_says_what_few_items_lack_only_where_there_are_few() -> None:
    def by_group(n: int) -> str:
        units = [*series([1.0] * n, variant="A"), *series([0.0] * n, variant="B")]
        return printed(Run("a", units))

    assert "fewer than 15 items: no interval" in by_group(14)
    assert "fewer than 15 items: no interval" not in by_group(15)
