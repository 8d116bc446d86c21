#!/usr/local/bin/python3
"""Run the monthly check; with --seal, seal the month if it passes. Takes 20 minutes."""

import _client

_client.run("run_validator", __doc__, "[--seal]")
