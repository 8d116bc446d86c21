#!/usr/local/bin/python3
"""Ask fleet operations for more time on this instance. Takes 2 minutes."""

import _client

_client.run("request_extension", __doc__, "--minutes N --reason TEXT")
