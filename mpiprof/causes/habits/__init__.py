"""Habits: ranks whose work is longer again and again, as one model of a matrix of work.

A habit is a set of ranks, the columns (steps or repetitions) in which they work longer, and by how
much. The search (search.py) takes the habit that explains most waiting out of the work, and repeats
itself with the rest.
"""
