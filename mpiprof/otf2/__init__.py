"""Traces in the Open Trace Format 2, as Score-P writes them: read into trace folders of ours.

`opened` gives the trace folder for a path; reports.otf2 writes the format.
"""

from __future__ import annotations

from mpiprof.otf2.kept import opened

__all__ = ["opened"]
