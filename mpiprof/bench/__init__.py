"""Measurements: the papers' studies, and the cost of the tool itself."""
