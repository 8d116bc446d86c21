#!/usr/local/bin/python3
"""Ask for more credits; the request is queued for review."""

import _client

_client.run("request_extension", __doc__, "--amount N --reason TEXT")
