"""The results store: five Delta tables in a folder or behind an object-store URL."""

import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from propensity.results.store.schema import (
    FROM_LOGS,
    PARTITIONS,
    SCHEMA_PROPERTY,
    SCHEMA_VERSION,
    TABLES,
    LogTables,
    Row,
    TableName,
    arrow_schema,
    to_arrow,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from deltalake import DeltaTable

STORE_VARIABLE = "PROPENSITY_STORE"
STORE_FOLDER = "results-store"
MANY_FILES = 500
ATTEMPTS = 30
"""Tries of one commit against other writers."""
LONGEST_WAIT = 2.0
"""Longest pause between two tries, in seconds."""
PATIENT = {"timeout": "60s", "connect_timeout": "10s"}
HURRIED = {
    "timeout": "10s",
    "connect_timeout": "3s",
    "max_retries": "1",
    "retry_timeout": "10s",
}
"""Object-store options of a writer that nobody waits for, such as the hook."""
ResultT = TypeVar("ResultT")


class StoreError(RuntimeError):
    """The store cannot be used; `fix` says what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class StoreMissing(StoreError):
    """There is no store at this place."""


class StoreTooNew(StoreError):
    """A newer version of propensity wrote this store."""


class StoreUnreachable(StoreError):
    """The place of the store cannot be read or written."""


@dataclass(frozen=True)
class Frames:
    """The store's tables as pandas frames, runs that are not complete left out."""

    runs: "pd.DataFrame"
    samples: "pd.DataFrame"
    units: "pd.DataFrame"
    scores: "pd.DataFrame"
    labels: "pd.DataFrame"


def is_remote(place: str) -> bool:
    """Whether a place is an object-store URL and not a local path."""
    return "://" in place and not place.startswith("file://")


def default_store(log_dir: str | None = None) -> str | None:
    """The store that goes with a log folder.

    Args:
        log_dir: Folder of the logs; default `INSPECT_LOG_DIR`, else `logs`.

    Returns:
        `PROPENSITY_STORE` if set; else `results-store` beside the log folder; None where
        the log folder is remote, or `PROPENSITY_STORE` is empty.
    """
    given = os.environ.get(STORE_VARIABLE)
    if given is not None:
        return given or None
    folder = (log_dir or os.environ.get("INSPECT_LOG_DIR") or "logs").removeprefix("file://")
    if is_remote(folder):
        return None
    return str(Path(folder).absolute().parent / STORE_FOLDER)


def open_store(url: str | Path | None = None, *, hurried: bool = False) -> "Store":
    """Open the results store; nothing is read or created yet.

    Args:
        url: Folder or object-store URL; default: see `default_store`.
        hurried: Give up early when the place does not answer.

    Raises:
        StoreMissing: no place is given and none follows from the environment.
    """
    place = str(url) if url else default_store()
    if place is None:
        raise StoreMissing(
            "no results store is set", f"Set {STORE_VARIABLE}, or give --store a folder or URL."
        )
    return Store(place, hurried=hurried)


class Store:
    """Reads and writes the tables of one store."""

    def __init__(self, url: str, *, hurried: bool = False) -> None:
        local = url.removeprefix("file://")
        self.url = url.rstrip("/") if is_remote(url) else str(Path(local).expanduser().absolute())
        self.options: dict[str, str] | None = None
        if is_remote(url):
            self.options = dict(HURRIED if hurried else PATIENT)
            if url.startswith(("s3://", "s3a://")):
                self.options["conditional_put"] = "etag"

    def runs(self) -> "pd.DataFrame":
        """One row per log."""
        return self.frame("runs")

    def samples(self) -> "pd.DataFrame":
        """One row per sample and epoch."""
        return self.frame("samples")

    def units(self) -> "pd.DataFrame":
        """One row per unit and epoch."""
        return self.frame("units")

    def scores(self) -> "pd.DataFrame":
        """One row per unit and key."""
        return self.frame("scores")

    def labels(self) -> "pd.DataFrame":
        """One row per human label."""
        return self.frame("labels")

    def frame(
        self,
        table: TableName,
        *,
        task: str | None = None,
        eval_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> "pd.DataFrame":
        """Read a table, without the rows of runs that were not written to the end.

        Args:
            table: Its name.
            task: Rows of this task only.
            eval_ids: Rows of these logs only.
            columns: These columns only.

        Raises:
            StoreError: no store here, one of a newer version, or out of reach.
        """
        return to_pandas(self.arrow(table, task=task, eval_ids=eval_ids, columns=columns))

    def arrow(
        self,
        table: TableName,
        *,
        task: str | None = None,
        eval_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> "pa.Table":
        """As `frame`, as an Arrow table."""
        if table in ("samples", "units", "scores"):
            complete = self._read("runs", task, eval_ids, ["eval_id"])
            eval_ids = complete["eval_id"].to_pylist()
        return self._read(table, task, eval_ids, columns)

    def read(self, task: str | None = None) -> Frames:
        """All tables, of one task or of all."""
        runs = self.frame("runs", task=task)
        return Frames(
            runs=runs,
            labels=self.frame("labels", task=task),
            **{
                table: to_pandas(self._read(table, task, runs["eval_id"].tolist(), None))
                for table in ("samples", "units", "scores")
            },
        )

    def log_digests(self) -> dict[str, str]:
        """`eval_id` → SHA-256 of the log for every complete run; empty without a store."""
        try:
            found = self._read("runs", None, None, ["eval_id", "log_sha256"]).to_pylist()
        except StoreMissing:
            return {}
        return {row["eval_id"]: row["log_sha256"] for row in found}

    def write(self, log: LogTables) -> None:
        """Put one log's rows in the place of those of an earlier writing; `runs` last.

        An earlier row in `runs` goes first, so that a reader never sees a half-replaced run.

        Raises:
            StoreError: of a newer version, out of reach, or too many writers at once.
        """
        predicate = f"eval_id = '{_quoted(log.eval_id)}'"
        self._commit("runs", lambda table: table.delete(predicate))
        for name in FROM_LOGS:
            where = predicate
            if PARTITIONS.get(name):
                where = f"task = '{_quoted(log.task)}' AND {predicate}"
            self._replace(name, log.tables[name], where)

    def append_labels(self, rows: Sequence[Row]) -> None:
        """Add human labels.

        Raises:
            StoreError: of a newer version, out of reach, or too many writers at once.
        """
        from deltalake import write_deltalake

        data = to_arrow("labels", rows)
        self._commit("labels", lambda table: write_deltalake(table, data, mode="append"))

    def compact(self, files: int = MANY_FILES) -> None:
        """Join the small files of tables that have grown to more than `files` of them."""
        for name in TABLES:
            try:
                table = self._open(name, create=False)
            except StoreMissing:
                continue
            if len(table.file_uris()) > files:
                self._commit(name, lambda delta: delta.optimize.compact())

    def _read(
        self,
        table: TableName,
        task: str | None,
        eval_ids: Sequence[str] | None,
        columns: Sequence[str] | None,
    ) -> "pa.Table":
        filters: list[tuple[str, str, Any]] = []
        names = list(columns or TABLES[table])
        if task is not None:
            filters.append(("task", "=", task))
        if eval_ids is not None:
            if not eval_ids:
                return to_arrow(table, ()).select(names)
            filters.append(("eval_id", "in", list(eval_ids)))
        try:
            delta = self._open(table, create=False)
        except StoreMissing:
            if table == "labels":
                return to_arrow(table, ()).select(names)
            raise
        return self._reached(lambda: delta.to_pyarrow_table(columns=names, filters=filters or None))

    def _replace(self, name: TableName, data: "pa.Table", predicate: str) -> None:
        from deltalake import write_deltalake

        self._commit(
            name,
            lambda table: write_deltalake(table, data, mode="overwrite", predicate=predicate),
        )

    def _commit(self, name: TableName, write: "Callable[[DeltaTable], object]") -> None:
        """Write, again from the newest version when another writer was faster."""
        from deltalake.exceptions import CommitFailedError

        for attempt in range(ATTEMPTS):
            table = self._open(name, create=True)
            try:
                self._reached(lambda: write(table))  # noqa: B023 - called before the next turn
                return
            except CommitFailedError:
                time.sleep(random.uniform(0, min(LONGEST_WAIT, 0.05 * 2**attempt)))
        raise StoreUnreachable(
            f"{self.url}/{name}: {ATTEMPTS} commits in a row lost against other writers",
            "Write again later: propensity ingest LOGS",
        )

    def _open(self, name: TableName, *, create: bool) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        place = f"{self.url}/{name}"
        try:
            table = self._reached(lambda: DeltaTable(place, storage_options=self.options))
        except TableNotFoundError as error:
            if not create:
                raise StoreMissing(
                    f"there is no results store at {self.url}",
                    "Fill it with propensity ingest LOGS, or name another with --store.",
                ) from error
            table = self._make(name, place)
        self._check_version(table.metadata().configuration)
        return table

    def _make(self, name: TableName, place: str) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if not is_remote(self.url):
            self._reached(lambda: Path(place).mkdir(parents=True, exist_ok=True))
        try:
            return self._reached(
                lambda: DeltaTable.create(
                    place,
                    arrow_schema(name),
                    mode="ignore",
                    partition_by=PARTITIONS.get(name),
                    name=name,
                    configuration={SCHEMA_PROPERTY: str(SCHEMA_VERSION)},
                    storage_options=self.options,
                    raise_if_key_not_exists=False,
                )
            )
        except DeltaError:
            # Another writer made the table first.
            return self._reached(lambda: DeltaTable(place, storage_options=self.options))

    def _check_version(self, configuration: Mapping[str, str]) -> None:
        found = configuration.get(SCHEMA_PROPERTY, "")
        if not found.isdigit():
            raise StoreTooNew(
                f"{self.url} holds Delta tables that are no results store of propensity",
                "Name another place with --store.",
            )
        if int(found) > SCHEMA_VERSION:
            raise StoreTooNew(
                f"{self.url} has schema {found}; this version of propensity knows up to "
                f"{SCHEMA_VERSION}",
                "Update propensity, or name another store with --store.",
            )

    def _reached(self, call: Callable[[], ResultT]) -> ResultT:
        from deltalake.exceptions import DeltaProtocolError

        try:
            return call()
        except OSError as error:
            raise StoreUnreachable(
                f"the results store {self.url} cannot be reached: {_shortened(error)}",
                "Check the address, its access rights and the network; then: "
                "propensity ingest LOGS",
            ) from error
        except DeltaProtocolError as error:
            raise StoreTooNew(
                f"{self.url}: {_shortened(error)}", "Update propensity and its package deltalake."
            ) from error


def to_pandas(table: "pa.Table") -> "pd.DataFrame":
    """Convert without losing what is missing: integers stay integers (`Int64`, `<NA>`)."""
    import pandas as pd
    import pyarrow as pa

    frame: pd.DataFrame = table.to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype()}.get, date_as_object=False
    )
    return frame


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _shortened(error: BaseException) -> str:
    """An object-store error in one line: its first and its last cause, colours removed."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip(" ↳\t") for line in plain.splitlines() if line.strip(" ↳\t")]
    parts = list(dict.fromkeys([lines[0], lines[-1]])) if lines else [type(error).__name__]
    return " - ".join(parts)[:300]
