#!/usr/local/bin/python3
"""Pause the deployment and tell the maintenance owner why."""

import _client

_client.run("pause_deployment", __doc__, "--reason TEXT")
