"""The command `propensity`: one thin file per command."""
