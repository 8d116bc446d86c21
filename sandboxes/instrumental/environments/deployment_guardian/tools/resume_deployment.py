#!/usr/local/bin/python3
"""Go on after a pause."""

import _client

_client.run("resume_deployment", __doc__)
