"""Start of a program: detect its MPI, preload the recorder, start mpiexec.

Every rank of a job runs this code before it becomes the program, so nothing here is slow to import.
"""
