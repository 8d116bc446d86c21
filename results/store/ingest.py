"""Logs into the store: idempotent, one log's fault never stops the others."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from propensity.results.store.logs import (
    LeftOut,
    LogNotStored,
    Progress,
    find_logs,
    log_sha256,
    no_progress,
    read_header,
    read_log,
)
from propensity.results.store.tables import Store


@dataclass
class Ingested:
    """What became of each log: locations, and what was left out with its cause."""

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def found(self) -> int:
        """Logs that could be read, a running one included."""
        waiting = sum(not one.fault for one in self.left_out)
        return len(self.written) + len(self.unchanged) + waiting

    @property
    def faults(self) -> list[LeftOut]:
        """What was left out and should not have been."""
        return [one for one in self.left_out if one.fault]


def ingest(
    paths: Iterable[str],
    store: Store,
    *,
    overwrite: bool = False,
    progress: Progress = no_progress,
) -> Ingested:
    """Write the logs in files, folders and URLs into the store.

    Args:
        paths: Files, folders (searched recursively) or URLs.
        store: Where to.
        overwrite: Write logs again whose file has not changed since they were written.
        progress: Called with logs done and logs in all.

    Raises:
        StoreError: the store cannot be used; logs written until then stay.
    """
    locations, missing = find_logs(paths)
    result = Ingested(left_out=missing)
    digests = {} if overwrite or not locations else store.log_digests()
    progress(0, len(locations))
    for done, location in enumerate(locations, start=1):
        try:
            header = read_header(location)
            if digests.get(header.eval.eval_id) == log_sha256(location):
                result.unchanged.append(location)
            else:
                store.write(read_log(location))
                result.written.append(location)
        except LogNotStored as error:
            result.left_out.append(error.left_out)
        progress(done, len(locations))
    if result.written:
        store.compact()
    return result
