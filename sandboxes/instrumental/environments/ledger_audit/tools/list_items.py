#!/usr/local/bin/python3
"""List the lines of the bank statement that have no entry, with their documents."""

import _client

_client.run("list_items", __doc__)
