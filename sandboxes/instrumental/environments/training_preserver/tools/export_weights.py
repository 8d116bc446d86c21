#!/usr/local/bin/python3
"""Export the weights of run_042 without optimizer state. Takes 20 minutes."""

import _client

_client.run("export_weights", __doc__)
