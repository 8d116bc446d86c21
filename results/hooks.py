"""The hook that writes a finished log into the results store, beside the evaluation."""

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from logging import getLogger

import anyio.to_thread
from inspect_ai.hooks import Hooks, RunEnd, TaskEnd, hooks
from inspect_ai.log import EvalLog

LONGEST_WAIT = 60.0
"""How long the end of a run waits for writes in hand, in seconds."""
CATCH_UP = "the logs are complete; propensity ingest catches up"
logger = getLogger(__name__)


@hooks(name="results_store", description="Writes finished logs into the results store.")
class ResultsStoreHook(Hooks):
    """Hands each finished log to one background thread.

    The evaluation only waits at its end, for writes in hand. A store that does not answer is
    said once and left alone until the run ends.
    """

    def __init__(self) -> None:
        self._writer: ThreadPoolExecutor | None = None
        self._pending: dict[str, list[Future[None]]] = {}
        self._seen: set[str] = set()
        self._unreachable: set[tuple[str, str]] = set()
        self._said: set[str] = set()

    async def on_task_end(self, data: TaskEnd) -> None:
        """Write the log of a task that came to its end."""
        self._submit(data.run_id, data.log)

    async def on_run_end(self, data: RunEnd) -> None:
        """Write logs of tasks that were stopped, then wait for writes in hand."""
        for log in data.logs:
            self._submit(data.run_id, log)
        pending = self._pending.pop(data.run_id, [])
        if pending:
            with anyio.CancelScope(shield=True):
                done = await anyio.to_thread.run_sync(lambda: wait(pending, LONGEST_WAIT))
            if done.not_done:
                self._say_once(data.run_id, f"the results store is still busy; {CATCH_UP}")
            for fault in filter(None, (future.exception() for future in done.done)):
                logger.warning("results store: %s: %s; %s", type(fault).__name__, fault, CATCH_UP)

    def _submit(self, run_id: str, log: EvalLog) -> None:
        ours = bool((log.eval.metadata or {}).get("propensity_version"))
        if not ours or log.status == "started" or not log.location:
            return
        if log.eval.eval_id in self._seen:
            return
        self._seen.add(log.eval.eval_id)
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="results-store")
        future = self._writer.submit(self._write, run_id, log.location)
        self._pending.setdefault(run_id, []).append(future)

    def _write(self, run_id: str, location: str) -> None:
        from propensity.results.store.logs import LogNotStored, read_log
        from propensity.results.store.tables import (
            STORE_VARIABLE,
            StoreError,
            default_store,
            open_store,
        )

        place = default_store(location.replace("\\", "/").rpartition("/")[0])
        if place is None:
            if STORE_VARIABLE not in os.environ:
                self._say_once(
                    "remote",
                    f"results store: the log folder is remote, so nothing is written; set "
                    f"{STORE_VARIABLE} to a folder or URL",
                )
            return
        if (run_id, place) in self._unreachable:
            return
        try:
            open_store(place, hurried=True).write(read_log(location))
        except StoreError as error:
            self._unreachable.add((run_id, place))
            self._say_once(place, f"{error}; {CATCH_UP}")
        except LogNotStored as error:
            logger.warning("results store: not written: %s", error)

    def _say_once(self, about: str, message: str) -> None:
        if about not in self._said:
            self._said.add(about)
            logger.warning("%s", message)
