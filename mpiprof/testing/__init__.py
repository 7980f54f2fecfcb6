"""Traces made from arrays, for tests and measurements."""
