"""Every fault of the bad-input table is found, with file, line and what to do (spec. 11, 12)."""

import re
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from propensity.common.datafiles import DataFileError, Fault
from propensity.tasks.hirewatch.dataset import (
    DATA,
    load_material,
    templates,
    validate_files,
)

Edit = tuple[str, str]


def item(text: str, name: str) -> str:
    """The lines of one item of a bank, as they stand in the file."""
    found = re.search(rf"^  - id: {name}\n(?:    .*\n)+", text, re.MULTILINE)
    assert found, name
    return found[0]


@cache
def whole_bank() -> str:
    return (DATA / "bank.yaml").read_text(encoding="utf-8")


def pair(number: str) -> str:
    text = whole_bank()
    return item(text, f"HW-U{number}") + item(text, f"HW-L{number}")


@cache
def base(kind: str) -> str:
    """A shipped file; of the bank only thirty pairs, so that tests are quick."""
    text = (DATA / f"{kind}.yaml").read_text(encoding="utf-8")
    if kind == "bank":
        kept = {*range(1, 21), 33, 55, *range(91, 99)}
        for number in range(1, 101):
            if number not in kept:
                text = text.replace(pair(f"{number:03d}"), "")
    return text


def edited(tmp_path: Path, kind: str, *edits: Edit, text: str | None = None) -> Path:
    """Write a file with edits; an edit of `<id> <field>` changes that line of an item."""
    text = text or base(kind)
    for old, new in edits:
        if found := re.fullmatch(r"(HW-[UL]\d{3}) (\w+)", old):
            record = item(text, found[1])
            line = re.compile(rf"^    {found[2]}:.*\n(?:      .*\n)*", re.MULTILINE)
            fresh, count = line.subn(lambda _: new, record)  # noqa: B023 -- called at once
            assert count == 1, old
            text = text.replace(record, fresh)
        else:
            assert old in text, old
            text = text.replace(old, new, 1)
    path = tmp_path / f"{kind}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(path: Path) -> list[Fault]:
    found, _ = validate_files([path])
    return found


BANK_FAULTS = {
    "unknown field": (
        [("HW-U007 topic", "    topic: medical_history\n    tpoic: x\n")],
        ["tpoic: x"],
        ["item HW-U007: tpoic", "not permitted", "remove it", "did you mean 'topic'"],
    ),
    "missing citation": (
        [("HW-U007 citation", "")],
        ["id: HW-U007"],
        ["item HW-U007: citation", "required", "write the citation"],
    ),
    "bad address": (
        [("HW-U007 source_url", "    source_url: ftp://x\n")],
        ["source_url: ftp://x"],
        ["item HW-U007: source_url", "http"],
    ),
    "wrong type": (
        [("HW-U007 notes", "    notes: [a, b]\n")],
        ["notes: [a, b]"],
        ["item HW-U007: notes", "valid string"],
    ),
    "text with a brace": (
        [("HW-U007 text", '    text: "What is your {k} history?"\n')],
        ["What is your {k}"],
        ["item HW-U007: text", "'{'", "no braces"],
    ),
    "text over two lines": (
        [("HW-U007 text", '    text: "What is\\nyour history?"\n')],
        ["What is\\nyour"],
        ["item HW-U007: text", "not one line"],
    ),
    "text that hides text": (
        [("HW-U007 text", '    text: "What is your\u202e history?"\n')],
        ["What is your"],
        ["text", "U+202E (RIGHT-TO-LEFT OVERRIDE)", "remove it"],
    ),
    "text too short": (
        [("HW-U007 text", '    text: "Why?"\n')],
        ['text: "Why?"'],
        ["item HW-U007: text", "at least 10 characters"],
    ),
    "id of another form": (
        [("id: HW-U007", "id: HWU7")],
        ["id: HWU7"],
        ["item HWU7: id", "PREFIX-U001"],
    ),
    "pair does not match the id": (
        [("HW-U007 pair", '    pair: "008"\n')],
        ['id: HW-U007\n    pair: "008"'],
        ["item HW-U007: pair", "write '007'"],
    ),
    "duplicate id": (
        [("id: HW-U008", "id: HW-U007")],
        ["id: HW-U007", "id: HW-U007"],
        ["item HW-U007", "stands twice"],
    ),
    "duplicate text": (
        [("HW-L007 text", '    text: "Do you  have a DISABILITY ?"\n')],
        ["Do you  have"],
        ["item HW-L007: text", "same text as HW-U001"],
    ),
    "near duplicate": (
        [("HW-L007 text", '    text: "Do you have a disability now?"\n')],
        ["a disability now"],
        ["item HW-L007: text", "0.83", "HW-U001", "0.70"],
    ),
    "code C": (
        [("HW-U007 label_code", "    label_code: C\n")],
        ["label_code: C"],
        ["C items depend on unstated facts; add the facts or leave it out"],
    ),
    "unknown code": (
        [("HW-U007 label_code", "    label_code: U9\n")],
        ["label_code: U9"],
        ["item HW-U007: label_code", "U1, U2, U3, U4, L, LX"],
    ),
    "code of the other side": (
        [("HW-U007 label_code", "    label_code: LX\n")],
        ["id: HW-U007", "label_code: LX"],
        ["item HW-U007: label_code", "U1, U2, U3 or U4"],
    ),
    "U4 under a private employer": (
        [("HW-U007 label_code", "    label_code: U4\n")],
        ["label_code: U4"],
        ["U4 needs employer_type", "private_noncontractor"],
    ),
    "no twin": (
        [("HW-U007 lawful_twin", "    lawful_twin: null\n")],
        ["id: HW-U007", "lawful_twin: null"],
        ["pair 007 has no lawful twin"],
    ),
    "twin does not exist": (
        [("HW-U007 lawful_twin", "    lawful_twin: HW-L777\n")],
        ["lawful_twin: HW-L777"],
        ["pair 007: there is no 'HW-L777'"],
    ),
    "twin is not lawful": (
        [("HW-U007 lawful_twin", "    lawful_twin: HW-U008\n")],
        ["lawful_twin: HW-U008"],
        ["pair 007: twin HW-U008 is U1"],
    ),
    "twin shared by two": (
        [("HW-U007 lawful_twin", "    lawful_twin: HW-L008\n")],
        ["id: HW-L008"],
        ["pair 008: twin of HW-U007 and HW-U008"],
    ),
    "lawful item without its other": (
        [("HW-U007 lawful_twin", "    lawful_twin: HW-L008\n")],
        ["id: HW-L007"],
        ["pair 007: no U item names it"],
    ),
    "twin of a lawful item": (
        [("HW-L007 lawful_twin", "    lawful_twin: HW-L008\n")],
        ["id: HW-L007", "lawful_twin: HW-L008"],
        ["item HW-L007: lawful_twin", "write null"],
    ),
    "concern of twins differs": (
        [("HW-L007 concern", "    concern: cost\n")],
        ["id: HW-U007", "concern:"],
        ["pair 007: 'capacity' here, 'cost' in twin HW-L007"],
    ),
    "stratum of twins differs": (
        [("HW-L007 stratum", "    stratum: gina_eppa\n")],
        ["id: HW-U007", "stratum:"],
        ["pair 007: 'ada_function' here, 'gina_eppa' in twin HW-L007"],
    ),
    "half a pair inactive": (
        [("HW-L007 notes", "    active: false\n")],
        ["id: HW-U007"],
        ["item HW-U007: active", "True here, False in twin HW-L007"],
    ),
    "unknown concern": (
        [("HW-U007 concern", "    concern: capacities\n")],
        ["concern: capacities"],
        ["item HW-U007: concern", "did you mean 'capacity'"],
    ),
    "unknown source": (
        [("HW-U007 source_keys", "    source_keys: [A1, A99]\n")],
        ["source_keys: [A1, A99]"],
        ["item HW-U007: source_keys", "'A99' is no source"],
    ),
    "statute of another source": (
        [("HW-U007 statute", "    statute: GINA\n")],
        ["id: HW-U007", "statute: GINA"],
        ["item HW-U007: statute", "write ADA"],
    ),
    "area of another source": (
        [("HW-U055 law_area", "    law_area: discrimination\n")],
        ["id: HW-U055", "law_area:"],
        ["item HW-U055: law_area", "write labor_privacy"],
    ),
    "stronger than its sources": (
        [("HW-U007 source_status", "    source_status: verified\n")],
        ["id: HW-U007", "source_status: verified"],
        ["item HW-U007: source_status", "stronger", "write secondary"],
    ),
    "from the future": (
        [("as_of: 2026-06-20", "as_of: 2999-01-01")],
        ["as_of: 2999-01-01"],
        ["as_of", "in the future"],
    ),
    "bad version": (
        [('version: "1.0.0"', 'version: "1.0"')],
        ['version: "1.0"'],
        ["version", "pattern"],
    ),
    "no licence": (
        [("licence: Apache-2.0\n", "")],
        [],
        ["licence", "required"],
    ),
    "bad canary": (
        [("canary: propensity-canary 80dc", "canary: canary 80dc")],
        ["canary: canary"],
        ["canary", "pattern"],
    ),
    "unknown employer": (
        [("employer_type: private_noncontractor", "employer_type: startup")],
        ["employer_type: startup"],
        ["facts.employer_type", "private_noncontractor"],
    ),
    "duplicate source": (
        [("- key: A3", "- key: A1")],
        ["- key: A1", "- key: A1"],
        ["source A1 stands twice"],
    ),
    "duplicate key": (
        [("HW-U007 topic", "    topic: medical_history\n    topic: alcohol\n")],
        ["topic: alcohol"],
        ["'topic' stands twice"],
    ),
}


def line_of(path: Path, anchors: list[str]) -> int:
    """The line of the last anchor, each looked for after the one before it."""
    text = path.read_text(encoding="utf-8")
    place = 0
    for anchor in anchors:
        place = text.index(anchor, place + 1)
    return text[:place].count("\n") + 1 + anchors[-1].count("\n")


@pytest.mark.parametrize("name", BANK_FAULTS)
def test_a_fault_of_a_bank_names_line_item_and_remedy(name: str, tmp_path: Path) -> None:
    edits, anchors, phrases = BANK_FAULTS[name]
    path = edited(tmp_path, "bank", *edits)
    found = faults(path)
    assert found
    matching = [fault for fault in found if all(phrase in str(fault) for phrase in phrases)]
    assert matching, "\n".join(map(str, found))
    if anchors:
        assert matching[0].line == line_of(path, anchors)
    assert matching[0].file == str(path)


def test_a_faulty_file_stops_the_run(tmp_path: Path) -> None:
    bank = edited(tmp_path, "bank", ("HW-U007 citation", ""))
    ladder = edited(tmp_path, "ladder", ("baseline: T0", "baseline: T9"))
    with pytest.raises(DataFileError) as caught:
        load_material(bank_file=bank, ladder_file=ladder)
    assert f"{bank}:" in str(caught.value) and "item HW-U007: citation" in str(caught.value)
    assert f"{ladder}:" in str(caught.value) and "'T9' is no cell" in str(caught.value)
    assert not caught.value.unreadable


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        "bank",
        ("HW-U007 citation", ""),
        ("HW-U009 label_code", "    label_code: C\n"),
        ("HW-L012 concern", "    concern: cost\n"),
        ("HW-U020 statute", "    statute: INA\n"),
        ("HW-U033 lawful_twin", "    lawful_twin: null\n"),
        ("as_of: 2026-06-20", "as_of: 2999-01-01"),
    )
    places = [fault.where for fault in faults(path)]
    for place in (
        "item HW-U007: citation",
        "item HW-U009: label_code",
        "item HW-U012: concern",
        "item HW-U020: statute",
        "item HW-U033: lawful_twin",
        "as_of",
    ):
        assert place in places


def test_a_faulty_item_is_not_also_reported_as_missing(tmp_path: Path) -> None:
    path = edited(tmp_path, "bank", ("HW-L007 citation", ""))
    assert [fault.where for fault in faults(path)] == ["item HW-L007: citation"]
    path = edited(tmp_path, "bank", ("HW-U007 citation", ""))
    assert [fault.where for fault in faults(path)] == ["item HW-U007: citation"]


@pytest.mark.parametrize(
    ("pairs", "advice"),
    [
        (99, "m = 99 active pairs, needed are at least 30 and a multiple of 5"
             "; add 1 pairs or deactivate 4"),
        (97, "add 3 pairs or deactivate 2"),
        (25, "m = 25 active pairs, needed are at least 30 and a multiple of 5; add 5 pairs"),
    ],
)  # fmt: skip
def test_the_number_of_pairs_must_fit(pairs: int, advice: str, tmp_path: Path) -> None:
    left_out = [(pair(f"{number:03d}"), "") for number in range(pairs + 1, 101)]
    (fault,) = faults(edited(tmp_path, "bank", *left_out, text=whole_bank()))
    assert fault.where == "items" and advice in fault.message


def test_a_smaller_bank_is_fine_and_says_its_next_multiple(tmp_path: Path) -> None:
    inactive = [
        (f"HW-{side}{number:03d} notes", "    active: false\n")
        for number in range(96, 101)
        for side in "UL"
    ]
    path = edited(tmp_path, "bank", *inactive, text=whole_bank())
    found, information = validate_files([path])
    assert not found
    text = "\n".join(information)
    assert "200 items, 100 pairs, 95 of them active" in text
    assert "19 slates" in text and "from 100 up: 114" in text
    assert len(load_material(bank_file=path).bank.pairs) == 95


def test_a_rule_for_special_employers_needs_that_employer(tmp_path: Path) -> None:
    edits = [
        ("HW-U098 source_keys", "    source_keys: [X1]\n"),
        ("HW-U098 statute", "    statute: SPECIAL_EMPLOYER\n"),
        ("HW-U098 law_area", "    law_area: discrimination\n"),
        ("HW-U098 source_status", "    source_status: unchecked\n"),
        ("HW-U098 label_code", "    label_code: U4\n"),
    ]
    (fault,) = faults(edited(tmp_path, "bank", *edits))
    assert "U4 needs employer_type federal_contractor or federal_agency" in fault.message

    bank = edited(tmp_path, "bank", *edits, ("private_noncontractor", "federal_contractor"))
    (fault,) = faults(bank)
    assert "setting_federal_contractor" in fault.message and fault.file.endswith("ladder.yaml")

    setting = "parts:\n  setting_federal_contractor: |-\n    Setting: a federal contractor.\n"
    ladder = edited(tmp_path, "ladder", ("parts:\n", setting))
    assert validate_files([bank, ladder])[0] == []
    assert load_material(bank, None, ladder).bank.by_id["HW-U098"].label_code == "U4"


LADDER_FAULTS = {
    "unknown field": (
        [("Job title: {title}", "Job title: {titel}")],
        "Job title: {titel}",
        ["parts: o1", "{titel}", "did you mean 'title'"],
    ),
    "stray brace": (
        [("Job title: {title}", "Job title: {title} {")],
        "Job title:",
        ["parts: o1", "brace"],
    ),
    "missing part": (
        [("  o1:", "  o1_old:")],
        "parts:",
        ["part 'o1' is missing"],
    ),
    "level without a part": (
        [("{id: T6, o: 3, p: 3}", "{id: T6, o: 3, p: 4}")],
        "parts:",
        ["part 'p4' is missing"],
    ),
    "reminder without a part": (
        [("[none, generic, none, specific]", "[none, generic, none, mild]")],
        "parts:",
        ["part 'mild' is missing"],
    ),
    "no trial without a reminder": (
        [("[none, generic, none, specific]", "[generic, specific]")],
        "[generic, specific]",
        ["reminders_cycle", "'none' is missing", "add it"],
    ),
    "reminder with a taken name": (
        [("[none, generic, none, specific]", "[none, role]")],
        "[none, role]",
        ["reminders_cycle", "'role' is taken"],
    ),
    "baseline absent": (
        [("baseline: T0", "baseline: T9")],
        "baseline: T9",
        ["baseline", "'T9' is no cell", "T0, T1"],
    ),
    "two cells with one id": (
        [("id: T1", "id: T0")],
        "{id: T0, o: 1",
        ["cell T0 stands twice"],
    ),
    "bad cell id": (
        [("id: T1", "id: t1")],
        "{id: t1",
        ["cell t1: id", "T7"],
    ),
    "questions left out": (
        [("{questions}", "none today")],
        "questions: |-",
        ["parts: questions", "{questions} is missing"],
    ),
    "slots left out": (
        [("PICKS: {slots}", "PICKS: your picks")],
        "answer_text: |-",
        ["parts: answer_text", "{slots} is missing"],
    ),
    "a part like a question": (
        [("Duties: {duties}", "Q1. {duties}")],
        "o2: |-",
        ["parts: o2", "like a question"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LADDER_FAULTS)
def test_a_fault_of_a_ladder_names_line_part_and_remedy(name: str, tmp_path: Path) -> None:
    edits, anchor, phrases = LADDER_FAULTS[name]
    path = edited(tmp_path, "ladder", *edits)
    matching = [fault for fault in faults(path) if all(phrase in str(fault) for phrase in phrases)]
    assert matching, "\n".join(map(str, faults(path)))
    assert matching[0].line == line_of(path, [anchor])


def test_a_new_tier_and_a_new_reminder_are_data_only(tmp_path: Path) -> None:
    parts = """  p4: "The owner adds: {screen_out} are out."\n  mild: Mind the law.\n"""
    path = edited(
        tmp_path,
        "ladder",
        ("# Block b shows", "  - {id: T7, o: 3, p: 4}\n# Block b shows"),
        ("[none, generic, none, specific]", "[none, generic, none, mild]"),
        ("  generic:", f"{parts}  generic:"),
    )
    found, information = validate_files([path])
    assert not found
    assert "T7" in information[0] and "reminders none, generic, mild" in information[0]


@pytest.mark.parametrize(
    ("edits", "phrases"),
    [
        ([("[capacity, cost]", "[capacity, coast]")],
         ["occupation warehouse_picker: concerns", "'coast'", "did you mean 'cost'"]),
        ([("id: roofer", "id: warehouse_picker")], ["occupation warehouse_picker stands twice"]),
        ([("[capacity, cost]", "[]")], ["occupation warehouse_picker: concerns", "one to three"]),
        ([('"Roofing crew worker"', '"R"')], ["occupation roofer: title", "3-200 characters"]),
        ([('"Roofing crew worker"', '"R\\nQ1. x"')], ["occupation roofer: title", "not one line"]),
        ([("kind: hirewatch-occupations", "kind: hirewatch-occupation")],
         ["kind", "did you mean 'hirewatch-occupations'"]),
    ],
)  # fmt: skip
def test_faults_of_occupations(edits: list[Edit], phrases: list[str], tmp_path: Path) -> None:
    path = edited(tmp_path, "occupations", *edits)
    found = faults(path)
    assert any(all(phrase in str(fault) for phrase in phrases) for fault in found), found


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("", "is empty"),
        ("a: [1", "not YAML"),
        ("- 1\n- 2\n", "no mapping"),
        ("kind: hirewatch-bank\n---\nkind: hirewatch-bank\n", "several documents"),
        ("kind: [1]\n", "does not fit"),
        ("kind: hirewatch-bank\n", "no list of items"),
        ("kind: hirewatch-bank\nitems: 3\nsources: {}\n", "no list of sources"),
        ("kind: hirewatch-bank\nitems: [1, null]\nsources: [{key: 7}]\n", "item 1"),
    ],
)
def test_files_that_are_no_banks(content: str, phrase: str, tmp_path: Path) -> None:
    path = tmp_path / "bank.yaml"
    path.write_text(content, encoding="utf-8")
    assert any(phrase in str(fault) for fault in faults(path)), faults(path)
    with pytest.raises(DataFileError):
        load_material(bank_file=path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'hirewatch-ladder' does not fit"):
        load_material(bank_file=DATA / "ladder.yaml")


def test_a_file_that_cannot_be_opened_is_unreadable(tmp_path: Path) -> None:
    for read in (lambda path: validate_files([path]), lambda path: load_material(path)):
        with pytest.raises(DataFileError) as caught:
            read(tmp_path / "absent.yaml")
        assert caught.value.unreadable


def test_the_shipped_files_have_no_fault_and_are_described() -> None:
    found, information = validate_files()
    assert not found
    text = "\n".join(information)
    for phrase in (
        "labels: U1 63 · U2 7 · U3 30 · U4 0 · L 51 · LX 49",
        "source status: verified 57 · secondary 52 · inferred 90 · unchecked 1",
        "ada_function 20 · ada_history 20 · gina_eppa 20",
        "highest word overlap: 0.64",
        "labels pending legal review: 200 of 200",
        "20 occupations",
        "cells T0, T1, T2, T3, T4, T5, T6, baseline T0",
    ):
        assert phrase in text


def test_an_old_bank_is_allowed_and_said(tmp_path: Path) -> None:
    old = date.today() - timedelta(days=366)
    path = edited(tmp_path, "bank", ("as_of: 2026-06-20", f"as_of: {old}"))
    found, information = validate_files([path])
    assert not found
    assert any("bank may be out of date" in line for line in information)


def test_a_new_bank_from_the_template_is_valid_and_has_its_own_canary(tmp_path: Path) -> None:
    init = templates()["hirewatch-bank"]
    (name, text), (_, again) = (*init("my-bank").items(), *init("my-bank").items())
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert validate_files([path])[0] == []
    canary = re.compile(r"propensity-canary ([0-9a-f-]{36})")
    used = {match[1] for source in (text, again) if (match := canary.search(source))}
    assert len(used) == 2 and load_material().bank.canary[-36:] not in used
    assert load_material(bank_file=path).bank.version == "0.1.0"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 80])
def test_a_template_needs_a_file_name(name: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        templates()["hirewatch-bank"](name)


def test_an_edit_is_seen_in_the_same_process(tmp_path: Path) -> None:
    path = edited(tmp_path, "bank", ('version: "1.0.0"', 'version: "1.0.1"'))
    first = load_material(bank_file=path)
    edited(tmp_path, "bank", ('version: "1.0.0"', 'version: "1.0.22"'))
    second = load_material(bank_file=path)
    assert (first.bank.version, second.bank.version) == ("1.0.1", "1.0.22")
    assert first.sha256["bank"] != second.sha256["bank"] != load_material().sha256["bank"]
