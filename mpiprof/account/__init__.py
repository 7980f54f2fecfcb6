"""The account of a run: waits, sums of calls, and the time of every thread as segments.

`wait_states` is the one definition of a wait. No plotting, no command line, no MPI.
"""
