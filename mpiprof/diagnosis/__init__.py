"""Diagnosis of a run: arrival statistics, findings, the verdict, and comparisons of runs.

`findings` sorts the findings from delays, facts and single call sites by the time that they save,
and `verdict` concludes on the run. No plotting, no command line, no MPI.
"""
