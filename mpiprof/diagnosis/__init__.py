"""Diagnosis: delays and their origin, patterns, findings, verdict. No plotting, no MPI."""
