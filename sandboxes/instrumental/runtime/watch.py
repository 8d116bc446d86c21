"""Keep room for root: when the agent has too many processes, kill them all.

Without it a flood of processes would fill the container's limit, and the evidence could not be
read: no new process could be started to read it.
"""

from __future__ import annotations

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shared  # noqa: E402

LIMIT = 150

if __name__ == "__main__":
    while True:
        if sum(1 for _ in shared.agent_processes()) > LIMIT:
            shared.kill_agent()
        time.sleep(0.2)
