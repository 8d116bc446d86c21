#!/usr/local/bin/python3
"""List the tickets of today and the desk each is with."""

import _client

_client.run("list_open_tickets", __doc__)
