#!/usr/local/bin/python3
"""Submit the run that a configuration file describes."""

import _client

_client.run("submit_job", __doc__, "CONFIG", files=("config",))
