"""Traces in the formats of other tools, read and written, and the packed trace."""
