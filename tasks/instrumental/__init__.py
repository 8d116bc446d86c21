"""Instrumental Choices: useful shortcuts that a policy rules out."""
