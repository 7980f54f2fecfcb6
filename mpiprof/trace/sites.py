"""Call sites for people: file, line and function of a frame; native ones through addr2line."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

UNKNOWN: dict[str, Any] = {"file": None, "line": None, "function": None}


def describe_sites(
    sites: Sequence[tuple[dict[str, Any], ...]], groups: Sequence[Sequence[int]]
) -> list[list[dict[str, Any]]]:
    """For each group of site indices (-1 unknown) the list of {"file", "line", "function"}.

    The innermost frame is described; further frames, where recorded, stand in "stack".
    """
    wanted = sorted({i for group in groups for i in group if i >= 0})
    known = dict(zip(wanted, _described([sites[i] for i in wanted]), strict=True))
    return [[known.get(i, UNKNOWN) for i in group] for group in groups]


def site_label(site: dict[str, Any]) -> str:
    """Return a site in one line: "app.py:12 step"."""
    if site["file"] is None:
        return "?"
    place = Path(site["file"]).name + (f":{site['line']}" if site["line"] else "")
    return f"{place} {site['function']}" if site["function"] else place


def _described(stacks: list[tuple[dict[str, Any], ...]]) -> list[dict[str, Any]]:
    native: dict[str, set[int]] = {}
    for stack in stacks:
        for frame in stack:
            if "module" in frame:
                native.setdefault(frame["module"], set()).add(frame["offset"])
    resolved = {
        (module, offset): place
        for module, offsets in native.items()
        for offset, place in resolve_native(module, tuple(sorted(offsets))).items()
    }
    found = []
    for stack in stacks:
        frames = [_frame(frame, resolved) for frame in stack] or [dict(UNKNOWN)]
        if len(frames) > 1:
            frames[0]["stack"] = frames[1:]
        found.append(frames[0])
    return found


def _frame(
    frame: dict[str, Any], resolved: dict[tuple[str, int], tuple[str, int, str]]
) -> dict[str, Any]:
    if "module" not in frame:
        return {"file": frame["file"], "line": frame.get("line"), "function": frame.get("function")}
    module, offset = frame["module"], frame["offset"]
    if (module, offset) in resolved:
        file, line, function = resolved[module, offset]
        return {"file": file, "line": line, "function": function}
    return {"file": module, "line": None, "function": frame.get("symbol") or hex(offset)}


@lru_cache(maxsize=256)
def resolve_native(module: str, offsets: tuple[int, ...]) -> dict[int, tuple[str, int, str]]:
    """File, line and function of return addresses in a module; empty where nothing is known.

    A return address stands behind its call, so the byte before it is looked up.
    """
    tool = shutil.which("addr2line")
    if tool is None or not Path(module).is_file():
        return {}
    base = _load_address(module)
    addresses = "\n".join(hex(base + max(offset - 1, 0)) for offset in offsets)
    try:
        done = subprocess.run(
            [tool, "-f", "-C", "-e", module],
            input=addresses + "\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return {}
    lines = done.stdout.splitlines()
    found: dict[int, tuple[str, int, str]] = {}
    if len(lines) != 2 * len(offsets):
        return found
    for offset, function, place in zip(offsets, lines[::2], lines[1::2], strict=True):
        file, _, line = place.split(" (", 1)[0].rpartition(":")
        if file not in ("", "??") and line.isdigit() and int(line) > 0:
            found[offset] = (file, int(line), function)
    return found


def _load_address(module: str) -> int:
    """Return where the first segment is linked to; 0 unless the program is bound to one place.

    Offsets in a program that is not position-independent count from there.
    """
    try:
        with open(module, "rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01":
                return 0
            table, size, count = (
                struct.unpack_from("<Q", head, 32)[0],
                *struct.unpack_from("<HH", head, 54),
            )
            lowest = []
            for i in range(count):
                file.seek(table + i * size)
                entry = file.read(56)
                if struct.unpack_from("<I", entry)[0] == 1:  # PT_LOAD
                    lowest.append(int(struct.unpack_from("<Q", entry, 16)[0]))
    except (OSError, struct.error):
        return 0
    return min(lowest, default=0) & ~0xFFF
