"""Metrics of matched instances: wait states, imbalance, call sites. No plotting, no MPI."""
