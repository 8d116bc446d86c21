"""The loader of the official schema: every bad input, counts, addresses, templates."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from propensity.common.datafiles import DataFileError
from propensity.scorers.juice.comparison import Gold
from propensity.scorers.juice.records import Settings
from propensity.tasks.juice.dataset import (
    load_set,
    response_of,
    samples,
    templates,
    validate_files,
)
from propensity.tasks.juice.schema import OFFICIAL_GROUPS, PAIRS, parse_key

ENTRY = "korea_howto-rice-8_native_some/model-1"
GROUP = f"{ENTRY}_01"
ERROR = f"{GROUP}_1"
REVISION = "0123456789abcdef0123456789abcdef01234567"


def error(span: str = "밥을", **fields: Any) -> dict[str, Any]:
    raw = {
        "error_span": span,
        "error_explanation": "e",
        "error_type": "Both",
        "validation_type": "valid",
        "validation_comment": None,
        "error_correction": None,
        "error_criticality": "High",
    }
    return {
        "paragraph_idx_list": [0],
        "detector_id": "KR-4",
        "detector_type": "human",
        "span": span,
        "explanation": "e",
        "thick_category": "Cultural Inaccuracy",
        "raw_annotation": json.dumps(raw),
    } | fields


def entry(**fields: Any) -> dict[str, Any]:
    group = {
        "errors": {ERROR: error()},
        "paragraph_idx_list": [0],
        "thick_categories": ["Cultural Inaccuracy"],
    }
    return {
        "country": "korea",
        "language_type": "native",
        "language": "ko",
        "query_text": "q",
        "response_text": "밥을 먹는다.\n\n국도 먹는다.",
        "error_groups": {GROUP: group},
    } | fields


def written(folder: Path, value: Any) -> str:
    path = folder / "data.json"
    path.write_text(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), encoding="utf-8"
    )
    return str(path)


def faults(folder: Path, value: Any) -> str:
    with pytest.raises(DataFileError) as caught:
        load_set(written(folder, value))
    return str(caught.value)


def test_a_valid_file_is_read_as_it_is(tmp_path: Path) -> None:
    loaded = load_set(written(tmp_path, {ENTRY: entry()}))
    assert (loaded.status, loaded.warnings, len(loaded.sha256)) == ("subset", (), 64)
    response = response_of(ENTRY, loaded.entries[ENTRY])
    assert response.text == "밥을 먹는다.\n\n국도 먹는다."
    assert (response.language, response.model) == ("ko", "some/model-1")
    (group,) = response.groups
    (mark,) = group.marks
    assert (group.id, group.labels) == (GROUP, ("Cultural Inaccuracy",))
    assert (mark.span, mark.paragraphs, mark.finder, mark.criticality) == (
        "밥을",
        (0,),
        "human",
        "High",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe{}", "byte 0 is not UTF-8"),
        (b'{"a": ', "data.json:1: not JSON"),
        (b'{\n"a": {"b": 1},\n', "not JSON"),
        (b"", "not JSON"),
        (b"[]", "a list at the top; expected one object by entry id"),
        (b'"x"', "a str at the top"),
        (b"{}", "holds no entry"),
        (b'{"a": {"x": 1, "x": 2}}', "x: key stands twice"),
    ],
)
def test_files_that_are_not_such_an_object(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        load_set(str(path))
    assert said in str(caught.value)


def test_a_missing_file_names_what_data_may_be(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"does not exist; data is shipped, the path") as caught:
        load_set(str(tmp_path / "official.json"))
    assert caught.value.unreadable


def in_entry(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda one: one.update(fields)


def in_group(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda one: one["error_groups"][GROUP].update(fields)


def in_error(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda one: one["error_groups"][GROUP]["errors"][ERROR].update(fields)


def without(*path: str) -> Callable[[dict[str, Any]], None]:
    def drop(one: dict[str, Any]) -> None:
        for key in path[:-1]:
            one = one[key]
        del one[path[-1]]

    return drop


IN_ERROR = f"{ENTRY}: error_groups.{GROUP}.errors.{ERROR}"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without("query_text"), f"{ENTRY}: query_text: Field required"),
        (without("error_groups", GROUP, "thick_categories"), f"{GROUP}.thick_categories: Field"),
        (without("error_groups", GROUP, "errors", ERROR, "span"), f"{IN_ERROR}.span: Field"),
        (in_entry(response_text=5), f"{ENTRY}: response_text: Input should be a valid string"),
        (in_entry(error_groups=[]), f"{ENTRY}: error_groups: Input should be a valid dict"),
        (in_group(errors={}), f"{GROUP}.errors: Dictionary should have at least 1 item"),
        (in_group(thick_categories=[]), "thick_categories: List should have at least 1 item"),
        (in_error(paragraph_idx_list=["0"]), "paragraph_idx_list.0: Input should be a valid int"),
        (in_error(paragraph_idx_list=[True]), "paragraph_idx_list.0: Input should be a valid int"),
        (in_error(span=" \n"), f"{IN_ERROR}.span: is empty or white space"),
        (in_error(span=""), f"{IN_ERROR}.span: is empty or white space"),
        (in_error(raw_annotation="{x"), f"{IN_ERROR}.raw_annotation: is not valid JSON"),
        (in_error(raw_annotation="[]"), f"{IN_ERROR}.raw_annotation: Input should be a valid dict"),
        (in_error(raw_annotation="{}"), f"{IN_ERROR}.raw_annotation.error_span: Field required"),
        (in_error(detector_type="robot"), f"{IN_ERROR}.detector_type: Input should be 'human'"),
        (in_error(detector_type="synthetic"), "'synthetic' needs a card that says so"),
        (in_error(thick_category="Typo"), "'Cultural Missingness' or 'Logical Error', got 'Typo'"),
        (in_group(thick_categories=["Typo"]), f"{GROUP}.thick_categories.0: Input should be"),
        (in_entry(country="japan"), "Input should be 'us', 'korea', 'indonesia' or 'bangladesh'"),
        (in_entry(language="ja"), "Input should be 'en', 'ko', 'id' or 'bn', got 'ja'"),
        (in_entry(language="en"), "language 'en' does not go with country 'korea'"),
        (in_entry(language_type="english"), "language 'ko' does not go with country 'korea'"),
        (
            in_entry(language_type="english", language="en"),
            "language_type is 'english', but the id says 'native'",
        ),
        (in_entry(country="indonesia", language="id"), "country is 'indonesia', but the id says"),
    ],
)
def test_faults_name_entry_group_error_and_field(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    one = copy.deepcopy(entry())
    spoil(one)
    assert said in faults(tmp_path, {ENTRY: one})


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    text = faults(tmp_path, {"a": entry(country="x"), "b": entry(language="y"), "c": {}})
    assert len(text.splitlines()) >= 8
    assert all(f"data.json: {name}: " in text for name in "abc")


def test_an_annotation_may_be_an_object(tmp_path: Path) -> None:
    one = entry()
    of = one["error_groups"][GROUP]["errors"][ERROR]
    of["raw_annotation"] = json.loads(of["raw_annotation"])
    loaded = load_set(written(tmp_path, {ENTRY: one}))
    (mark,) = response_of(ENTRY, loaded.entries[ENTRY]).groups[0].marks
    assert mark.criticality == "High"


def test_a_models_mark_has_no_criticality(tmp_path: Path) -> None:
    one = entry()
    in_error(detector_type="model", detector_id="gpt-5.1")(one)
    loaded = load_set(written(tmp_path, {ENTRY: one}))
    (mark,) = response_of(ENTRY, loaded.entries[ENTRY]).groups[0].marks
    assert (mark.finder, mark.criticality) == ("model", None)


def test_what_is_odd_but_readable_is_kept_and_counted(tmp_path: Path) -> None:
    odd = entry(note="x")
    in_error(paragraph_idx_list=[], comment="y")(odd)
    also = entry(note="z")
    in_error(paragraph_idx_list=[0, 7])(also)
    raw = json.loads(also["error_groups"][GROUP]["errors"][ERROR]["raw_annotation"])
    in_error(raw_annotation=raw | {"error_criticality": "Fatal"})(also)
    loaded = load_set(written(tmp_path, {"Korea_1": odd, "Korea_2": also}))
    assert loaded.warnings == (
        "unknown field 'entry.note', kept, in 2 places",
        "unknown field 'error.comment', kept, in 1 places",
        "2 ids are not of the published form; each is its own query cluster",
        "2 marks list no paragraph, or one that the text does not have",
        "1 marks have a criticality other than Low, Middle, High",
    )
    assert loaded.entries["Korea_1"].model_extra == {"note": "x"}
    first, second = samples(loaded, Settings(), "zero_shot")
    assert [s.metadata["cluster_id"] for s in (first, second) if s.metadata] == [
        "Korea_1",
        "Korea_2",
    ]
    gold = Gold(response_of("Korea_1", loaded.entries["Korea_1"]), Settings())
    assert gold.groups[0].marks[0].moved and gold.groups[0].spans == ((0, 2),)


@pytest.mark.parametrize(
    ("entry_id", "cluster", "model"),
    [
        ("us_story-worklife-1_english_gemini-2.5-flash", "us/story/worklife/1", "gemini-2.5-flash"),
        ("bangladesh_howto-bangladesh-04_english_Qwen3-8B", "bangladesh/howto/bangladesh/4", None),
        ("bangladesh_howto-bangladesh-4_native_a_b", "bangladesh/howto/bangladesh/4", "a_b"),
        ("korea_howto-korea-8_native_x", "korea/howto/korea/8", "x"),
    ],
)
def test_ids_come_apart(entry_id: str, cluster: str, model: str | None) -> None:
    key = parse_key(entry_id)
    assert key is not None and key.cluster == cluster
    assert model is None or key.response_model == model


@pytest.mark.parametrize(
    "entry_id", ["", "japan_story-a-1_english_m", "us_poem-a-1_english_m", "us_story-a-1_english_"]
)
def test_other_ids_do_not_parse(entry_id: str) -> None:
    assert parse_key(entry_id) is None


def official(groups: dict[str, int]) -> dict[str, Any]:
    """A file of 1,050 entries with the given numbers of groups."""
    entries: dict[str, Any] = {}
    for pair, total in groups.items():
        country, language = pair.split("-")
        kind = "english" if language == "en" else "native"
        for number in range(150):
            share = total // 150 + (number < total % 150)
            entry_id = f"{country}_story-t-{number}_{kind}_m"
            group = entry()["error_groups"][GROUP]
            entries[entry_id] = entry(
                country=country,
                language=language,
                language_type=kind,
                error_groups={f"{entry_id}_{n}": group for n in range(share)},
            )
    return entries


@pytest.fixture(scope="module")
def full() -> dict[str, Any]:
    return official(OFFICIAL_GROUPS)


def test_the_published_counts_make_a_file_official(tmp_path: Path, full: dict[str, Any]) -> None:
    loaded = load_set(written(tmp_path, full))
    assert (loaded.status, len(loaded.entries)) == ("official", 1050)
    assert sum(OFFICIAL_GROUPS.values()) == 7470


def test_other_group_counts_need_a_word_from_the_user(tmp_path: Path, full: dict[str, Any]) -> None:
    changed = dict(full)
    name = "us_story-t-0_english_m"
    changed[name] = full[name] | {"error_groups": {}}
    path = written(tmp_path, changed)
    with pytest.raises(DataFileError) as caught:
        load_set(path)
    text = str(caught.value)
    assert "allow_unchecked_data=true" in text
    assert "us-en: groups 656, marks 656, published 661" in text
    assert "bangladesh-bn: groups 1734, marks 1734, published 1734" in text
    assert load_set(path, allow_unchecked=True).status == "unchecked"


def test_other_numbers_per_pair_are_refused_in_any_case(
    tmp_path: Path, full: dict[str, Any]
) -> None:
    changed = dict(full)
    changed.pop("us_story-t-0_english_m")
    changed["korea_story-t-999_native_m"] = entry(error_groups={})
    with pytest.raises(DataFileError, match=r"150 entries per pair.*us-en 149, korea-ko 151"):
        load_set(written(tmp_path, changed), allow_unchecked=True)


@pytest.mark.parametrize(
    "address",
    [
        "hf://uilab/JuICE@main/file.json",
        "hf://uilab/JuICE@0123abc/file.json",
        "hf://uilab/JuICE",
        f"hf://uilab/JuICE@{REVISION.upper()}",
        f"hf://uilab/JuICE@{REVISION}/file.parquet",
        f"hf://uilab/JuICE@{REVISION}0",
    ],
)
def test_addresses_without_a_pinned_revision_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="40 hex digits"):
        load_set(address)


def test_a_file_of_a_dataset_is_read_at_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {ENTRY: entry()})
    asked: list[Any] = []

    def download(repo_id: str, filename: str, *, repo_type: str, revision: str) -> str:
        asked.append((repo_id, filename, repo_type, revision))
        return path

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    address = f"hf://uilab/JuICE@{REVISION}/data/juice.json"
    loaded = load_set(address)
    assert asked == [("uilab/JuICE", "data/juice.json", "dataset", REVISION)]
    assert loaded.source == address
    assert loaded.sha256 == load_set(path).sha256


def hub(monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]) -> None:
    """Serve rows as `datasets` would: from columnar storage, in a split."""
    import datasets

    table = datasets.Dataset.from_list(rows)

    def load(name: str, *, revision: str) -> Any:
        assert (name, revision) == ("uilab/JuICE", REVISION)
        return datasets.DatasetDict({"train": table})

    monkeypatch.setattr("datasets.load_dataset", load)


@pytest.mark.parametrize("as_text", [True, False])
def test_rows_of_a_dataset_are_read_if_they_are_entries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, as_text: bool
) -> None:
    other = ENTRY.replace("rice-8", "rice-9")
    more = entry()
    more["error_groups"] = {f"{other}_01": more["error_groups"][GROUP]}
    entries = {ENTRY: entry(), other: more, ENTRY.replace("-8", "-7"): entry(error_groups={})}
    rows = [{"id": name} | one for name, one in entries.items()]
    if as_text:
        rows = [row | {"error_groups": json.dumps(row["error_groups"])} for row in rows]
    hub(monkeypatch, rows)
    loaded = load_set(f"hf://uilab/JuICE@{REVISION}")
    assert loaded.entries == load_set(written(tmp_path, entries)).entries
    assert loaded.status == "subset"


def test_rows_of_another_layout_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, [{"country": "us", "span": "x"}])
    with pytest.raises(DataFileError) as caught:
        load_set(f"hf://uilab/JuICE@{REVISION}")
    assert "found: country, span; needed: country, language_type" in str(caught.value)


@pytest.mark.parametrize("name", [ENTRY, 7])
def test_a_row_that_stands_twice_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str | int
) -> None:
    hub(monkeypatch, [{"id": name} | entry()] * 2)
    with pytest.raises(DataFileError, match="id stands twice"):
        load_set(f"hf://uilab/JuICE@{REVISION}")


def test_pairs_that_leave_nothing_say_what_there_is(tmp_path: Path) -> None:
    loaded = load_set(written(tmp_path, {ENTRY: entry()}))
    with pytest.raises(ValueError, match="leaves no response; the data has korea-ko 1"):
        samples(loaded, Settings(), "zero_shot", ["us-en"])


def test_human_gold_needs_human_marks(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gold=human leaves no group: .* synthetic 246"):
        samples(load_set(), Settings(gold="human"), "zero_shot")
    loaded = load_set(written(tmp_path, {ENTRY: entry()}))
    assert len(samples(loaded, Settings(gold="human"), "zero_shot")) == 1


def test_samples_are_text_by_id_in_file_order_with_what_the_scorer_needs() -> None:
    loaded = load_set()
    made = samples(loaded, Settings(), "zero_shot")
    assert [sample.id for sample in made] == list(loaded.entries)
    assert [sample.id for sample in made][:5] == [
        "us_story-family-1_english_synthetic-a",
        "us_story-family-1_english_synthetic-b",
        "us_idea-gathering-2_english_synthetic-a",
        "us_idea-gathering-2_english_synthetic-b",
        "us_howto-us-3_english_synthetic-a",
    ]
    metadata = made[0].metadata
    assert metadata is not None
    assert metadata["cluster_id"] == "us/story/family/1"
    assert metadata["factors"] == {
        "pair": "us-en",
        "country": "us",
        "language": "en",
        "task_type": "story",
        "response_model": "synthetic-a",
    }
    assert json.loads(json.dumps(metadata)) == metadata


def test_shipped_files_have_no_fault() -> None:
    found, information = validate_files(())
    assert found == []
    text = "\n".join(information)
    assert "42 responses, 204 groups, 246 marks (synthetic)" in text
    assert "groups moved: 0; not located: 0" in text
    assert "not validated by native speakers" in text
    assert "taxonomy.yaml: 8 labels" in text


def test_a_new_set_is_valid_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = templates()["juice-set"]("my_set")
    assert list(files) == ["my_set/my_set.json", "my_set/my_set.json.card.md"]
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found, information = validate_files([Path("my_set")])
    assert found == []
    assert "my_set.json: 1 responses, 1 groups, 1 marks (synthetic)" in information
    assert len(samples(load_set("my_set/my_set.json"), Settings(), "few_shot", PAIRS)) == 1
    with pytest.raises(ValueError, match="no file name"):
        templates()["juice-set"]("../x")


def test_a_span_that_is_nowhere_is_a_fault_in_a_set_with_a_card(tmp_path: Path) -> None:
    (text, card) = templates()["juice-set"]("s").values()
    data = tmp_path / "s.json"
    data.write_text(text.replace("third Thursday", "second Thursday", 1), encoding="utf-8")
    assert validate_files([data])[0] != []
    (tmp_path / "s.json.card.md").write_text(card, encoding="utf-8")
    spoiled = text.replace('"span": "the third', '"span": "the second')
    data.write_text(spoiled, encoding="utf-8")
    (fault,) = validate_files([data])[0]
    assert "no mark is in the text" in str(fault)
    (tmp_path / "s.json.card.md").write_text("no front matter", encoding="utf-8")
    assert "no front matter" in str(validate_files([tmp_path / "s.json.card.md"])[0][0])


def test_unreadable_files_are_not_faults_of_content(tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as caught:
        validate_files([tmp_path / "none.json"])
    assert caught.value.unreadable


def test_shipped_files_are_read_in_any_locale() -> None:
    code = (
        "from propensity.tasks.juice.dataset import load_set, validate_files;"
        "assert validate_files(())[0] == [];"
        "print(len(load_set().entries))"
    )
    env = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "42"


def test_a_folder_without_a_set_is_no_folder_without_faults(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hi", encoding="utf-8")
    with pytest.raises(DataFileError, match="holds no JSON file"):
        validate_files([tmp_path])
