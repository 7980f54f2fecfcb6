"""Traces with one or several hostile changes each, and all verbs that read a trace.

A change keeps the checksums right, as somebody who forges a trace would. Every third mutant also
has bytes changed at random.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import struct
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mpiprof.dashboard.pages import list_pages, list_unlisted, messages, overview
from mpiprof.dashboard.trace_data import TraceContext
from mpiprof.dashboard.url_state import PageState

import mpiprof
from dashboard.timeline import build as timeline_build
from mpiprof.__main__ import main
from mpiprof.errors import MpiprofError
from mpiprof.formats import cache
from mpiprof.trace.checksum import CHECKSUM_PATTERN, add_checksum, remove_checksum
from mpiprof.trace.writer import CHUNK_BYTES, HEADER_BYTES, RECORD_BYTES, RECORD_TYPE
from support.page_traces import simulate
from support.synthetic import add_chunk_checksum, upgrade_folder

Random = np.random.Generator
DEEP = "[" * 2000 + "]" * 2000
NAMES = (
    *("\x1b]0;title\x07", "line\nforged", "\u202egnp", "\ud800", ""),
    *("../../etc", "=1+1", "/" * 9),
)
# Values in JSON that take the place of others.
VALUES = (
    *("null", "true", "[]", "{}", "0", "-1", "1", "2", "1e999", "-1e999", "NaN", "Infinity"),
    *("9223372036854775807", "-9223372036854775808", "18446744073709551615", "1" + "0" * 400),
    *("4294967296", "1000000", "0.5", "1e300", '""', "[[]]", "[null]", '{"a": 1}', DEEP),
    *(json.dumps(name) for name in NAMES),
)
NUMBERS = (0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
SELECTION = (
    {"kind": "key", "key": "0f", "communicator": "8c", "operation": "allreduce", "bytes": 8}
    | {"size": 4, "root": None, "sites": [{"file": "solver.c", "line": 120, "function": "dot"}]},
    {"kind": "phase", "key": "0f", "phase": 1, "instance": 9, "why": "start", "score_ns": 4e6},
    {"kind": "trial", "key": "0f", "phase": 1, "algorithm": "ring", "instances": 6}
    | {"score_ns": 1_500_000, "predicted_ns": 1_200_000},
    {"kind": "choice", "key": "0f", "phase": 1, "instance": 40, "algorithm": "ring", "why": "fast"},
    {"kind": "end", "key": "0f", "instances": 300, "probes": 38, "algorithm": "ring"},
)


def write_seed(folder: Path) -> Path:
    """Write 4 ranks on one node with collectives, messages, samples, names and a selector's log."""
    program = simulate(4, 1, 3, sampled=True)
    synthetic = program.synthetic
    synthetic.meta |= {
        "options": {"stack": 0, "partial": False, "sessions": False, "limit": 0, "totals": False},
        "library": {"on_node": 4, "multiple": False, "settings": {"a": 1}},
        "commit": "abc",
    }
    for rank in range(4):
        native = {"module": "/usr/lib/libc.so.6", "offset": 4096, "symbol": "_ZN1a1bEv+0x10"}
        synthetic.add_site(rank, native)
        synthetic.lines[rank] += [
            {"rank": rank, "communicator": 1, "name": "rows"},
            {"rank": rank, "note": "something was not recorded"},
            {"rank": rank, "missing_counter": {"counter": "cycles", "reason": "forbidden"}},
        ]
    upgrade_folder(program.write(folder))
    lines = (add_checksum(json.dumps(line).encode()) + b"\n" for line in SELECTION)
    (folder / "selection.jsonl").write_bytes(b"".join(lines))
    return folder


# ---- changes


def _list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside a JSON value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield (*path, key)
        yield from _list_paths(item, (*path, key))


def change_json(line: bytes, random: Random) -> bytes:
    """Return a line of JSON with one value replaced, removed or doubled, and a right checksum."""
    checked = CHECKSUM_PATTERN.search(line) is not None
    value = json.loads(remove_checksum(line) if checked else line)
    paths = list(_list_paths(value))
    *outer, last = paths[int(random.integers(len(paths)))]
    parent = value
    for key in outer:
        parent = parent[key]
    action = int(random.integers(8))
    if action == 0:
        del parent[last]
    elif action == 1 and isinstance(parent, list):
        parent.append(parent[last])
    else:
        parent[last] = "@changed@"
    replacement = VALUES[int(random.integers(len(VALUES)))].encode()
    changed = json.dumps(value).encode().replace(b'"@changed@"', replacement)
    return add_checksum(changed) if checked and changed.endswith(b"}") else changed


def _change_lines(path: Path, random: Random) -> None:
    lines = path.read_bytes().split(b"\n")
    filled = [i for i, line in enumerate(lines) if line]
    at = filled[int(random.integers(len(filled)))]
    lines[at] = change_json(lines[at], random)
    path.write_bytes(b"\n".join(lines))


def _change_log(path: Path, random: Random) -> None:
    """Change the first line, a field of a chunk's header, or a field of a record."""
    content = bytearray(path.read_bytes())
    action = int(random.integers(6))
    if action == 0:
        line, _, _ = bytes(content[:CHUNK_BYTES]).partition(b"\n")
        changed = change_json(line, random) + b"\n"
        content[:CHUNK_BYTES] = changed.ljust(CHUNK_BYTES, b"\0")
        path.write_bytes(content)
        return
    start = CHUNK_BYTES * int(random.integers(1, max(len(content) // CHUNK_BYTES, 2)))
    number = NUMBERS[int(random.integers(len(NUMBERS)))]
    if action == 1:
        at = start + 4 * int(random.integers(HEADER_BYTES // 4))
        content[at : at + 4] = struct.pack("<I", number & 0xFFFFFFFF)
    else:
        chunk = content[start + HEADER_BYTES : start + CHUNK_BYTES]
        used = max(len(bytes(chunk).rstrip(b"\0")) // RECORD_BYTES, 1)
        at = start + HEADER_BYTES + RECORD_BYTES * int(random.integers(used))
        record = np.frombuffer(content, RECORD_TYPE, 1, at)
        name = str(random.choice(list(RECORD_TYPE.names or ())))
        field = record[name]
        small = number % (1 << (8 * field.dtype.itemsize))
        field[:] = np.array([small], f"u{field.dtype.itemsize}").view(field.dtype)
        del record, field
    content[start : start + CHUNK_BYTES] = add_chunk_checksum(
        bytes(content[start : start + CHUNK_BYTES])
    )
    path.write_bytes(content)


def _change_bytes(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes())
    for at in random.integers(0, max(len(content.rstrip(b"\0")), 1), int(random.integers(1, 20))):
        content[at] ^= 1 << int(random.integers(8))
    path.write_bytes(content)


def mutate(folder: Path, seed: int) -> list[str]:
    """Change the files of a trace; return the names of the changed files."""
    random = np.random.default_rng(seed)
    kinds: tuple[tuple[str, Callable[[Path, Random], None]], ...] = (
        ("meta.json", _change_lines),
        ("*.tables", _change_lines),
        ("*.tables", _change_lines),
        ("*.log", _change_log),
        ("selection.jsonl", _change_lines),
    )
    done = []
    for _ in range(int(random.integers(1, 4))):
        pattern, change = kinds[int(random.integers(len(kinds)))]
        files = sorted(folder.glob(pattern))
        path = files[int(random.integers(len(files)))]
        with contextlib.suppress(ValueError, RecursionError):  # a line that is no JSON any more
            change(path, random)
            done.append(path.name)
    if seed % 3 == 0:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        path = files[int(random.integers(len(files)))]
        _change_bytes(path, random)
        done.append(path.name)
    return done


# ---- verbs


@dataclass(frozen=True)
class Outcome:
    """The outputs of all verbs on a mutant, and the tracebacks."""

    output: str
    tracebacks: list[str]


REPORTS = (
    *(["--all"], ["--json"], ["--by", "rank"], ["--rank", "1"], ["--site", "solver"]),
    *(["-o", "report.html"], ["-o", "report.md"], ["--by", "routine"]),
)
TUNINGS = (["--summary"], ["-o", "plan.json"], ["--found", "-o", "found.json"])
FORMATS = ("csv", "perfetto", "otf2", "caliper", "parquet", "html", "dataset")


def list_commands(folder: Path, whole: Path, seed: int) -> list[list[str]]:
    """Return a command of each verb that reads a trace, except `view`; formats take turns."""
    trace = str(folder)
    to = FORMATS[seed % len(FORMATS)]
    return [
        ["report", trace, *REPORTS[seed % len(REPORTS)]],
        ["status", trace, *(["--json"], ["--all"])[seed % 2]],
        ["compare", trace, str(whole)],
        ["history", trace, str(whole)],
        ["tune", trace, *TUNINGS[seed % len(TUNINGS)]],
        ["export", "--to", to, "-o", f"export-{to}", trace],
        ["pack", trace],
        ["status", trace],  # of the packed trace
    ]


def view(folder: Path) -> None:
    """Make all pages of `view`, with the parts that callbacks add later."""
    context = TraceContext([folder], [])
    state = PageState()
    data = context.latest_data(state)
    if len(data.callsites):
        state = state.set_keys(callsite=0)
    for page in (*list_pages(of_folder=True), *list_unlisted()):
        json.dumps(page.make_layout(context, state).to_plotly_json(), default=str)
    for make in (
        overview.time_section,
        overview.findings_section,
        overview.gains_section,
        messages.make_sentence,
        messages.make_picture,
    ):
        json.dumps(make(data, state), default=str)
    timeline_build.open_or_build(data.trace, cache.compute_key(data.trace))


def run_verbs(folder: Path, whole: Path, seed: int) -> Outcome:
    """Run all verbs on a trace, in this process and in the current folder."""
    output, tracebacks = io.StringIO(), []

    def attempt(name: str, function: Callable[[], Any]) -> None:
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                function()
        except MpiprofError:
            pass
        except Exception:
            tracebacks.append(f"{name}: {traceback.format_exc()}")

    attempt("open", lambda: mpiprof.open(folder))
    attempt("view", lambda: view(folder))
    for words in list_commands(folder, whole, seed):
        attempt(" ".join(words), lambda words=words: main(words))  # type: ignore[misc]
    return Outcome(output.getvalue(), tracebacks)


def run_mutant(
    scratch: Path, whole: Path, seed: int, *, change: bool = True
) -> tuple[list[str], Outcome]:
    """Run all verbs on a mutant of a trace, or on a copy; return the changed files too."""
    folder = scratch / "mutant"
    scratch.mkdir()
    shutil.copytree(whole, folder)
    before = Path.cwd()
    os.chdir(scratch)  # the verbs write into the current folder
    try:
        return mutate(folder, seed) if change else [], run_verbs(folder, whole, seed)
    finally:
        os.chdir(before)
        shutil.rmtree(scratch)
