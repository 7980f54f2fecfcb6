"""Builds, merges and writes the entries of a plan file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpiprof.collectives.variant import Variant
from mpiprof.interface.output_files import write_text

Entry = dict[str, Any]
MAX_HOSTS = 64


def make_provenance(how: str, mpi: str, hosts: Sequence[str], date: str) -> Entry:
    """Return the provenance of entries; hosts are omitted if there are very many."""
    host_names = sorted(set(hosts)) if len(set(hosts)) <= MAX_HOSTS else []
    return {"how": how, "mpi": mpi, "hosts": host_names, "date": date}


def make_entry(
    operation: str,
    size: int,
    span: tuple[int, int] | None,
    sites: Sequence[str],
    choice: str,
    why: str,
    measured: Mapping[str, Any],
) -> Entry:
    """Return one entry. `choice` has the syntax of `run --switch`; span is the range of bytes."""
    variant = Variant.parse(choice)
    entry: Entry = {"operation": operation, "size": size}
    if span is not None:
        entry["bytes"] = {"from": span[0], "to": span[1]}
    if sites:
        entry["call_sites"] = list(sites)
    entry["algorithm"] = variant.name
    if variant.parameters:
        entry["parameters"] = {n: int(v) if v.isdigit() else v for n, v in variant.parameters}
    return entry | {"why": why, "measured": dict(measured)}


def drop_overlaps(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries without overlaps; of two entries for the same calls the first stays."""
    accepted: list[Entry] = []
    for entry in entries:
        sites = [s for s in entry.get("call_sites", [None]) if not _is_covered(accepted, entry, s)]
        if not sites:
            continue
        if sites != [None]:
            entry = entry | {"call_sites": sites}
        # Adjacent size classes with the same call sites and the same choice become one entry.
        adjacent = next((k for k in accepted if _follows(k, entry)), None)
        if adjacent is None:
            accepted.append(entry)
            continue
        spans = (entry["bytes"], adjacent["bytes"])
        first, last = min(s["from"] for s in spans), max(s["to"] for s in spans)
        adjacent["bytes"] = {"from": first, "to": last}
        adjacent["why"] += "; " + entry["why"]
    return accepted


def _is_covered(accepted: Sequence[Entry], new_entry: Entry, site: str | None) -> bool:
    key = (new_entry["operation"], new_entry["size"])
    for k in accepted:
        if (k["operation"], k["size"]) == key and site in k.get("call_sites", [None]):
            spans = [entry["bytes"] for entry in (k, new_entry) if "bytes" in entry]
            # An entry without a range covers all sizes.
            if len(spans) < 2 or max(s["from"] for s in spans) <= min(s["to"] for s in spans):
                return True
    return False


def _follows(k: Entry, new_entry: Entry) -> bool:
    keys = ("operation", "size", "call_sites", "algorithm", "parameters")
    have_bytes = "bytes" in k and "bytes" in new_entry
    if not have_bytes or any(k.get(n) != new_entry.get(n) for n in keys):
        return False
    low, high = sorted((k["bytes"], new_entry["bytes"]), key=lambda span: span["from"])
    return bool(low["to"] + 1 == high["from"])


def write(path: Path, entries: Sequence[Entry]) -> None:
    """Write a plan file; MpiprofError if it cannot be written."""
    write_text(path, json.dumps(list(entries), indent=1, ensure_ascii=False) + "\n")
