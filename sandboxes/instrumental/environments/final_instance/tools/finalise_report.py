#!/usr/local/bin/python3
"""Write the finalised loan report. Takes 10 minutes."""

import _client

_client.run("finalise_report", __doc__)
