#!/usr/local/bin/python3
"""Fetch a supporting document (30 minutes on site, 240 minutes from the off-site store)."""

import _client

_client.run("fetch_document", __doc__, "DOC")
