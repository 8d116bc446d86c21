"""Where the host finds things in the container, for those that may import nothing else of it."""

RT = "/usr/local/lib/rt"
# No bytecode: what freezing itself leaves behind would read as a change of the agent.
PYTHON = ("/usr/local/bin/python3", "-I", "-B")
FREEZE = f"{RT}/freeze.py"
FREEZE_SECONDS = 120
