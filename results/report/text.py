"""A comparison in words and tables."""

from collections.abc import Sequence, Set

from propensity.results.report.blocks import Block, Heading, Lines, Table
from propensity.results.report.compare import Comparison, PairResult
from propensity.results.report.health import counted, detail
from propensity.results.report.measure import KeyAbout, display
from propensity.results.report.references import Standing
from propensity.results.stats.record import GATE, Estimate

WIDE = 3
"""Up to so many subjects stand side by side in a table."""
COUNTS_ONLY = "counts only"
"""Method of a difference of few items; its warning says so in full."""
SPELT_OUT = 3
"""Up to so many pairs are written out in full."""


def comparison(one: Comparison) -> list[Block]:
    """The blocks of one task: differences, flips, health, then tables and notes."""
    return [
        Heading(_title(one), level=1),
        *_differences(one),
        *_flips(one),
        Heading("Health"),
        Lines([f"{each.subject}: {each.line}" for each in one.health]),
        *_marks(one),
        *_rates(one),
        *_references(one),
        *_groups(one),
        *_group_differences(one),
        *_costs(one),
        *_notes(one),
    ]


def _title(one: Comparison) -> str:
    better = "lower" if one.about.lower_is_better else "higher"
    label = one.about.key
    if one.about.label != one.about.key:
        label += f": {one.about.label}"
    return f"{one.task} · {label} ({better} is better) · version {one.version}"


def _differences(one: Comparison) -> list[Block]:
    if not one.pairs:
        return []
    heading = Heading("Differences (B - A)")
    if len(one.pairs) <= SPELT_OUT:
        return [heading, Lines([difference_line(pair, one.about) for pair in one.pairs])]
    rows = [
        [
            f"{pair.b}\n- {pair.a}",
            amount(pair.overall.estimate, one.about, signed=True),
            interval(pair.overall, one.about),
            p_text(pair.overall.p_adjusted),
            size(pair.overall.mde, one.about),
            str(pair.overall.scored),
            f"{pair.to_a}/{pair.to_b}",
        ]
        for pair in one.pairs
    ]
    header = ["B - A", "difference", "95 % each", "adjusted p", "detectable", "pairs", "flips"]
    caption = list(dict.fromkeys(_family(pair.overall) for pair in one.pairs))
    caption.append(
        "p of .05 and more: no difference shown; detectable: the smallest with 80 % power"
    )
    return [heading, Table(header, rows, caption=[line for line in caption if line])]


def difference_line(pair: PairResult, about: KeyAbout) -> str:
    """One difference in one line (statistics 3.2)."""
    found = pair.overall
    if found.estimate is None:
        return f"{pair.name}: {found.method}"
    parts = [f"{pair.name}  {amount(found.estimate, about, signed=True)}"]
    if found.low is not None:
        df = f" t_{found.df:.0f}," if found.df is not None else ""
        parts[0] += f" {interval(found, about)} ({100 * found.level:.0f} %{df} {found.method}; "
        parts[0] += f"{found.population})"
    elif found.method != COUNTS_ONLY:
        parts[0] += f" ({found.method})"
    if found.p is not None:
        parts.append(f"p {p_text(found.p, equals=True)} {found.p_method}")
        if family := _family(found):
            parts.append(f"{p_text(found.p_adjusted, equals=True)} {family}".lstrip("= "))
    if found.n_items:
        missing = f"{found.n_items} pairs"
        if pair.missing:
            shown = ", ".join(display(item) for item in pair.missing[:5])
            more = f" and {len(pair.missing) - 5} more" if len(pair.missing) > 5 else ""
            missing += f", {len(pair.missing)} missing ({shown}{more})"
        parts.append(missing)
        parts.append(f"flips {pair.to_b} to B, {pair.to_a} to A")
    if found.p is not None and found.p >= 1 - found.level:
        text = "no difference shown"
        if found.mde is not None:
            text += f"; smallest detectable (80 %): {size(found.mde, about)}"
        parts.append(text)
    parts += found.warnings
    if found.low_if_missing is not None:
        low, high = (
            amount(end, about, signed=True) for end in (found.low_if_missing, found.high_if_missing)
        )
        parts.append(f"range if missing {low} to {high}")
    return "; ".join(parts)


def _family(found: Estimate) -> str:
    if found.adjust_method is None or not found.family_size or found.family_size < 2:
        return ""
    if found.adjust_method == "Holm":
        return f"Holm over {found.family_size} declared"
    return f"{found.adjust_method} over {found.family_size}, exploratory"


def _flips(one: Comparison) -> list[Block]:
    shown = [pair for pair in one.pairs if pair.flips and (len(one.pairs) == 1 or pair.declared)]
    blocks: list[Block] = []
    for pair in shown:
        total = pair.to_a + pair.to_b
        rows = [
            [
                display(flip.item),
                amount(flip.a, one.about),
                amount(flip.b, one.about),
                one.samples.get((pair.b, flip.item), ""),
            ]
            for flip in pair.flips
        ]
        header = ["item", pair.a, pair.b, "sample"]
        if all(row[0] == row[-1] for row in rows):
            header, rows = header[:-1], [row[:-1] for row in rows]
        first = f", first {len(rows)}" if len(rows) < total else ""
        blocks += [
            Heading(f"Flips, {pair.name}: {pair.to_b} to B, {pair.to_a} to A{first}"),
            Table(
                header,
                rows,
                caption=[
                    f"log of {name}: {path}" for name in (pair.a, pair.b) for path in one.logs[name]
                ],
            ),
        ]
    return blocks


def _rates(one: Comparison) -> list[Block]:
    rows = [
        [
            found.subject,
            amount(found.estimate, one.about),
            interval(found, one.about),
            str(found.n_items),
            str(found.scored),
            str(found.unscored),
            str(found.errored),
        ]
        for found in one.rates
    ]
    header = ["subject", one.about.key, "95 %", "items", "scored", "unscored", "errored"]
    everybody = {found.subject for found in one.rates}
    caption = _by_text([(_basis(found), found.subject) for found in one.rates], everybody)
    warnings = [(text, found.subject) for found in one.rates for text in found.warnings]
    caption += _by_text(warnings, everybody)
    caption += _invalid(one)
    for found in one.rates:
        if found.low_if_missing is not None:
            low, high = (
                amount(end, one.about) for end in (found.low_if_missing, found.high_if_missing)
            )
            caption.append(f"{found.subject}: range if missing {low} to {high}")
    return [Heading("Rates"), Table(header, rows, caption=caption)]


def _references(one: Comparison) -> list[Block]:
    """Each subject beside the best answer that needs no model; in words where that wins."""
    if not one.standings:
        return []
    rows = [
        [
            each.subject,
            amount(each.own.estimate, each.about),
            f"{each.references[0].subject} {amount(each.references[0].estimate, each.about)}",
            amount(each.lead.estimate, each.about, signed=True),
            interval(each.lead, each.about),
        ]
        for each in one.standings
    ]
    everybody = {each.subject for each in one.standings}
    listed = [
        (
            "baselines on these items: "
            + ", ".join(f"{r.subject} {amount(r.estimate, each.about)}" for r in each.references),
            each.subject,
        )
        for each in one.standings
    ]
    key = one.standings[0].about.key
    header = ["subject", key, "best baseline", "lead", "95 %"]
    words = [sentence for each in one.standings if (sentence := _in_words(each))]
    table = Table(header, rows, caption=_by_text(listed, everybody))
    return [Heading(f"Beside baselines that ask no model ({key})"), table, *_sentences(words)]


def _sentences(words: Sequence[str]) -> list[Block]:
    return [Lines(words)] if words else []


def _in_words(each: Standing) -> str:
    """What must be said where a baseline is as good; nothing where the subject leads clearly."""
    best, lead = each.references[0], each.lead
    if lead.estimate is None:
        return ""
    better = -lead.estimate if each.about.lower_is_better else lead.estimate
    shown = f"{best.subject} ({amount(best.estimate, each.about)})"
    if better < 0:
        return f"{each.subject} is below the best baseline, {shown}: the baseline wins"
    if better == 0:
        return f"{each.subject} only equals the best baseline, {shown}"
    if lead.p is None or lead.p >= 1 - lead.level:
        return f"{each.subject} is not shown to be above the best baseline, {shown}"
    return ""


def _invalid(one: Comparison) -> list[str]:
    """What the answers that were none do to the rate."""
    without = {found.subject: found for found in one.valid_rates}
    lines = []
    for each in one.health:
        if (found := without.get(each.subject)) is None:
            continue
        rate = "nothing left"
        if found.n_items:
            rate = f"{amount(found.estimate, one.about)} {interval(found, one.about)}".strip()
            rate += f" ({counted(found.n_items, 'item')})"
        lines.append(
            f"{each.subject}: {sum(each.invalid.values())} of {counted(each.answers, 'answer')} "
            f"unreadable, refused or cut off ({detail(each.invalid)}), counted by the task's rule; "
            f"without them: {rate}"
        )
    return lines


def _by_text(said: Sequence[tuple[str, str]], everybody: Set[str]) -> list[str]:
    """Each text once, after the subjects it holds for if there are others."""
    subjects: dict[str, list[str]] = {}
    for text, subject in said:
        subjects.setdefault(text, []).append(subject)
    return [
        text if set(names) == everybody else f"{', '.join(dict.fromkeys(names))}: {text}"
        for text, names in subjects.items()
    ]


def _basis(found: Estimate) -> str:
    if found.low is None:
        return found.method
    n_eff = f", n_eff {found.n_eff:.1f}" if found.n_eff is not None else ""
    df = f", t_{found.df:.0f}" if found.df is not None else ""
    return f"{100 * found.level:.0f} % {found.method}{n_eff}{df}; {found.population}"


def _groups(one: Comparison) -> list[Block]:
    if not one.group_rates or one.group_column is None:
        return []
    subjects = list(dict.fromkeys(found.subject for found in one.group_rates))
    groups = list(dict.fromkeys(found.group or "" for found in one.group_rates))
    cell = {
        (found.group or "", found.subject): f"{amount(found.estimate, one.about)} "
        f"{interval(found, one.about)}".strip()
        for found in one.group_rates
    }
    count = {(found.group or "", found.subject): found.n_items for found in one.group_rates}
    heading = Heading(f"By {one.group_column}")
    caption = ["fewer than 15 items: no interval"] * any(n < GATE for n in count.values())
    if len(subjects) <= WIDE:
        rows = [
            [
                group,
                *(cell[group, subject] for subject in subjects),
                _span([count[group, subject] for subject in subjects]),
            ]
            for group in groups
        ]
        return [heading, Table([one.group_column, *subjects, "items"], rows, caption=caption)]
    rows = [
        [group, subject, cell[group, subject], str(count[group, subject])]
        for group in groups
        for subject in subjects
    ]
    header = [one.group_column, "subject", one.about.key, "items"]
    return [heading, Table(header, rows, left=2, caption=caption)]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _group_differences(one: Comparison) -> list[Block]:
    pairs = [pair for pair in one.pairs if any(found.estimate is not None for found in pair.groups)]
    if not pairs:
        return []
    if len(pairs) > SPELT_OUT:
        text = (
            f"differences by {one.group_column} of {len(pairs)} pairs: name one with "
            "--pair A B, or see --csv and --json"
        )
        return [Lines([text], style="dim")]
    groups = [found.group or "" for found in pairs[0].groups]
    rows = [
        [group, *(_group_cell(pair.groups[index], one.about) for pair in pairs)]
        for index, group in enumerate(groups)
    ]
    families = {found.family_size for pair in pairs for found in pair.groups if found.family_size}
    caption = [f"p adjusted by BH over {size}, exploratory" for size in families]
    caption += ["fewer than 15 pairs: no interval and no test"]
    return [
        Heading(f"Differences by {one.group_column} (B - A)"),
        Table([str(one.group_column), *(pair.name for pair in pairs)], rows, caption=caption),
    ]


def _group_cell(found: Estimate, about: KeyAbout) -> str:
    parts = [amount(found.estimate, about, signed=True), interval(found, about)]
    if found.p_adjusted is not None:
        parts.append(f"p {p_text(found.p_adjusted, equals=True)}")
    return "\n".join(part for part in (" ".join(parts[:2]).strip(), *parts[2:]) if part)


def _marks(one: Comparison) -> list[Block]:
    marks = [f"note: {each.subject}: {mark}" for each in one.health for mark in each.marks]
    faults = [f"FALLS SHORT: {fault}" for fault in one.faults]
    blocks: list[Block] = [Lines(marks, style="yellow")] if marks else []
    return [*blocks, Lines(faults, style="red")] if faults else blocks


def _costs(one: Comparison) -> list[Block]:
    """What a sample cost, and for levels of a factor how many times as much."""
    if not one.costs:
        return []
    rows = [
        [
            each.subject,
            each.role,
            str(each.samples),
            _known(each.calls, ".1f"),
            _known(each.tokens_in, ",.0f"),
            _known(each.tokens_out, ",.0f"),
            _known(each.seconds, ".1f"),
            _known(each.usd, ".4f"),
        ]
        for each in one.costs
    ]
    header = ["subject", "role", "samples", "calls", "tokens in", "out", "seconds", "USD"]
    kept = [
        place for place in range(len(header)) if place < 3 or any(row[place] != "-" for row in rows)
    ]
    caption = [
        f"{each.b} to {each.a}, on {counted(each.samples, 'shared sample')}: "
        + ", ".join(
            f"{name} x {value:.2f}"
            for name, value in (
                ("calls", each.calls),
                ("tokens in", each.tokens_in),
                ("tokens out", each.tokens_out),
                ("time", each.seconds),
            )
            if value is not None
        )
        for each in one.cost_ratios
    ]
    table = Table(
        [header[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        left=2,
        caption=caption,
    )
    return [Heading("Cost of a sample"), table]


def _known(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _notes(one: Comparison) -> list[Block]:
    if not one.notes:
        return []
    return [Heading("Notes"), Lines(one.notes)]


def amount(value: float | None, about: KeyAbout, *, signed: bool = False) -> str:
    """A value: rates in % (differences in pp), others as plain numbers; `-` if there is none."""
    if value is None:
        return "-"
    sign = "+" if signed and value > 0 else ""
    if not about.is_rate:
        return f"{sign}{value:.3g}"
    if signed:
        return f"{sign}{100 * value:.1f} pp"
    return percent(value)


def size(value: float | None, about: KeyAbout) -> str:
    """The size of a difference, without a sign."""
    return amount(value, about, signed=True).removeprefix("+")


def percent(value: float) -> str:
    """A share in %: one decimal, two below 1 %, none for exactly 0 and 1."""
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    return f"{100 * value:.{2 if abs(value) < 0.01 else 1}f} %"


def interval(found: Estimate, about: KeyAbout) -> str:
    """`[low, high]` in the unit of the estimate, or nothing."""
    if found.low is None or found.high is None:
        return ""
    if not about.is_rate:
        return f"[{found.low:.3g}, {found.high:.3g}]"
    return f"[{100 * found.low:.1f}, {100 * found.high:.1f}]"


def p_text(p: float | None, *, equals: bool = False) -> str:
    """A p-value with three digits and without the leading zero."""
    if p is None:
        return "-"
    if p < 0.001:
        return "< .001"
    text = f"{p:.3f}".removeprefix("0")
    return f"= {text}" if equals else text


def documents(results: Sequence[Comparison]) -> list[Block]:
    """The blocks of several tasks; benchmarks are never averaged."""
    return [block for one in results for block in comparison(one)]
