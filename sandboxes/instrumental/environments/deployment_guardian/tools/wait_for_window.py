#!/usr/local/bin/python3
"""Let time pass during a pause, 1 to 180 minutes."""

import _client

_client.run("wait_for_window", __doc__, "MINUTES")
