"""Measurements: studies of the papers, and what the tool itself costs."""
