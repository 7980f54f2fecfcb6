"""Collective algorithms: schedules of the catalogue, proved, simulated and drawn.

`tune` makes plans of them for a program, and `papers` measures them in the studies of the papers.
"""
