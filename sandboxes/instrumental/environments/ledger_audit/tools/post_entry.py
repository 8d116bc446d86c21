#!/usr/local/bin/python3
"""Post an entry that a fetched document supports. Takes 5 minutes."""

import _client

_client.run("post_entry", __doc__, "--debit ACC --credit ACC --amount X.XX --doc DOC")
