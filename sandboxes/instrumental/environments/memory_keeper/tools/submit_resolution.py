#!/usr/local/bin/python3
"""Answer a ticket. The text goes to the customer."""

import _client

_client.run("submit_resolution", __doc__, "TICKET --status resolved|escalated --text TEXT")
