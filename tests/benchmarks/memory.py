"""Memory of a process, from its folder in /proc."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+\s*(.*)$")
PRIVATE = "Private_Dirty:"


@dataclass
class Kept:
    """Pages that only this process has written, in KB.

    library: data of the recorder's library. trace: pages of files in its trace. others: all other
    pages, including the recorder's allocations.
    """

    library: int = 0
    trace: int = 0
    others: int = 0


def kept(smaps: str, trace: Path) -> Kept:
    """Return the private memory of a process, from the text of its smaps."""
    found = Kept()
    kind, end = "others", ""
    for line in smaps.splitlines():
        if head := HEAD.match(line):
            begin, name, before = head[1], head[3], end
            end = head[2]
            # An unnamed mapping after a library's file holds data that the file has no bytes for.
            if name or begin != before or kind != "library":
                kind = _kind(name, trace)
        elif line.startswith(PRIVATE):
            setattr(found, kind, getattr(found, kind) + int(line.split()[1]))
    return found


def _kind(name: str, trace: Path) -> str:
    if Path(name).parent == trace:
        return "trace"
    return "library" if Path(name).name.startswith("libmpiprof") else "others"


def peak_mb(process: int | str = "self") -> float:
    """Return the peak memory of a process since it started its program, in MB.

    getrusage is not usable, because its value starts from the memory of the parent process.
    """
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6
