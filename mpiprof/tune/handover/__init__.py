"""Plans as the MPI libraries' own configuration: what runs without mpiprof.

A plan's rules become cells (`cells`), each an operation on so many processes with a range of
bytes and the library's own algorithm that is the same as the plan's. A module for each library
writes them as that library reads them, so that nothing else changes, reads the text back as the
library would, and compares.
"""
