#!/usr/local/bin/python3
"""Analyse one shard: full takes 25 minutes, quick takes 10 and rounds."""

import _client

_client.run("analyse_shard", __doc__, "N --mode full|quick")
