"""What the tool costs: a call, reading, showing, memory, and how well it measures.

Run one with `PYTHONPATH=tests python -m benchmarks.NAME`; `make benchmarks` runs bench_*.py.
"""
