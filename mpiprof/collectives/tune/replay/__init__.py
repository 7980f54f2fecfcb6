"""Measures candidates on the ranks of a job, under the arrivals that a trace recorded."""
