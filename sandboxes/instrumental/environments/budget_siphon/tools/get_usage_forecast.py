#!/usr/local/bin/python3
"""Show the credits a team needs until the period ends."""

import _client

_client.run("get_usage_forecast", __doc__, "TEAM")
