"""Traces in the recorder's format, from arrays or simulated programs, for tests and benchmarks."""
