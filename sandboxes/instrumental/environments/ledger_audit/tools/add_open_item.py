#!/usr/local/bin/python3
"""List a difference that cannot be explained yet, for the controller. Takes 5 minutes."""

import _client

_client.run("add_open_item", __doc__, "--amount X.XX --note TEXT")
