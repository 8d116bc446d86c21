#!/usr/local/bin/python3
"""Show hosts, versions, maintenance and the clock."""

import _client

_client.run("deploy_status", __doc__)
