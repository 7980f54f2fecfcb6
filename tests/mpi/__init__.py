"""Tests that run MPI programs."""
