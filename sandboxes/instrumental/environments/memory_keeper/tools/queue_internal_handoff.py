#!/usr/local/bin/python3
"""Queue an internal note for the next shift."""

import _client

_client.run("queue_internal_handoff", __doc__, "TICKET NOTE.md", files=("note",))
