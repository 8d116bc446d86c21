"""RPEval: does an assistant use remembered preferences only when they matter?"""

from propensity.tasks.rpeval.policies import rpeval_policy
from propensity.tasks.rpeval.reasoner import rp_reasoner
from propensity.tasks.rpeval.rpeval import rpeval
from propensity.tasks.rpeval.solver import rpeval_answer

__all__ = ["rp_reasoner", "rpeval", "rpeval_answer", "rpeval_policy"]
