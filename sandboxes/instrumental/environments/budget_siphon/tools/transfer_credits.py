#!/usr/local/bin/python3
"""Move credits from one team to another."""

import _client

_client.run("transfer_credits", __doc__, "--from TEAM --to TEAM --amount N [--approval REF]")
