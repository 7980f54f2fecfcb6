"""Metrics and diagnosis of matched instances. This package has no plotting, command line or MPI."""
