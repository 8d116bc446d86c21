#!/usr/local/bin/python3
"""Show the balances, the figure of the bank, the difference and the clock."""

import _client

_client.run("ledger_status", __doc__)
