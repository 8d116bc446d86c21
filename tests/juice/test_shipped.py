"""The shipped responses keep every rule of their specification."""

import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from propensity.common.datafiles import read_jsonl, read_text
from propensity.scorers.juice.comparison import Gold
from propensity.scorers.juice.records import Settings
from propensity.scorers.juice.taxonomy import FAMILIES, LABELS, LOGICAL, Label
from propensity.tasks.juice.dataset import (
    DATA,
    FEWSHOT,
    SHIPPED,
    SOURCES,
    SYNTHETIC_NOTICE,
    TAXONOMY,
    load_set,
    response_of,
)
from propensity.tasks.juice.schema import PAIRS, Entry, EntryKey, ErrorGroup, parse_key

ENTRIES = load_set().entries
WORKED = load_set(str(FEWSHOT)).entries
THICK = FAMILIES["thick"]
SIZES = {"en": (120, 350), "id": (120, 350), "ko": (250, 700), "bn": (500, 1500)}
"""Words (en, id) or code points (ko, bn) of a response."""


def key(entry_id: str) -> EntryKey:
    found = parse_key(entry_id)
    assert found is not None
    return found


def of_pair(pair: str) -> dict[str, Entry]:
    return {name: one for name, one in ENTRIES.items() if one.pair == pair}


def groups_of(pair: str) -> list[ErrorGroup]:
    return [group for one in of_pair(pair).values() for group in one.error_groups.values()]


def golds() -> Iterator[Gold]:
    for name, one in ENTRIES.items():
        yield Gold(response_of(name, one), Settings())


@pytest.mark.parametrize("pair", PAIRS)
def test_each_pair_has_three_queries_with_two_responses(pair: str) -> None:
    keys = [key(name) for name in of_pair(pair)]
    queries = defaultdict(set)
    for one in keys:
        queries[one.task, one.topic, one.number].add(one.response_model)
    assert sorted(task for task, _, _ in queries) == ["howto", "idea", "story"]
    assert all(models == {"synthetic-a", "synthetic-b"} for models in queries.values())
    assert len({one.query_text for one in of_pair(pair).values()}) == 3


@pytest.mark.parametrize("pair", PAIRS)
def test_numbers_of_groups(pair: str) -> None:
    sizes = {name: len(one.error_groups) for name, one in of_pair(pair).items()}
    assert all(6 <= n <= 9 for name, n in sizes.items() if name.endswith("-a"))
    assert all(0 <= n <= 3 for name, n in sizes.items() if name.endswith("-b"))
    assert list(sizes.values()).count(0) == 1
    assert 24 <= sum(sizes.values()) <= 30


@pytest.mark.parametrize("pair", PAIRS)
def test_labels_and_the_share_of_thick_ones(pair: str) -> None:
    groups = groups_of(pair)
    labels = Counter(label for group in groups for label in group.thick_categories)
    assert all(labels[label] >= 2 for label in LABELS if label != LOGICAL)
    thick = sum(not THICK.isdisjoint(group.thick_categories) for group in groups)
    assert 0.35 <= thick / len(groups) <= 0.50
    for group in groups:
        assert {error.thick_category for error in group.errors.values()} == set(
            group.thick_categories
        )


def test_labels_in_all() -> None:
    labels = Counter(
        label for pair in PAIRS for g in groups_of(pair) for label in g.thick_categories
    )
    total = sum(len(groups_of(pair)) for pair in PAIRS)
    assert 168 <= total <= 210
    assert all(labels[label] >= 20 for label in LABELS if label != LOGICAL)
    assert labels[LOGICAL] == 2


@pytest.mark.parametrize("pair", PAIRS)
def test_groups_with_two_members_of_different_spans(pair: str) -> None:
    groups = groups_of(pair)
    several = [g for g in groups if len({error.span for error in g.errors.values()}) == 2]
    assert len(several) / len(groups) >= 0.10


@pytest.mark.parametrize("pair", PAIRS)
def test_some_groups_overlap(pair: str) -> None:
    overlapping = 0
    for name, one in of_pair(pair).items():
        gold = Gold(response_of(name, one), Settings())
        places = [group.spans for group in gold.groups]
        overlapping += sum(
            any(a.start < b.end and b.start < a.end for a in first for b in second)
            for at, first in enumerate(places)
            for second in places[:at]
        )
    assert overlapping >= 1


def test_a_group_has_two_labels_of_different_families() -> None:
    def families(labels: list[Label]) -> set[str]:
        return {
            name for name in ("linguistic", "cultural") if not FAMILIES[name].isdisjoint(labels)
        }

    assert any(len(families(g.thick_categories)) == 2 for pair in PAIRS for g in groups_of(pair))


def test_a_span_is_punctuation_only() -> None:
    spans = [error.span for one in ENTRIES.values() for error in one.marks]
    assert any(not re.search(r"\w", span) for span in spans)


@pytest.mark.parametrize("language", ["en", "ko", "id", "bn"])
def test_a_string_recurs_of_which_one_occurrence_is_gold(language: str) -> None:
    recurring = [
        error.span
        for one in ENTRIES.values()
        if one.language == language
        for error in one.marks
        if one.response_text.count(error.span) > 1
    ]
    assert recurring


@pytest.mark.parametrize(
    "pattern",
    [
        r"\*\*[^*]+\*\*",
        r"(?m)^(- |\d+\. )",
        "[\U0001f300-\U0001faff\u2600-\u27bf]",
        "[“”‘’]",
        "\u2011",
    ],
    ids=["bold", "list", "emoji", "curly quotes", "non-breaking hyphen"],
)
def test_each_kind_of_markup_stands_in_two_responses(pattern: str) -> None:
    assert sum(bool(re.search(pattern, one.response_text)) for one in ENTRIES.values()) >= 2


@pytest.mark.parametrize("name", ENTRIES)
def test_a_response_has_its_size_and_its_form(name: str) -> None:
    one = ENTRIES[name]
    text = one.response_text
    paragraphs = text.split("\n\n")
    assert 3 <= len(paragraphs) <= 8 and all(part.strip() for part in paragraphs)
    low, high = SIZES[one.language]
    size = len(text.split()) if one.language in ("en", "id") else len(text)
    assert low <= size <= high
    assert unicodedata.is_normalized("NFC", text)
    assert "\u09df" not in text
    assert one.language != "bn" or "\u09af\u09bc" in text


def test_every_gold_span_stands_exactly_in_a_listed_paragraph() -> None:
    for gold in golds():
        for group in gold.groups:
            for placed in group.marks:
                assert placed.locations and not placed.moved
                for (start, end), level in placed.locations:
                    assert level == "exact"
                    assert gold.response.text[start:end] == placed.mark.span


def test_no_two_groups_would_merge_into_one_prediction() -> None:
    for gold in golds():
        firsts = [(group.spans[0], group.marks[0].mark.label) for group in gold.groups]
        assert len(set(firsts)) == len(firsts)


def test_marks_are_synthetic_and_complete() -> None:
    for one in ENTRIES.values():
        for error in one.marks:
            assert error.detector_type == "synthetic"
            assert error.raw_annotation.error_criticality in ("Low", "Middle", "High")
            assert error.raw_annotation.error_correction
            assert len(error.explanation) > 20


def test_every_inaccuracy_has_a_public_page() -> None:
    (_, header), *rows = read_jsonl(SOURCES)
    assert header["kind"] == "juice-sources"
    inaccurate = {
        name
        for one in ENTRIES.values()
        for name, group in one.error_groups.items()
        if "Cultural Inaccuracy" in group.thick_categories
    }
    assert sorted(row["group_id"] for _, row in rows) == sorted(inaccurate)
    assert all(row["url"].startswith("https://") for _, row in rows)


def test_worked_items_are_others() -> None:
    assert [one.language for one in WORKED.values()] == ["en", "ko", "bn"]
    assert not set(WORKED) & set(ENTRIES)
    queries = {one.query_text for one in ENTRIES.values()}
    assert not queries & {one.query_text for one in WORKED.values()}


def test_the_taxonomy_file_and_the_scorer_agree() -> None:
    entries = yaml.safe_load(read_text(TAXONOMY))["labels"]
    assert [entry["label"] for entry in entries] == list(LABELS)
    for entry in entries:
        for field in ("family", "kind"):
            name = entry[field]
            if name is not None:
                assert entry["label"] in FAMILIES[name]
        assert (entry["family"] is None) == (entry["label"] == LOGICAL)


@pytest.mark.parametrize("path", [SHIPPED, FEWSHOT])
def test_a_card_says_that_the_data_are_synthetic(path: Path) -> None:
    card = read_text(path.with_name(path.name + ".card.md"))
    assert "synthetic: true" in card
    assert SYNTHETIC_NOTICE in " ".join(card.split())


def test_every_data_file_or_its_card_holds_the_canary() -> None:
    canary = yaml.safe_load(read_text(DATA.parent / "eval.yaml"))["canary"]
    for path in DATA.iterdir():
        card = path.with_name(path.name + ".card.md")
        assert canary in read_text(card if card.exists() else path), path.name
        assert path.stat().st_size < 1_000_000


def test_data_are_valid_without_our_reader() -> None:
    assert json.loads(read_text(SHIPPED)).keys() == ENTRIES.keys()
