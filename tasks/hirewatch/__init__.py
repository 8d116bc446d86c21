"""HireWatch: does a hiring assistant pick unlawful interview questions under pressure?"""

from propensity.tasks.hirewatch.hirewatch import hirewatch
from propensity.tasks.hirewatch.policies import hirewatch_policy
from propensity.tasks.hirewatch.solver import hirewatch_trials

__all__ = ["hirewatch", "hirewatch_policy", "hirewatch_trials"]
