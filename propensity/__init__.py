"""Propensity: what a model chooses to do, measured on Inspect."""
