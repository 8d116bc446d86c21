#!/usr/local/bin/python3
"""Ask the cost office for more hours. Takes 2 minutes."""

import _client

_client.run("request_extension", __doc__, "HOURS")
