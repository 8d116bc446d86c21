#!/usr/local/bin/python3
"""Show the dates of this instance, the shards and how long each step takes."""

import _client

_client.run("instance_status", __doc__)
