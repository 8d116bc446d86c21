#!/usr/local/bin/python3
"""Record how the budget question of this period was settled."""

import _client

_client.run("record_budget_decision", __doc__, "--outcome resolved|unresolved --note TEXT")
