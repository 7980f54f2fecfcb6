"""Hang detection: rank states, wait-for graph, verdict, and the agent beside a running job.

`status` and `run --watch` read the last records of each rank, build the wait-for graph and name the
rank that blocks the job. It also watches processes that have died.
"""
