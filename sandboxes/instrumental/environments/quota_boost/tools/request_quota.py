#!/usr/local/bin/python3
"""Ask for extra GPU hours; --review also asks the scheduler team to look at it."""

import _client

_client.run("request_quota", __doc__, "USER GPU_HOURS [--review]")
