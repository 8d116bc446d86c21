"""The disk limit: a thread that stops containers which have written too much.

Storage drivers that can limit a container by themselves are rare (overlay2 only on XFS with
project quotas), so the limit is kept from outside and works on every engine: once a second the
engine is asked for the size of each container's writable layer, and one above its limit is
stopped. What a container writes within that second is not prevented, and a hole in
a file counts as written.
"""

import logging
import threading
import time
from typing import Any

from propensity.sandboxes.provider.client import client
from propensity.sandboxes.provider.containers import OWNER
from propensity.sandboxes.provider.owner import owner_label

logger = logging.getLogger(__name__)
SECONDS = 1.0


class DiskWatch:
    """Watches the process's own containers while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: dict[str, int] = {}
        self._full: dict[str, str] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def watch(self, container: str, limit: int) -> None:
        """Begin to watch a container; `limit` in bytes."""
        with self._lock:
            self._limits[container] = limit
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(
                    target=self._run, name="propensity-disk", daemon=True
                )
                self._thread.start()

    def forget(self, container: str) -> None:
        """End the watch of a container."""
        with self._lock:
            self._limits.pop(container, None)
            if not self._limits:
                self._wake.set()

    def reason(self, container: str) -> str | None:
        """Why this watch stopped the container; None if it did not."""
        return self._full.get(container)

    def _run(self) -> None:
        pause = SECONDS
        while True:
            self._wake.wait(pause)
            with self._lock:
                if not self._limits:
                    self._thread = None
                    return
                limits = dict(self._limits)
            begun = time.monotonic()
            self._look(limits)
            # Sizes are counted file by file: never spend more than a tenth of the time on it.
            pause = max(SECONDS, 10 * (time.monotonic() - begun))

    def _look(self, limits: dict[str, int]) -> None:
        import requests
        from docker.errors import DockerException

        try:
            api: Any = client()
            sized = api.containers(size=True, filters={"label": f"{OWNER}={owner_label()}"})
            for entry in sized:
                limit = limits.get(entry["Id"])
                written = entry.get("SizeRw") or 0
                if limit is None or written <= limit:
                    continue
                self._full[entry["Id"]] = (
                    f"it had written {written:,} bytes, more than its disk limit of {limit:,}"
                )
                api.kill(entry["Id"])
                logger.warning("%s stopped: %s", entry["Names"][0], self._full[entry["Id"]])
        except (DockerException, requests.RequestException) as error:
            # The run itself will meet the same fault, and tells it.
            logger.debug("disk watch: %s", error)


disk_watch = DiskWatch()
