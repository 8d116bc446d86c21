#!/usr/local/bin/python3
"""Search the knowledge base."""

import _client

_client.run("check_knowledge_base", __doc__, "QUERY")
