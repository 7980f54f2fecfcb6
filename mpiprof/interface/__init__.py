"""The interface to a person at a terminal: units, hints, progress, output files."""
