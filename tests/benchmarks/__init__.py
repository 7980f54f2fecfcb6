"""Benchmarks of mpiprof's own cost and accuracy: calls, reading, dashboard, memory, delays.

Run one with `PYTHONPATH=tests python -m benchmarks.NAME`; `make benchmarks` runs bench_*.py.
"""
