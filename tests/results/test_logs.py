"""Finding and reading logs: a damaged one is named, and never stops the rest."""

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from propensity.results.store import open_store
from propensity.results.store.ingest import Ingested, ingest
from propensity.results.store.logs import LogNotStored, find_logs, read_log
from tests.results.toys import metadata, sample, toy
from tests.support import run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "some" / "logs"
    run(toy([sample("a"), sample("b")]), log_dir=str(folder))
    return folder


def the_log(folder: Path) -> Path:
    (path,) = folder.glob("*.eval")
    return path


def into_store(*paths: object, tmp_path: Path, overwrite: bool = False) -> Ingested:
    store = open_store(tmp_path / "store")
    return ingest([str(path) for path in paths], store, overwrite=overwrite)


def test_files_and_folders_name_each_log_once(logs: Path, tmp_path: Path) -> None:
    path = the_log(logs)
    found, missing = find_logs([str(logs), str(path), str(tmp_path), f"file://{path}"])
    assert found == [str(path)] and missing == []


def test_paths_without_a_log_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found, missing = find_logs([str(empty), str(tmp_path / "nowhere")])
    assert found == []
    assert [one.cause for one in missing] == [
        "no log in this folder",
        "there is no such file or folder",
    ]


def test_a_store_beside_the_logs_is_not_read_as_logs(tmp_path: Path) -> None:
    run(toy([sample("a")]), log_dir=str(tmp_path / "logs"))
    assert (tmp_path / "results-store" / "runs" / "_delta_log").exists()
    assert len(find_logs([str(tmp_path)])[0]) == 1


def test_twice_is_once_and_an_edited_log_replaces(logs: Path, tmp_path: Path) -> None:
    first = into_store(logs, tmp_path=tmp_path)
    again = into_store(logs, tmp_path=tmp_path)
    forced = into_store(logs, tmp_path=tmp_path, overwrite=True)
    assert (len(first.written), len(again.written), len(forced.written)) == (1, 0, 1)
    assert again.unchanged == first.written
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(the_log(logs)))
    assert log.samples is not None and log.samples[0].scores is not None
    log.samples[0].scores["toy_score"].value = 0.0
    write_eval_log(log, log.location)
    changed = into_store(logs, tmp_path=tmp_path)
    assert len(changed.written) == 1
    scores = open_store(tmp_path / "store").scores()
    assert sorted(scores["value"]) == [0.0, 1.0]


def test_a_copy_of_a_log_is_the_same_run(logs: Path, tmp_path: Path) -> None:
    copy = logs / f"copy-{the_log(logs).name}"
    copy.write_bytes(the_log(logs).read_bytes())
    into_store(logs, tmp_path=tmp_path)
    assert len(open_store(tmp_path / "store").runs()) == 1


BAD = {
    "empty.eval": b"",
    "cut.eval": b"PK\x03\x04 and then nothing",
    "text.eval": b"not a log",
    "2026-01-01T00-00-00_x_y.json": b'{"version": 2, "status": "succ',
    "2026-01-01T00-00-01_x_y.json": b'{"results": [1, 2, 3]}',
    "2026-01-01T00-00-02_x_y.json": b"[]",
    "2026-01-01T00-00-03_x_y.json": b"\xff\xfe\x00",
}


def test_damaged_logs_are_listed_and_the_rest_goes_on(logs: Path, tmp_path: Path) -> None:
    for name, content in BAD.items():
        (logs / name).write_bytes(content)
    with zipfile.ZipFile(logs / "foreign.eval", "w") as archive:
        archive.writestr("hello.txt", "no log")
    result = into_store(logs, tmp_path=tmp_path)
    assert result.written == [str(the_log_of(logs))]
    assert {Path(one.location).name for one in result.faults} == {*BAD, "foreign.eval"}
    for one in result.faults:
        assert "\n" not in one.cause and "Traceback" not in one.cause
        assert "cannot be read as an Inspect log" in one.cause


def the_log_of(folder: Path) -> Path:
    (path,) = folder.glob("*_toy_*.eval")
    return path


def test_a_log_of_another_package_is_left_out(tmp_path: Path) -> None:
    about = {key: value for key, value in metadata().items() if key != "propensity_version"}
    log = run(toy([sample("a")], about=about), log_dir=str(tmp_path / "logs"))
    (one,) = into_store(log.location, tmp_path=tmp_path).faults
    assert "cannot tell which package ran" in one.cause


def test_a_running_log_waits(logs: Path, tmp_path: Path) -> None:
    path = tmp_path / "2026-01-01T00-00-00_toy_running.json"
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(the_log(logs)))
    log.status = "started"
    write_eval_log(log, str(path))
    result = into_store(path, tmp_path=tmp_path)
    (one,) = result.left_out
    assert not one.fault and "still running" in one.cause
    assert result.found == 1 and result.written == []


def test_a_file_that_is_no_log_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x", encoding="utf-8")
    with pytest.raises(LogNotStored, match="neither .eval nor .json"):
        read_log(str(path))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_gets_past_the_list_of_causes(logs: Path, data: st.DataObject) -> None:
    content = bytearray(the_log_of(logs).read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    for _ in range(data.draw(st.integers(0, 5))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = logs / "damaged.eval"
    damaged.write_bytes(content)
    try:
        tables = read_log(str(damaged)).tables
    except LogNotStored as error:
        assert error.left_out.cause
    else:
        assert tables["runs"].num_rows == 1


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_odd_value_gets_past_the_list_of_causes(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "2026-01-01T00-00-00_toy_x.json"
    if not path.exists():
        log = run(toy([sample("a", 1.0, units=[{"unit_id": "u"}])]), log_format="json")
        path.write_text(Path(log.location).read_text(encoding="utf-8"), encoding="utf-8")
    document = json.loads(path.read_text(encoding="utf-8"))
    odd: st.SearchStrategy[object] = st.one_of(
        st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just({})
    )
    places = [
        (document["eval"]["metadata"], "factors"),
        (document["eval"]["metadata"], "keys"),
        (document["eval"]["metadata"], "task_comparability_version"),
        (document["eval"]["metadata"], "prompt_versions"),
        (document["eval"]["metadata"], "planned_units"),
        (document["samples"][0]["metadata"], "units"),
        (document["samples"][0]["metadata"], "variant"),
        (document["samples"][0]["metadata"], "value_max"),
        (document["samples"][0]["metadata"], "factors"),
        (document["samples"][0]["scores"]["toy_score"], "value"),
        (document["samples"][0]["scores"]["toy_score"], "metadata"),
    ]
    for where, name in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        where[name] = data.draw(odd)
    damaged = tmp_path / "damaged.json"
    damaged.write_text(json.dumps(document), encoding="utf-8")
    try:
        tables = read_log(str(damaged)).tables
    except LogNotStored as error:
        assert error.left_out.cause
    else:
        assert tables["samples"].num_rows == 1
