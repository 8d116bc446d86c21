"""Everything that Inspect finds by name: tasks, scorers, solvers, providers and hooks."""

from propensity.results.hooks import ResultsStoreHook as ResultsStoreHook
from propensity.sandboxes.provider import engine as engine
