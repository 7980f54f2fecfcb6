"""Exports plans as the MPI libraries' own configuration, for runs without mpiprof.

A plan's rules become cells (`cells`). A cell is an operation on so many processes, a range of
bytes, and the library's algorithm that equals the plan's. One module per library writes the cells
in the library's format without changing any other choice. It then reads the text back as the
library would, and compares.
"""
