"""Facts about MPI that all parts share: its operations, its datatypes, its libraries' algorithms.

The generator of the C core reads the same tables. Nothing here depends on a trace.
"""
