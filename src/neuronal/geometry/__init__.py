"""Looks at a model and never changes it."""
