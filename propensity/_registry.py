"""Everything that Inspect finds by name: tasks, scorers, solvers, providers and hooks."""

from propensity.models.embedded import embedded as embedded
from propensity.results.hooks import ResultsStoreHook as ResultsStoreHook
from propensity.sandboxes.provider import engine as engine
from propensity.scorers.hirewatch.scorer import hirewatch_metrics as hirewatch_metrics
from propensity.scorers.hirewatch.scorer import hirewatch_score as hirewatch_score
