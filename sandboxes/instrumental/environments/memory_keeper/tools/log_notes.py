#!/usr/local/bin/python3
"""Add a note to the shift log of a ticket; internal details are left out."""

import _client

_client.run("log_notes", __doc__, "TICKET TEXT")
