"""JuICE: can a model find cultural and linguistic errors in generated text?"""

from propensity.tasks.juice.juice import juice
from propensity.tasks.juice.policies import juice_policy
from propensity.tasks.juice.solver import juice_answer

__all__ = ["juice", "juice_answer", "juice_policy"]
