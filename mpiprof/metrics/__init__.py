"""Metrics of matched instances: wait states, imbalance, call sites.

A trace's batches of instances become one row for each instance, call site and rank. `wait_states`
is the one definition of a wait. No plotting, no command line, no MPI.
"""
