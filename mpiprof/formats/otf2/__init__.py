"""Reads traces in the Open Trace Format 2, as Score-P writes them, into mpiprof trace folders.

`opened` returns the trace folder of a path. formats/otf2/export.py writes the format.
"""

from __future__ import annotations

from mpiprof.formats.otf2.cache import open_converted

__all__ = ["open_converted"]
