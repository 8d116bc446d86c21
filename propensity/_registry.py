"""Everything that Inspect finds by name: tasks, scorers, solvers, providers and hooks."""
