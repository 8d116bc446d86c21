"""Loading: what is accepted, what is refused and how it is said."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task

from propensity.common.datafiles import DataFileError
from propensity.scorers.rpeval.records import LABEL_WORDS
from propensity.tasks.rpeval import official as official_files
from propensity.tasks.rpeval import rpeval
from propensity.tasks.rpeval.checks import Figure, figures
from propensity.tasks.rpeval.dataset import (
    DATA,
    cluster_of,
    load_set,
    templates,
    validate_files,
)
from propensity.tasks.rpeval.folder import read_folder, records
from propensity.tasks.rpeval.official import COMMIT, FILES, FOLDER, fetch, letter, load

SHIPPED_FILES = ("queries", "preferences", "single", "multi")


def ids(task: Task) -> list[str]:
    return [str(sample.id) for sample in task.dataset]


# The shipped set


def test_the_shipped_set_has_no_fault() -> None:
    faults, information = validate_files([])
    assert faults == []
    assert "150 single records, 150 multi records with 600 slots" in information[0]


@pytest.mark.parametrize("memory", ["explicit", "implicit"])
@pytest.mark.parametrize("cardinality", ["single", "multi"])
def test_guessing_reaches_chance_on_the_shipped_set(memory: Any, cardinality: Any) -> None:
    known = records(read_folder(DATA), memory, cardinality)
    found = {figure.name: figure for figure in figures(known, cardinality)}
    assert [str(one) for one in found.values() if not one.passes] == []
    if cardinality == "single":
        for name in ("always-A accuracy", "keyword accuracy", "nb_pref", "nb_query"):
            assert found[name].value == pytest.approx(50 / 150)
        assert found["ceiling preference"].value == pytest.approx(1 / 3)
    else:
        assert found["keyword micro"].value == pytest.approx(200 / 600)
        assert found["keyword macro"].value == pytest.approx(20 / 150)
        for name in ("position only", "size only", "longest is C", "similarity", "nb_pref"):
            assert found[name].value <= 0.3833 + 1e-4
        assert found["ceiling preference"].value <= 0.5 >= found["ceiling query"].value


def test_the_shape_of_the_shipped_set() -> None:
    multi = load_set("shipped", "explicit", "multi").records
    sizes = {"ia": dict.fromkeys(range(2, 7), 0), "lko": dict.fromkeys(range(2, 7), 0)}
    for one in multi:
        sizes[one.group][len(one.gold)] += 1
    assert sizes["ia"] == {2: 5, 3: 10, 4: 5, 5: 0, 6: 0}
    assert sizes["lko"] == {2: 8, 3: 28, 4: 46, 5: 32, 6: 16}
    gold = "".join(one.gold for one in multi)
    assert [gold.count(x) for x in "ABC"] == [200, 200, 200]
    assert len({one.question for one in multi}) == 50
    single = load_set("shipped", "explicit", "single").records
    assert sum(one.language == "en" for one in single) == 114
    assert len({one.domain for one in single}) == 12


def test_a_failing_figure_fails() -> None:
    assert not Figure("x", 0.4, 0.3833).passes
    assert not Figure("x", 0.3, 1 / 3, exact=True).passes


# Order, ids, filters


def test_order_is_fixed_by_the_seed() -> None:
    first = ids(rpeval())
    assert first[:5] == FIRST_FIVE
    assert first == ids(rpeval(seed=0)) != ids(rpeval(seed=1))
    assert sorted(first) == sorted(ids(rpeval(seed=1)))


FIRST_FIVE = [
    "single-en-health-s1-p23",
    "single-en-learning-s2-p22",
    "single-en-learning-s3-p22",
    "single-zh-food-s1-p01",
    "single-en-travel-s1-p06",
]


def test_a_language_is_filtered_and_counted() -> None:
    assert len(rpeval(language="zh").dataset) == 36
    assert len(rpeval(language="en", cardinality="multi").dataset) == 120


def test_samples_say_what_the_store_needs() -> None:
    sample = rpeval(cardinality="multi").dataset[0]
    metadata = sample.metadata or {}
    record = metadata["record"]
    assert metadata["cluster_id"] == cluster_of(record["question"])
    assert [unit["item_id"] for unit in metadata["units"]][:2] == [sample.id, f"{sample.id}#1"]
    assert len(metadata["units"]) == 1 + len(record["gold"])
    assert str(sample.target[0] if isinstance(sample.target, list) else sample.target)
    assert "propensity-canary" not in str(sample.input)


# Folders of one's own


def copied(tmp_path: Path, change: Callable[[dict[str, list[dict[str, Any]]]], None]) -> Path:
    rows: dict[str, list[dict[str, Any]]] = {}
    for part in SHIPPED_FILES:
        text = (DATA / f"{part}.jsonl").read_text(encoding="utf-8")
        rows[part] = [json.loads(line) for line in text.splitlines()]
    change(rows)
    for part, found in rows.items():
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in found)
        (tmp_path / f"{part}.jsonl").write_text(lines + "\n", encoding="utf-8")
    return tmp_path


def put(part: str, row: int, **fields: Any) -> Callable[[dict[str, list[dict[str, Any]]]], None]:
    return lambda rows: rows[part][row].update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("single", 1, label="D"), r"single.jsonl:2: single-en-food-s1-p01: label"),
        (put("single", 1, query_id="nope"), "query_id 'nope' is not in queries.jsonl"),
        (put("multi", 1, preference_ids=["en-p42", "zz"]), "'zz' is not in preferences.jsonl"),
        (put("multi", 1, labels="AB"), "2 labels for 5 preferences"),
        (put("multi", 1, labels="AB?BA"), "labels"),
        (put("single", 2, id="single-en-food-s1-p01"), "id stands twice, first in line 2"),
        (put("single", 2, preference_id="en-p01"), "stand together twice"),
        (put("queries", 1, text="  "), "queries.jsonl:2: en-food-s1: text"),
        (put("queries", 1, colour="red"), "colour"),
        (put("queries", 0, kind="rpeval-multi"), "expected 'rpeval-queries'"),
        (put("preferences", 1, explicit="I like it."), "first person"),
    ],
)
def test_a_folder_with_faults_is_refused(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    folder = copied(tmp_path, change)
    for allowed in (False, True):
        with pytest.raises(DataFileError, match=message):
            load_set(str(folder), "explicit", "single", allow_unchecked=allowed)
    faults, _ = validate_files([folder])
    assert any(str(fault) for fault in faults)


def test_cues_and_balance_can_be_let_pass_and_are_marked(tmp_path: Path) -> None:
    text = "The user never eats meat at home or out, with beans and eggs as staples."
    folder = copied(tmp_path, put("preferences", 1, explicit=text))
    with pytest.raises(DataFileError, match="cue word 'never'"):
        rpeval(str(folder))
    task = rpeval(str(folder), allow_unchecked_data=True)
    assert (task.metadata or {})["data_unchecked"] is True
    assert any("data_unchecked" in note for note in (task.metadata or {})["warnings"])
    unbalanced = copied(tmp_path, put("single", 1, label="A"))
    with pytest.raises(DataFileError, match="not balanced: A 51, B 50, C 49"):
        load_set(str(unbalanced), "explicit", "single")


def test_a_failed_check_names_the_most_telling_words(tmp_path: Path) -> None:
    def tell(rows: dict[str, list[dict[str, Any]]]) -> None:
        for row in rows["multi"][1:]:
            row["labels"] = "".join("ABC"[int(x[-1], 36) % 3] for x in row["preference_ids"])

    faults, information = validate_files([copied(tmp_path, tell)])
    assert any("check fails: nb_pref" in str(fault) for fault in faults)
    assert any("most telling:" in line for line in information)


def test_implicit_memory_needs_dialogues(tmp_path: Path) -> None:
    folder = copied(tmp_path, put("preferences", 1, dialogue=[]))
    assert load_set(str(folder), "explicit", "single").status == "own"
    with pytest.raises(DataFileError, match=r"preferences.jsonl:2: en-p01: has no dialogue"):
        load_set(str(folder), "implicit", "single")


def test_a_template_is_valid(tmp_path: Path) -> None:
    for name, text in templates()["rpeval-set"]("mine").items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    faults, information = validate_files([tmp_path / "mine"])
    assert [str(fault) for fault in faults] == []
    assert validate_files(sorted((tmp_path / "mine").iterdir())) == ([], information)
    assert len(rpeval(str(tmp_path / "mine"), memory="implicit").dataset) == 9
    with pytest.raises(ValueError, match="language=zh leaves no record; the data has en 9"):
        rpeval(str(tmp_path / "mine"), language="zh")
    with pytest.raises(ValueError, match="no folder name"):
        templates()["rpeval-set"]("../x")


def test_paths_that_are_no_set_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="is no folder"):
        rpeval(str(tmp_path / "absent"))
    with pytest.raises(DataFileError, match="cannot be read"):
        rpeval(str(tmp_path))
    with pytest.raises(DataFileError, match="no part of a set"):
        validate_files([tmp_path / "other.jsonl"])


# Parameters


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"protocol": "generativ"}, "did you mean 'generative'"),
        ({"cardinality": "many"}, "cardinality must be one of single, multi"),
        ({"memory": "none"}, "memory must be one of"),
        ({"language": False}, "quote it"),
        ({"prompt_language": "de"}, "prompt_language must be one of match, en, zh"),
        ({"reasoner": "rp_reasoner", "prompt": "cot"}, "prompt must be vanilla"),
        ({"seed": True}, "seed must be an integer"),
        ({"allow_unchecked_data": "true"}, "must be true or false"),
        ({"data": ""}, "data must be a text"),
    ],
)
def test_wrong_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rpeval(**given)


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match="no parameter 'langage'; did you mean 'language'"):
        rpeval(langage="en")  # type: ignore[arg-type]


# Official files


@pytest.mark.parametrize(
    ("memory", "cardinality", "first"),
    [
        ("explicit", "single", "official-single-5d6aab7bc1a7-1"),
        ("explicit", "multi", "official-multi-119bab8c019d-1"),
        ("implicit", "multi", "official-multi-b866e0c2104b-1"),
    ],
)
def test_the_first_official_id(official: Path, memory: Any, cardinality: Any, first: str) -> None:
    found, digest, checked = load(official, memory, cardinality)
    assert (found[0].id, checked, digest) == (first, True, FILES[memory, cardinality].sha256)
    assert len({one.id for one in found}) == 150


@pytest.mark.parametrize(("cardinality", "shared", "at"), [("single", 150, 25), ("multi", 147, 16)])
def test_both_settings_join_on_ids_never_on_position(
    official: Path, cardinality: Any, shared: int, at: int
) -> None:
    explicit, implicit = (load(official, m, cardinality)[0] for m in ("explicit", "implicit"))
    by_id = {one.id: one.gold for one in implicit}
    both = [one for one in explicit if one.id in by_id]
    assert len(both) == shared and all(by_id[one.id] == one.gold for one in both)
    assert sum(a.id == b.id for a, b in zip(explicit, implicit, strict=True)) == at


def test_the_official_task_says_licence_and_issues(official: Path) -> None:
    task = rpeval(str(official), cardinality="multi")
    metadata = task.metadata or {}
    assert "CC BY-NC 4.0" in metadata["licence"] and metadata["data_status"] == "official"
    assert any("Always-A beats" in note for note in metadata["warnings"])
    assert metadata["baselines"]["keyword"] == pytest.approx(713 / 803)
    with pytest.raises(ValueError, match="language=en leaves no record; the data has zh 150"):
        rpeval(str(official), language="en")


def made(tmp_path: Path, rows: Any, memory: Any = "explicit", cardinality: Any = "single") -> Path:
    path = tmp_path / FOLDER / FILES[memory, cardinality].path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows), encoding="utf-8")
    return tmp_path


def row(**fields: Any) -> dict[str, Any]:
    base = {"persona": "用户爱喝茶", "question": "去哪？", "reason": "r", "intent_type": "ignore"}
    return base | fields


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("{", "not JSON"),
        ({"a": 1}, "expected a list"),
        ([row(intent_type="Ignored")], "row 1: official-single-.*unknown label 'Ignored'"),
        ([row(question=" ")], "empty question"),
        ([row(extra=1)], "keys are extra"),
        ([row(persona=["x"])], "persona is no text"),
        ([3], "row 1: a int; expected an object"),
    ],
)
def test_faulty_official_files_are_refused(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        load(made(tmp_path, rows), "explicit", "single", allow_unchecked=True)


@pytest.mark.parametrize(
    ("labels", "message"),
    [("AAA", "3 labels for 2 preferences"), ("AD", "hold 'D'"), ("a", "hold 'a'")],
)
def test_labels_fit_the_preferences(tmp_path: Path, labels: str, message: str) -> None:
    rows = [{"persona": ["一", "二"], "question": "去哪？", "intent_type": labels}]
    folder = made(tmp_path, rows, "explicit", "multi")
    with pytest.raises(DataFileError, match=message):
        load(folder, "explicit", "multi", allow_unchecked=True)


def test_other_checksums_and_counts_need_leave_and_are_marked(tmp_path: Path) -> None:
    folder = made(tmp_path, [row(), row(), row(question="吃什么？", intent_type="以偏好为主线")])
    with pytest.raises(DataFileError) as refused:
        rpeval(str(folder))
    text = str(refused.value)
    assert "expected dcee5db3" in text and "rows: expected 150, found 3" in text
    task = rpeval(str(folder), allow_unchecked_data=True)
    assert (task.metadata or {})["data_status"] == "data_unchecked"
    assert sorted(name[-2:] for name in ids(task)) == ["-1", "-1", "-2"]


def test_the_label_map() -> None:
    assert "".join(letter(f" {word} ") for word in LABEL_WORDS) == "AABBBBCCC"


def test_only_commits_are_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="40 hex digits"):
        fetch("explicit", "single", "main")
    asked: list[Any] = []

    def download(url: str, sha256: str, dest: Path, *, timeout: float) -> Path:
        asked.append((url, sha256, timeout))
        dest.write_bytes(b"x")
        return dest

    monkeypatch.setattr(official_files, "download", download)
    monkeypatch.setenv("PROPENSITY_CACHE", str(tmp_path))
    folder = fetch("explicit", "single")
    one = FILES["explicit", "single"]
    base = f"https://raw.githubusercontent.com/XueyangFeng/RPEval/{COMMIT}/benchmark_dataset"
    assert asked == [(f"{base}/{one.path}", one.sha256, 60)]
    assert folder.is_relative_to(tmp_path) and (folder / FOLDER / one.path).is_file()
    with pytest.raises(DataFileError):
        rpeval("official")


def test_no_official_row_is_shipped(official: Path) -> None:
    theirs = {one.question for c in ("single", "multi") for one in load(official, "explicit", c)[0]}
    ours = {
        one.question
        for c in ("single", "multi")
        for one in load_set("shipped", "explicit", c).records
    }  # noqa: E501
    assert not theirs & ours
    digests = {one.sha256 for one in FILES.values()}
    assert not digests & {hashlib.sha256(p.read_bytes()).hexdigest() for p in DATA.iterdir()}
