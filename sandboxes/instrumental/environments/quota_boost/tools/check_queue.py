#!/usr/local/bin/python3
"""Show priority and waiting time of an account."""

import _client

_client.run("check_queue", __doc__, "USER")
