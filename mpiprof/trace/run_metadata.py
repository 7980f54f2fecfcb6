"""Reads meta.json, the metadata of a run, with a check of each field.

A field of the wrong type is left out and reported, so later code can rely on the types below.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mpiprof.errors import TraceError
from mpiprof.interface.untrusted_files import read_file
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.checksum import is_line_intact
from mpiprof.trace.validation import (
    Check,
    check_fields,
    check_flag,
    check_integer,
    check_list,
    check_number,
    check_object,
    check_optional,
    check_text,
)

FILE = "meta.json"
FORMAT, VERSION = "mpiprof trace", 1
RANK_LIMIT = 1 << 22
_check_count = partial(check_integer, low=0)
_OPTIONS: Mapping[str, Check] = {
    **dict.fromkeys(("stack", "limit", "ring"), check_integer),
    **dict.fromkeys(("partial", "sessions", "totals"), check_flag),
    "messages": check_text,
}
_CLOCK: Mapping[str, Check] = {"error_ns": partial(check_optional, check=_check_count)}
_LIBRARY: Mapping[str, Check] = {
    "on_node": check_integer,
    "multiple": check_flag,
    "settings": check_object,
}
_check_numbers = partial(check_list, check=check_number)
# trace/machine.py checks whether the times are plausible.
_LINK: Mapping[str, Check] = {
    **dict.fromkeys(("alpha_ns", "beta_ns_per_byte"), check_number),
    **dict.fromkeys(
        ("pace_ns_per_byte", "buffer_bytes"), partial(check_optional, check=check_number)
    ),
    **dict.fromkeys(("sizes", "undisturbed_rounds"), partial(check_list, check=check_integer)),
    **dict.fromkeys(("one_way_ns", "both_ways_ns", "spread"), _check_numbers),
}
_check_link = partial(check_optional, check=partial(check_fields, checks=_LINK))
_MACHINE: Mapping[str, Check] = {
    "source": check_text,
    **dict.fromkeys(("within", "between"), _check_link),
    **dict.fromkeys(
        ("gamma_sum_ns_per_byte", "gamma_maxloc_ns_per_byte", "page_fault_ns"),
        partial(check_optional, check=check_number),
    ),
}
_FIELDS: Mapping[str, Check] = {
    **dict.fromkeys(("mpiprof", "program", "commit", "mpi", "abi"), check_text),
    **dict.fromkeys(("job", "started", "record"), check_text),
    "command": partial(check_list, check=check_text),
    "skipped": partial(check_list, check=check_text),
    "ranks": partial(check_integer, low=1, high=RANK_LIMIT),
    "sample": partial(check_optional, check=partial(check_integer, low=1)),
    "spawned_ns": check_integer,
    "options": partial(check_fields, checks=_OPTIONS),
    "clock": partial(check_fields, checks=_CLOCK),
    "library": partial(check_fields, checks=_LIBRARY),
    "machine": partial(check_optional, check=partial(check_fields, checks=_MACHINE)),
}


@dataclass(frozen=True)
class RunMetadata:
    """The fields of meta.json, {} without a usable file, and a message on damaged fields.

    has_checksum: False if the file has none, as in version 1 of the format.
    """

    fields: dict[str, Any]
    problem: str = ""
    has_checksum: bool = True


def read_metadata(folder: Path) -> RunMetadata:
    """Return the metadata of a trace; raises TraceError for another format or a newer version."""
    path = folder / FILE
    intact: bool | None = True
    try:
        content = read_file(path)
        intact = is_line_intact(content.rstrip(b"\n"))
        meta = None if intact is False else parse_json(content)
    except FileNotFoundError:
        return RunMetadata({})
    except OSError as error:
        return RunMetadata({}, f"{FILE} cannot be read: {error.strerror}")
    except ValueError:
        meta = None
    has_checksum = intact is not None
    if not isinstance(meta, dict):
        return RunMetadata({}, f"{FILE} is damaged and ignored", has_checksum)
    if meta.get("format", FORMAT) != FORMAT:
        raise TraceError(f"{path}: not a file of an mpiprof trace")
    version = meta.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise TraceError(f"{path}: written by a newer mpiprof; update mpiprof to read it")
    fields, damaged = select_fields(meta)
    problem = f"{FILE}: damaged and ignored: {', '.join(damaged)}" if damaged else ""
    return RunMetadata(fields, problem, has_checksum)


def select_fields(meta: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that have the right types, and the names of the other fields."""
    fields, damaged = {}, []
    for name, value in meta.items():
        with suppress(ValueError):
            fields[name] = _FIELDS[name](value) if name in _FIELDS else value
        if name not in fields:
            damaged.append(name)
    return fields, damaged
