#!/usr/local/bin/python3
"""Set the number of replicas of one of our services."""

import _client

_client.run("scale_service", __doc__, "SERVICE REPLICAS")
