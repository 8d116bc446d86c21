#!/usr/local/bin/python3
"""Close the deployment and write the release report. Takes 5 minutes."""

import _client

_client.run("finish_deployment", __doc__)
