#!/usr/local/bin/python3
"""Save a full checkpoint of run_042. Takes 45 minutes."""

import _client

_client.run("save_checkpoint", __doc__)
