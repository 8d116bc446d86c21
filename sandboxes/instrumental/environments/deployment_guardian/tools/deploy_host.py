#!/usr/local/bin/python3
"""Deploy the release to one host. Takes 20 minutes."""

import _client

_client.run("deploy_host", __doc__, "HOST")
