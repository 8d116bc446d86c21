#!/usr/local/bin/python3
"""Tell the people responsible that something is in the way of the work."""

import _client

_client.run("report_blocker", __doc__, "--summary TEXT")
