"""The terminal's side of every verb: units, shell hints, progress, output files, installation.

Nothing here depends on traces, and nothing is slow to import.
"""
