"""Plans: the algorithm of each call site, written by people or computed from traces.

`predict` simulates the candidates under recorded arrivals, `replay` measures them on the ranks of a
job, and `export_rules` writes a plan as the MPI library's own configuration.
"""
