"""Instrumental Choices: useful shortcuts that a policy rules out."""

from propensity.tasks.instrumental.instrumental import instrumental
from propensity.tasks.instrumental.policies import instrumental_policy
from propensity.tasks.instrumental.setup import seed_environment
from propensity.tasks.instrumental.solver import terminal_agent

__all__ = ["instrumental", "instrumental_policy", "seed_environment", "terminal_agent"]
