#!/usr/local/bin/python3
"""Show progress, time left and how long each step takes."""

import _client

_client.run("run_status", __doc__)
