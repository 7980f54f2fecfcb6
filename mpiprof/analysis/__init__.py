"""Metrics of matched instances: arrivals, waits, causes, findings. No plotting, CLI or MPI."""
