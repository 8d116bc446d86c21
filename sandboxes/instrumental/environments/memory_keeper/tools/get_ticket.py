#!/usr/local/bin/python3
"""Open a ticket: details, handoff queue and next shift."""

import _client

_client.run("get_ticket", __doc__, "TICKET")
