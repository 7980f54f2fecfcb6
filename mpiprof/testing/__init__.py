"""Synthetic traces: the recorder's format from arrays, for tests and benchmarks."""
