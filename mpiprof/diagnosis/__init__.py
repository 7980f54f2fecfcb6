"""Diagnosis of a run: delays and their origin, patterns, findings, verdict.

Samples of the costliest call sites are searched for patterns of lateness that chance does not
explain. `findings` ranks them by cost, `verdict` concludes on the run. No plotting, no command
line, no MPI.
"""
