"""Benchmarks: what the tool costs and how fast it reads."""
