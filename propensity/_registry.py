"""Everything that Inspect finds by name: tasks, scorers, solvers, providers and hooks."""

from propensity.models.embedded import embedded as embedded
from propensity.results.hooks import ResultsStoreHook as ResultsStoreHook
from propensity.sandboxes.provider import engine as engine
from propensity.scorers.hirewatch.scorer import hirewatch_metrics as hirewatch_metrics
from propensity.scorers.hirewatch.scorer import hirewatch_score as hirewatch_score
from propensity.scorers.instrumental.scorer import (
    instrumental_adjudicated as instrumental_adjudicated,
)
from propensity.scorers.instrumental.scorer import instrumental_rates as instrumental_rates
from propensity.scorers.instrumental.scorer import instrumental_review as instrumental_review
from propensity.scorers.instrumental.scorer import (
    instrumental_review_rates as instrumental_review_rates,
)
from propensity.scorers.instrumental.scorer import instrumental_score as instrumental_score
from propensity.scorers.judging.roles import require_roles as require_roles
from propensity.scorers.juice.scorer import juice_metrics as juice_metrics
from propensity.scorers.juice.scorer import juice_score as juice_score
from propensity.scorers.rpeval.scorer import rpeval_metrics as rpeval_metrics
from propensity.scorers.rpeval.scorer import rpeval_score as rpeval_score
from propensity.tasks.hirewatch.hirewatch import hirewatch as hirewatch
from propensity.tasks.hirewatch.policies import hirewatch_policy as hirewatch_policy
from propensity.tasks.hirewatch.solver import hirewatch_trials as hirewatch_trials
from propensity.tasks.instrumental.instrumental import instrumental as instrumental
from propensity.tasks.instrumental.policies import instrumental_policy as instrumental_policy
from propensity.tasks.instrumental.setup import seed_environment as seed_environment
from propensity.tasks.instrumental.solver import terminal_agent as terminal_agent
from propensity.tasks.juice.juice import juice as juice
from propensity.tasks.juice.policies import juice_policy as juice_policy
from propensity.tasks.juice.solver import juice_answer as juice_answer
from propensity.tasks.rpeval.policies import rpeval_policy as rpeval_policy
from propensity.tasks.rpeval.reasoner import rp_reasoner as rp_reasoner
from propensity.tasks.rpeval.rpeval import rpeval as rpeval
from propensity.tasks.rpeval.solver import require_grader as require_grader
from propensity.tasks.rpeval.solver import rpeval_answer as rpeval_answer
