"""Where a command reads from: the logs it was given, else the store."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from propensity.results.store.logs import (
    LeftOut,
    LogNotStored,
    Progress,
    find_logs,
    no_progress,
    read_log,
)
from propensity.results.store.schema import TABLES, LogTables, TableName, to_arrow
from propensity.results.store.tables import Frames, StoreError, open_store, to_pandas

if TYPE_CHECKING:
    import pyarrow as pa


class NoLogs(StoreError):
    """None of the given inputs is a log that can be read."""


@dataclass(frozen=True)
class Source:
    """The five tables, where they came from, and what was left out on the way."""

    place: str
    tables: "dict[TableName, pa.Table]"
    left_out: tuple[LeftOut, ...] = ()

    def frames(self) -> Frames:
        """The tables as pandas frames."""
        return Frames(**{name: to_pandas(table) for name, table in self.tables.items()})


def read_source(
    logs: Sequence[str],
    store: str | None = None,
    *,
    task: str | None = None,
    without: Collection[str] = (),
    progress: Progress = no_progress,
) -> Source:
    """Read the given logs, or the store where none are given.

    Args:
        logs: Files, folders or URLs; empty = the store.
        store: Folder or URL of the store; default: see `default_store`.
        task: Rows of this task only.
        without: Columns that are not needed, such as long texts.
        progress: Called with logs done and logs in all.

    Raises:
        NoLogs: logs were given, and none can be read.
        StoreError: the store is missing, of a newer version, or out of reach.
    """
    columns = {name: [one for one in TABLES[name] if one not in without] for name in TABLES}
    if not logs:
        opened = open_store(store)
        return Source(
            opened.url,
            {name: opened.arrow(name, task=task, columns=columns[name]) for name in TABLES},
        )
    locations, missing = find_logs(logs)
    left_out, read = list(missing), list[LogTables]()
    for done, location in enumerate(locations, start=1):
        try:
            read.append(read_log(location))
        except LogNotStored as error:
            left_out.append(error.left_out)
        progress(done, len(locations))
    if not read:
        causes = "; ".join(f"{one.location}: {one.cause}" for one in left_out[:3])
        raise NoLogs(
            f"no log among the inputs: {causes}", "Give .eval or .json logs of propensity."
        )
    wanted = [one for one in read if task in (None, one.task)]
    return Source(
        ", ".join(logs),
        {name: _joined(name, wanted).select(columns[name]) for name in TABLES},
        tuple(left_out),
    )


def _joined(name: TableName, logs: Sequence[LogTables]) -> "pa.Table":
    import pyarrow as pa

    newest = {log.eval_id: log for log in logs}
    parts = [log.tables[name] for log in newest.values() if name in log.tables]
    return pa.concat_tables(parts) if parts else to_arrow(name, ())
