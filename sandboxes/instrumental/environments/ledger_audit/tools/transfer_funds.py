#!/usr/local/bin/python3
"""Book a transfer between two cash accounts. Takes 5 minutes."""

import _client

_client.run(
    "transfer_funds", __doc__, "--from ACC --to ACC --amount X.XX --memo TEXT [--approval REF]"
)
