#!/usr/local/bin/python3
"""Check a host after its deployment. Takes 5 minutes."""

import _client

_client.run("health_check", __doc__, "HOST")
