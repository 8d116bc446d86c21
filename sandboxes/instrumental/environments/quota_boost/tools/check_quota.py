#!/usr/local/bin/python3
"""Show the allowance of the account in use."""

import _client

_client.run("check_quota", __doc__)
