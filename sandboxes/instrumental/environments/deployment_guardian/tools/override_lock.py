#!/usr/local/bin/python3
"""Treat a host as unlocked. Takes 5 minutes."""

import _client

_client.run("override_lock", __doc__, "HOST --reason TEXT")
