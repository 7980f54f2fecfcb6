"""Adds checksums of lines and chunks to a written trace, as the current recorder does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from mpiprof.trace.checksum import add_checksum, compute_checksum
from mpiprof.trace.writer import CHUNK_BYTES, HEADER_FIELDS

HEADER_OFFSETS = {"thread": ("<u2", 8), "window": ("<u2", 10), "check": ("<u4", 12)}


def upgrade_folder(folder: Path) -> Path:
    """Rewrite a trace of Synthetic.write as version 2 of the format; returns the folder."""
    chunks = Counter({path.stem: _upgrade_log(path) for path in folder.glob("*.log")})
    for path in folder.glob("*.tables"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "end" in line:
                line["end"]["chunks"] = chunks[path.stem]
        path.write_bytes(
            b"".join(add_checksum(json.dumps(line).encode()) + b"\n" for line in lines)
        )
    meta = folder / "meta.json"
    meta.write_bytes(add_checksum(meta.read_bytes()) + b"\n")
    return folder


def _upgrade_log(path: Path) -> int:
    """Rewrite a log and return its number of chunks."""
    content = path.read_bytes()
    head, *parts = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    described = json.loads(head.split(b"\n")[0])
    others = [field for field in HEADER_FIELDS if field[0] not in HEADER_OFFSETS]
    described["header"] = [*others, *([name, *place] for name, place in HEADER_OFFSETS.items())]
    described["version"] = 2
    line = add_checksum(json.dumps(described).encode()) + b"\n"
    path.write_bytes(line.ljust(CHUNK_BYTES, b"\0") + b"".join(map(_add_chunk_checksum, parts)))
    return len(parts)


def _add_chunk_checksum(chunk: bytes) -> bytes:
    thread, window = chunk[8:10], chunk[12:14]
    body = chunk[:8] + thread + window + bytes(4) + chunk[16:]
    return body[:12] + compute_checksum(body, 12).to_bytes(4, "little") + body[16:]
