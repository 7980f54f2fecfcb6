"""Reads the selector's log `selection.jsonl`, which has one JSON object per line.

    key     instances that share a choice: operation, bytes, root, size, mode (auto or robust),
            sites (their innermost frames, as in the tables); repeated if calls came from further
            sites later
    phase   a new search among the candidates, at the n-th instance of the key, and the reason
    trial   the score of a candidate in a phase
    omitted an algorithm that did not run, and the reason; excess: how many times its optimistic
            time exceeds the best time, if the model excludes it
    choice  the algorithm from an instance on, and the reason
    end     totals of a key that is no longer used

The file may be missing (no `--switch auto` or `robust`), cut (a killed job), damaged or forged. A
line that the recorder cannot have written is skipped. In older traces a site is a text, and the
frames of native sites are in a list of their own, `frames`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpiprof.facts.operations import AUTO, OPERATIONS, ROBUST
from mpiprof.interface.untrusted_files import read_file
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.sites import Site, describe_sites, is_program, label_site, parse_frame

FILE = "selection.jsonl"
MAX_FILE_BYTES, MAX_LINE_BYTES, MAX_LINES = 64 << 20, 1 << 16, 200_000
MAX_TEXT = 300  # maximum characters of a value; the rest is cut off
MOST_SITES = 64  # of a key
PLACE = re.compile(r"[^:]+:[1-9][0-9]*")  # a call site as a plan names it
# Required fields of each kind of line.
REQUIRED_FIELDS: dict[str, dict[str, type]] = {
    "key": {"key": str, "communicator": str, "operation": str},
    "phase": {"key": str, "phase": int, "instance": int, "why": str},
    "trial": {"key": str, "phase": int, "algorithm": str, "instances": int, "score_ns": float},
    "omitted": {"key": str, "phase": int, "algorithm": str, "why": str},
    "choice": {"key": str, "phase": int, "instance": int, "algorithm": str, "why": str},
    "end": {"key": str, "instances": int, "algorithm": str},
}
# Optional numbers of each kind of line, NaN if missing.
OPTIONAL_NUMBERS: dict[str, tuple[str, ...]] = {
    "key": ("bytes", "root", "size"),
    "phase": ("imbalance_ns", "score_ns"),
    "trial": ("error_ns", "predicted_ns"),
    "omitted": ("excess",),
    "choice": (),
    "end": ("probes", "saved_ns"),
}


def exists(folder: Path) -> bool:
    """Return whether a program ran under `--switch auto` or `robust`; the log may be empty."""
    return (folder / FILE).is_file()


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines in order, each with its kind, REQUIRED_FIELDS and OPTIONAL_NUMBERS.

    A key also has its `mode`, its `sites`, a list of texts, and their `places`: each site's file
    and line, or None for a site that a plan cannot name.
    """
    rows = []
    keys: dict[str, dict[str, Any]] = {}
    for line in _read_lines(folder / FILE):
        row = _parse_row(line)
        if row is None:
            continue
        if row["kind"] == "key":
            known = keys.setdefault(row["key"], row)
            if known is not row:  # repeated with call sites that came later
                known["sites"] = row["sites"]
                continue
        rows.append(row)
    _name_sites(list(keys.values()))
    yield from rows


def _name_sites(keys: list[dict[str, Any]]) -> None:
    """Replace the raw sites of each key by their texts and places."""
    frames = [(frame,) for key in keys for _, frame in key["sites"] if frame]
    (described,) = describe_sites(frames, [range(len(frames))])
    sites = iter(described)
    for key in keys:
        raw = ((text, frame, next(sites) if frame else None) for text, frame in key["sites"])
        # A compiler may make several calls of one line.
        named = dict.fromkeys(_named(*site) for site in raw)
        key["sites"] = [text for text, _ in named]
        key["places"] = [place for _, place in named]


def _named(text: str, frame: dict[str, Any] | None, site: Site | None) -> tuple[str, str | None]:
    """Return a site's text and place; `text` is the recorder's name in an older trace."""
    if frame is None or site is None:
        place = text.split(" ")[0]
        return text, place if PLACE.fullmatch(place) else None
    if not site["line"]:
        return text or label_site(site), None
    place = f"{Path(site['file']).name}:{site['line']}"
    return label_site(site), place if "file" in frame or is_program(frame["module"]) else None


def _raw_sites(line: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None]]:
    """Return text and frame of each site; one of them is empty, except in an older trace."""
    sites, frames = line.get("sites"), line.get("frames")
    if not isinstance(sites, list):
        return []
    old_frames = dict(enumerate(frames if isinstance(frames, list) else []))
    raw: list[tuple[str, dict[str, Any] | None]] = []
    for i, site in enumerate(sites[:MOST_SITES]):
        if isinstance(site, str):
            raw.append((site[:MAX_TEXT], _parse_frame(old_frames.get(i))))
        else:
            frame = _parse_frame(site)
            raw.append(("" if frame else "?", frame))
    return raw


def _parse_frame(frame: Any) -> dict[str, Any] | None:
    try:
        return parse_frame(frame)
    except ValueError:
        return None


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = read_file(path, MAX_FILE_BYTES)
    except OSError:
        return
    checked = False  # set by the first line with a checksum; then all lines must have one
    # The last line is cut, or empty.
    for line in content.split(b"\n", MAX_LINES)[:-1]:
        if len(line) >= MAX_LINE_BYTES:
            return
        intact = is_line_intact(line)
        checked |= intact is not None
        if not intact and checked:
            continue
        try:
            parsed = parse_json(line)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            yield parsed


def _parse_row(line: dict[str, Any]) -> dict[str, Any] | None:
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in REQUIRED_FIELDS:
        return None
    row: dict[str, Any] = {"kind": kind}
    for name, wanted in REQUIRED_FIELDS[kind].items():
        value = line.get(name)
        if not (isinstance(value, str) if wanted is str else _is_number(value)):
            return None
        row[name] = value[:MAX_TEXT] if isinstance(value, str) else wanted(value)
    for name in OPTIONAL_NUMBERS[kind]:
        value = line.get(name)
        row[name] = float(value) if value is not None and _is_number(value) else float("nan")
    if kind == "key":
        if row["operation"] not in OPERATIONS:
            return None
        # Older traces have only `auto`.
        row["mode"] = ROBUST if line.get("mode") == ROBUST else AUTO
        row["sites"] = _raw_sites(line)
    return row


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
