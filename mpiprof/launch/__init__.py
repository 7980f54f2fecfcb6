"""Starts a program with the recorder preloaded before its MPI; all imports here are fast."""
