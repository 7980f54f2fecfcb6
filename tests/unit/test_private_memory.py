"""Private memory of a process by type of mapping, with a known answer."""

from __future__ import annotations

from pathlib import Path

from benchmarks.memory import Kept, kept

SMAPS = """\
00400000-00401000 r-xp 00000000 08:01 11 /home/me/scale
Private_Dirty:         1 kB
10000000-10020000 rw-p 00000000 00:00 0 [heap]
Private_Dirty:       100 kB
7f0000000000-7f0000001000 rw-p 00020000 08:01 12 /opt/lib/libmpiprof-openmpi-4.so
Shared_Dirty:         40 kB
Private_Dirty:         4 kB
7f0000001000-7f0000009000 rw-p 00000000 00:00 0
Private_Dirty:         8 kB
7f0000009000-7f000000a000 rw-p 00000000 00:00 0 [stack]
Private_Dirty:        16 kB
7f0000010000-7f0000020000 rw-s 00010000 08:01 13 /tmp/a trace/node-0.log
Private_Dirty:        64 kB
7f0000020000-7f0000021000 rw-s 00000000 08:01 14 /tmp/a trace/below/other
Private_Dirty:        32 kB
7f0000030000-7f0000031000 rw-p 00000000 00:00 0
Private_Dirty:         2 kB
"""


def test_pages_are_counted_by_type_of_mapping() -> None:
    """The library's data continues in the unnamed pages that follow."""
    found = kept(SMAPS, Path("/tmp/a trace"))
    assert found == Kept(library=12, trace=64, others=1 + 100 + 16 + 32 + 2)
