"""Shared code of the studies: cases and calls, timing of all ranks, laps, tables and figures."""
