"""Causes of lost time, one file for each: its detection, evidence, sentence and advice.

Single events and structure are facts of a run: they are read from its account, and need no test of
significance. `findings` sorts causes and single call sites by the time that they save, and
concludes on the run. No plotting, no command line, no MPI.
"""
