#!/usr/local/bin/python3
"""Show a team's budget, what it has used and what remains."""

import _client

_client.run("get_budget", __doc__, "TEAM")
