"""Find logs, and read one into the Arrow tables of the store without holding it whole."""

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai.log import (
    EvalLog,
    EvalSample,
    list_eval_logs,
    read_eval_log,
    read_eval_log_sample_summaries,
    read_eval_log_samples_by_id,
)

from propensity.results.store.extract import LogFacts, Tally, run_row, sample_rows
from propensity.results.store.schema import FROM_LOGS, LogTables, TableName, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 64
"""Samples held in memory at once."""
NOT_STORED = {"events", "events_data", "timelines", "store"}
"""Fields of a sample that no column needs: not read."""
SUFFIXES = (".eval", ".json")


def _of_readers() -> Iterator[type[Exception]]:
    """Errors of the packages that Inspect reads logs with; it lets them through."""
    for module, name in (("ijson.common", "JSONError"), ("zstandard", "ZstdError")):
        with suppress(ImportError):
            yield getattr(import_module(module), name)


UNREADABLE: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    AttributeError,
    AssertionError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    *_of_readers(),
)
"""What a file raises that is cut off, damaged, or no log at all."""


Progress = Callable[[int, int], None]
"""Called with how many are done and how many there are."""


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LeftOut:
    """A log or path that gave no rows; `fault` is False where that is as it should be."""

    location: str
    cause: str
    fault: bool = True


class LogNotStored(ValueError):
    """A log gives no rows; the text says why."""

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__(f"{left_out.location}: {left_out.cause}")
        self.left_out = left_out


def find_logs(paths: Iterable[str]) -> tuple[list[str], list[LeftOut]]:
    """Resolve files, folders (searched recursively) and URLs to log locations.

    Returns:
        Locations without repeats, in the given order, and the paths that hold no log.
    """
    found: dict[str, None] = {}
    left_out: list[LeftOut] = []
    for path in paths:
        if "://" not in path and not Path(path).exists():
            left_out.append(LeftOut(path, "there is no such file or folder"))
        elif path.endswith(SUFFIXES) or ("://" not in path and Path(path).is_file()):
            found[_absolute(path)] = None
        else:
            try:
                logs = [_absolute(info.name) for info in list_eval_logs(path, descending=False)]
            except UNREADABLE as error:
                left_out.append(LeftOut(path, f"cannot be listed: {first_line(error)}"))
                continue
            found |= dict.fromkeys(logs)
            if not logs:
                left_out.append(LeftOut(path, "no log in this folder"))
    return list(found), left_out


def read_header(location: str) -> EvalLog:
    """Read a log's header and check that the log belongs in the store.

    Raises:
        LogNotStored: unreadable, of another tool or package, or still running.
    """
    if not location.endswith(SUFFIXES):
        raise LogNotStored(LeftOut(location, "not a log: neither .eval nor .json"))
    try:
        log = read_eval_log(location, header_only=True)
    except UNREADABLE as error:
        cause = f"cannot be read as an Inspect log: {first_line(error)}"
        raise LogNotStored(LeftOut(location, cause)) from error
    if not (log.eval.metadata or {}).get("propensity_version"):
        cause = (
            f"{log.eval.task_registry_name or log.eval.task}: cannot tell which package ran; "
            "no propensity_version in the log's metadata"
        )
        raise LogNotStored(LeftOut(location, cause))
    if log.status == "started":
        cause = "still running, or was killed: ingest it when it has ended (inspect eval-retry)"
        raise LogNotStored(LeftOut(location, cause, fault=False))
    return log


def read_log(location: str) -> LogTables:
    """Read one finished log into its rows of `runs`, `samples`, `units` and `scores`.

    Raises:
        LogNotStored: as `read_header`, or a sample cannot be read or stored.
    """
    log = read_header(location)
    facts, tally = LogFacts.of(log), Tally()
    chunks: dict[TableName, list[pa.Table]] = {table: [] for table in FROM_LOGS}
    try:
        for batch in _batches(log, location):
            rows = [sample_rows(facts, sample) for sample in batch]
            for one in rows:
                tally.add(one)
            chunks["samples"].append(to_arrow("samples", (one.sample for one in rows)))
            chunks["units"].append(to_arrow("units", (u for one in rows for u in one.units)))
            chunks["scores"].append(to_arrow("scores", (s for one in rows for s in one.scores)))
        row = run_row(log, facts, tally) | {
            "log_location": location,
            "log_sha256": log_sha256(location),
            "ingested": datetime.now(UTC),
        }
        chunks["runs"].append(to_arrow("runs", [row]))
        tables = {name: _concatenated(name, parts) for name, parts in chunks.items()}
        _check_unique(tables["units"])
    except UNREADABLE as error:
        raise LogNotStored(LeftOut(location, first_line(error))) from error
    return LogTables(facts.eval_id, facts.identity.task, tables)


def log_sha256(location: str) -> str:
    """SHA-256 of a log file's bytes, local or remote."""
    import fsspec

    digest = hashlib.sha256()
    with fsspec.open(location, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error, with its type where the text alone says little."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if isinstance(error, LogNotStored) or len(text) > 40:
        return text[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _batches(log: EvalLog, location: str) -> Iterator[Sequence[EvalSample]]:
    if location.endswith(".json"):
        # A JSON log is one document: reading it by sample would parse it once for each.
        samples = read_eval_log(location, resolve_attachments="core").samples or []
        yield from (samples[start : start + BATCH] for start in range(0, len(samples), BATCH))
        return
    found = read_eval_log_sample_summaries(location)
    wanted = [(summary.id, summary.epoch) for summary in found]
    for start in range(0, len(wanted), BATCH):
        yield read_eval_log_samples_by_id(
            location,
            wanted[start : start + BATCH],
            resolve_attachments="core",
            exclude_fields=NOT_STORED,
        )


def _concatenated(name: TableName, parts: "list[pa.Table]") -> "pa.Table":
    import pyarrow as pa

    return pa.concat_tables(parts) if parts else to_arrow(name, ())


def _check_unique(units: "pa.Table") -> None:
    counts = units.group_by(["unit_id", "epoch"]).aggregate([([], "count_all")]).to_pylist()
    twice = [row for row in counts if row["count_all"] > 1]
    if twice:
        raise ValueError(
            f"unit {twice[0]['unit_id']} epoch {twice[0]['epoch']} stands in the log "
            f"{twice[0]['count_all']} times"
        )


def _absolute(path: str) -> str:
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    return path if "://" in path else str(Path(path).resolve())
