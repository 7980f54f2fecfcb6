"""Reads the selector's log `selection.jsonl`, which has one JSON object per line.

    key     instances that share a choice: operation, bytes, root, size, sites (text), frames
            (module and offset of native sites, null for others); repeated if calls came from
            further sites later
    phase   a new search among the candidates, at the n-th instance of the key, and the reason
    trial   the score of a candidate in a phase
    choice  the algorithm from an instance on, and the reason
    end     totals of a key that is no longer used

The file may be missing (no `--switch auto`), cut (a killed job), damaged or forged. A line that the
recorder cannot have written is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpiprof.trace.checksum import line_is_sound
from mpiprof.trace.sites import resolve_native

FILE = "selection.jsonl"
LARGEST, LONGEST, MOST = 64 << 20, 1 << 16, 200_000  # maximum bytes, bytes of a line, lines
TEXT = 300  # maximum characters of a value; the rest is cut off
# Required fields of each kind of line.
KINDS: dict[str, dict[str, type]] = {
    "key": {"key": str, "communicator": str, "operation": str},
    "phase": {"key": str, "phase": int, "instance": int, "why": str},
    "trial": {"key": str, "phase": int, "algorithm": str, "instances": int, "score_ns": float},
    "choice": {"key": str, "phase": int, "instance": int, "algorithm": str, "why": str},
    "end": {"key": str, "instances": int, "algorithm": str},
}
# Optional numbers of each kind of line, NaN if missing.
NUMBERS: dict[str, tuple[str, ...]] = {
    "key": ("bytes", "root", "size"),
    "phase": ("imbalance_ns", "score_ns"),
    "trial": ("error_ns", "predicted_ns"),
    "choice": (),
    "end": ("probes", "saved_ns"),
}


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines in order, each with its kind and the values of KINDS and NUMBERS.

    A key also has its sites, a list of texts.
    """
    found = []
    keys: dict[str, tuple[dict[str, Any], list[tuple[str, int] | None]]] = {}
    native: dict[str, set[int]] = {}
    for line in _lines(folder / FILE):
        kind = line.get("kind")
        row = _row(kind, line) if isinstance(kind, str) and kind in KINDS else None
        if row is None:
            continue
        frames = _frames(line, len(row["sites"])) if kind == "key" else []
        for frame in frames:
            if frame is not None:
                native.setdefault(frame[0], set()).add(frame[1])
        if kind == "key" and row["key"] in keys:  # repeated with call sites that came later
            keys[row["key"]][0]["sites"] = row["sites"]
            keys[row["key"]][1][:] = frames
            continue
        found.append((row, frames))
        if kind == "key":
            keys[row["key"]] = found[-1]
    places = {module: resolve_native(module, sorted(at)) for module, at in native.items()}
    for row, frames in found:
        for i, frame in enumerate(frames):
            if frame is not None and frame[1] in places[frame[0]]:
                file, number, _ = places[frame[0]][frame[1]]
                row["sites"][i] = f"{Path(file).name}:{number}"
        if frames:
            row["sites"] = list(dict.fromkeys(row["sites"]))
        yield row


def _frames(line: dict[str, Any], count: int) -> list[tuple[str, int] | None]:
    """Return (module, offset) of each native site, None for other sites."""
    found: list[tuple[str, int] | None] = []
    frames = line.get("frames")
    for frame in frames[:count] if isinstance(frames, list) else []:
        known = frame if isinstance(frame, dict) else {}
        module, offset = known.get("module"), known.get("offset")
        if isinstance(module, str) and type(offset) is int and 0 <= offset < 1 << 62:
            found.append((module, offset))
        else:
            found.append(None)
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return
        checked = False  # set by the first line with a checksum; then all lines must have one
        with path.open("rb") as file:
            for _ in range(MOST):
                line = file.readline(LONGEST)
                if not line.endswith(b"\n"):
                    return
                sound = line_is_sound(line[:-1])
                checked |= sound is not None
                if not sound and checked:
                    continue
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(found, dict):
                    yield found
    except OSError:
        return


def _row(kind: str, line: dict[str, Any]) -> dict[str, Any] | None:
    row: dict[str, Any] = {"kind": kind}
    for name, wanted in KINDS[kind].items():
        value = line.get(name)
        if not (isinstance(value, str) if wanted is str else _is_number(value)):
            return None
        row[name] = value[:TEXT] if isinstance(value, str) else wanted(value)
    for name in NUMBERS[kind]:
        value = line.get(name)
        row[name] = float(value) if value is not None and _is_number(value) else float("nan")
    if kind == "key":
        sites = line.get("sites")
        row["sites"] = [str(s)[:TEXT] for s in sites[:64]] if isinstance(sites, list) else []
    return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
