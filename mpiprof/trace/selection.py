"""What the selector noted while the program ran: `selection.jsonl`, one JSON object a line.

    key     which instances share a choice: operation, bytes, root, size, sites (text)
    phase   a new search among the candidates, at the n-th instance of the key, and why
    trial   what a candidate scored in a phase
    choice  what runs from an instance on, and why
    end     the totals of a key that is used no more

The file may be missing (no `--switch auto`), cut (a killed job), damaged or crafted: a line that is
not what the recorder writes is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = "selection.jsonl"
LARGEST, LONGEST, MOST = 64 << 20, 1 << 16, 200_000  # bytes, of a line, lines
TEXT = 300  # characters of a value that are kept
# kind: what its lines must have
KINDS: dict[str, dict[str, type]] = {
    "key": {"key": str, "communicator": str, "operation": str},
    "phase": {"key": str, "phase": int, "instance": int, "why": str},
    "trial": {"key": str, "phase": int, "algorithm": str, "instances": int, "score_ns": float},
    "choice": {"key": str, "phase": int, "instance": int, "algorithm": str, "why": str},
    "end": {"key": str, "instances": int, "algorithm": str},
}
# kind: the numbers that they have besides, NaN where one is missing
NUMBERS: dict[str, tuple[str, ...]] = {
    "key": ("bytes", "root", "size"),
    "phase": ("imbalance_ns", "score_ns"),
    "trial": ("error_ns", "predicted_ns"),
    "choice": (),
    "end": ("probes", "saved_ns"),
}


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines in order, each with its kind and the values of KINDS and NUMBERS.

    A key has its sites besides, a list of texts.
    """
    for line in _lines(folder / FILE):
        kind = line.get("kind")
        row = _row(kind, line) if isinstance(kind, str) and kind in KINDS else None
        if row is not None:
            yield row


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return
        with path.open("rb") as file:
            for _ in range(MOST):
                line = file.readline(LONGEST)
                if not line.endswith(b"\n"):
                    return
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
