"""The store: idempotent, whole runs only, and several writers at once."""

import multiprocessing
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable

from propensity.results.store import (
    Store,
    StoreMissing,
    StoreTooNew,
    StoreUnreachable,
    default_store,
    open_store,
)
from propensity.results.store.logs import read_log
from propensity.results.store.schema import TABLES, to_arrow
from tests.results.toys import NAN, sample, toy
from tests.results.writers import made, write_many
from tests.support import run

LOG_TABLES = ("runs", "samples", "units", "scores")


def counts(store: Store) -> dict[str, int]:
    return {name: len(store.frame(name)) for name in LOG_TABLES}  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store")


def test_writing_twice_is_writing_once(store: Store) -> None:
    for _ in range(2):
        store.write(made("e1"))
        store.write(made("e2"))
    assert counts(store) == {"runs": 2, "samples": 6, "units": 6, "scores": 6}


def test_a_changed_run_replaces_its_rows_only(store: Store) -> None:
    store.write(made("e1"))
    store.write(made("e2"))
    store.write(made("e1", value=0.0, units=2))
    scores = store.scores()
    assert scores[scores.eval_id == "e1"]["value"].tolist() == [0.0, 0.0]
    assert scores[scores.eval_id == "e2"]["value"].tolist() == [1.0] * 3


def test_a_run_without_its_row_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(made("e1"))
    whole = Store._replace

    def breaks_before_runs(self: Store, name: str, *rest: object) -> None:
        if name == "runs":
            raise KeyboardInterrupt
        whole(self, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "_replace", breaks_before_runs)
    for log in (made("e2"), made("e1", value=0.0)):
        with pytest.raises(KeyboardInterrupt):
            store.write(log)
    assert counts(store) == dict.fromkeys(LOG_TABLES, 0)
    monkeypatch.undo()
    store.write(made("e2"))
    assert counts(store) == {"runs": 1, "samples": 3, "units": 3, "scores": 3}


def test_units_and_scores_are_partitioned_by_task(store: Store) -> None:
    store.write(made("e1", task="a"))
    store.write(made("e2", task="b's"))
    for table in ("units", "scores"):
        assert {path.name for path in Path(store.url, table).glob("task=*")} >= {"task=a"}
        partitions = DeltaTable(f"{store.url}/{table}").metadata().partition_columns
        assert partitions == ["task"]
    assert len(store.frame("scores", task="b's")) == 3
    assert len(store.frame("scores", task="none")) == 0
    assert set(store.read("a").units["task"]) == {"a"}


def test_every_table_carries_the_schema_version(store: Store) -> None:
    store.write(made("e1"))
    store.append_labels([{"task": "toy", "item_id": "i", "created": datetime.now(UTC)}])
    for table in TABLES:
        configuration = DeltaTable(f"{store.url}/{table}").metadata().configuration
        assert configuration["propensity.schema"] == "1"


def test_a_newer_store_is_not_touched(store: Store) -> None:
    store.write(made("e1"))
    table = DeltaTable(f"{store.url}/runs")
    table.alter.set_table_properties({"propensity.schema": "2"}, raise_if_not_exists=False)
    with pytest.raises(StoreTooNew, match="schema 2; this version of propensity knows up to 1"):
        store.runs()
    with pytest.raises(StoreTooNew):
        store.write(made("e2"))


def test_foreign_delta_tables_are_not_touched(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(f"{tmp_path}/runs", to_arrow("labels", [{"task": "x"}]))
    with pytest.raises(StoreTooNew, match="no results store"):
        open_store(tmp_path).write(made("e1"))


def test_there_is_no_store_until_something_is_written(store: Store) -> None:
    for table in LOG_TABLES:
        with pytest.raises(StoreMissing, match="there is no results store at"):
            store.frame(table)  # type: ignore[arg-type]
    assert store.log_digests() == {}
    assert not Path(store.url).exists()
    assert store.labels().empty


def test_a_place_that_cannot_be_a_folder_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        open_store(tmp_path / "file" / "store").write(made("e1"))


def test_labels_are_kept(store: Store) -> None:
    label = {"task": "toy", "item_id": "i1", "key": "hit", "annotator": "h1", "label_value": 1.0}
    store.append_labels([label])
    store.append_labels([label | {"annotator": "h2", "stratum_size": 40}])
    labels = store.labels().sort_values("annotator")
    assert labels["annotator"].tolist() == ["h1", "h2"]
    assert labels["stratum_size"].isna().tolist() == [True, False]


def test_small_files_are_joined_without_losing_a_row(store: Store) -> None:
    for number in range(4):
        store.write(made(f"e{number}"))
    store.compact(files=3)
    assert len(DeltaTable(f"{store.url}/scores").file_uris()) == 1
    assert counts(store) == {"runs": 4, "samples": 12, "units": 12, "scores": 12}
    store.write(made("e1", value=0.5))
    scores = store.scores()
    assert len(scores) == 12
    assert set(scores[scores.eval_id == "e1"]["value"]) == {0.5}


def test_what_is_missing_survives_the_way_to_pandas(store: Store) -> None:
    log = run(
        toy([sample("a", {"hit": 1.0, "no": NAN}), sample("b", ValueError("x"), value_max=2)]),
        fail_on_error=False,
    )
    store.write(read_log(log.location))
    frames = store.read()
    assert frames.runs["planned"].dtype == pd.Int64Dtype()
    assert frames.samples["error_type"].isna().tolist().count(True) == 1
    assert frames.samples["retries"].dtype == pd.Int64Dtype()
    assert frames.units["value_max"].isna().tolist().count(True) == 1
    assert frames.scores["numerator"].isna().all()
    assert frames.runs["cost_usd"].isna().all()
    assert str(frames.runs["ingested"].dt.tz) == "UTC"
    assert frames.runs["tags"].iloc[0].tolist() == ["propensity", "toy"]
    for name in TABLES:
        assert list(getattr(frames, name).columns) == list(TABLES[name])


@pytest.mark.slow
def test_many_writers_lose_nothing_and_double_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    monkeypatch.syspath_prepend(str(repository))
    writers, runs = 8, 20
    spawn = multiprocessing.get_context("spawn")
    started = [
        spawn.Process(target=write_many, args=(store.url, one, runs)) for one in range(writers)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(timeout=280)
    assert [process.exitcode for process in started] == [0] * writers
    logs = writers * runs + 1
    assert counts(store) == {"runs": logs, "samples": 3 * logs, "units": 3 * logs,
                             "scores": 3 * logs}  # fmt: skip
    assert store.runs()["eval_id"].is_unique
    keys = store.scores()[["eval_id", "unit_id", "key"]]
    assert not keys.duplicated().any()


def test_the_store_stands_beside_the_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_store() == str(tmp_path / "results-store")
    monkeypatch.delenv("PROPENSITY_STORE")
    assert default_store("/data/run/logs") == "/data/run/results-store"
    assert default_store("file:///data/run/logs") == "/data/run/results-store"
    assert default_store() == str(tmp_path / "results-store")
    monkeypatch.delenv("INSPECT_LOG_DIR")
    monkeypatch.chdir(tmp_path)
    assert default_store() == str(tmp_path / "results-store")
    assert default_store("s3://bucket/logs") is None
    monkeypatch.setenv("PROPENSITY_STORE", "")
    assert default_store("/data/run/logs") is None
    with pytest.raises(StoreMissing, match="no results store is set"):
        open_store()


def test_a_moved_store_is_the_same_store(store: Store, tmp_path: Path) -> None:
    store.write(made("e1"))
    shutil.move(store.url, tmp_path / "moved")
    assert len(open_store(f"file://{tmp_path}/moved/").runs()) == 1
