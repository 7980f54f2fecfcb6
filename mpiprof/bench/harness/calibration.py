"""Message times of a study's ranks, measured by `calibrate` in a job of its own.

The quick measurement at the start of a run is refused if ranks outnumber cores, as on an emulated
cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from mpiprof.bench.harness.options import Options
from mpiprof.bench.harness.study import Row, Setup
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_round_size, format_time
from mpiprof.launch.mpiexec import find_failure
from mpiprof.launch.program import verb_command
from mpiprof.model.machine import machine_of_table
from mpiprof.trace.machine import LINK_NAMES, NO_MESSAGE, find_fault

Start = Callable[[Sequence[str], Mapping[str, str]], int]  # runs a command on all ranks
CALIBRATION_S = 20
STDERR = 2  # file descriptor
ATTEMPTS = 3
SHOWN_BYTES = (4, 65536)  # messages with printed times
REMEDY = "repeat on a quiet machine, or pass --machine FILE of `calibrate`"


def calibrate_ranks(
    start: Start, folder: Path, find_unusable: Callable[[Any], str] = find_fault
) -> Path:
    """Run `calibrate` on the ranks, and return its file; raises MpiprofError if it fails.

    Other processes may disturb a measurement, so unusable message times are measured again, within
    a minute. A disturbed measurement takes several times as long as others.
    """
    machine, began = folder / "machine.json", time.monotonic()
    for _ in range(ATTEMPTS):
        run_quietly(start, verb_command("calibrate", "-o", str(machine)), folder, "calibrate")
        unusable = find_unusable(json.loads(machine.read_text()))
        if not unusable or time.monotonic() - began > ATTEMPTS * CALIBRATION_S:
            break
    return machine


def run_quietly(start: Start, words: Sequence[str], folder: Path, title: str) -> None:
    """Run a command without its output, which is raised as MpiprofError if the command fails."""
    output = folder / "output"
    output.unlink(missing_ok=True)
    # The nodes of an emulated cluster share the machine's clock, by which the recorder
    # distinguishes nodes. Host names identify nodes here, so that it measures times of messages
    # between nodes.
    script = f'MPIPROF_NODE=$(uname -n) exec "$@" >>{output} 2>&1'
    with tempfile.TemporaryFile("w+") as errors:
        with _redirect_errors(errors.fileno()):
            code = start(["/bin/sh", "-c", script, "sh", *words], {})
        errors.seek(0)
        launcher_output = errors.read()
    if code:
        lines = output.read_text(errors="replace").splitlines() if output.exists() else []
        last = lines[-1] if lines else find_failure(launcher_output) or "it printed nothing"
        shown = next((line for line in lines if "check failed" in line), last)
        raise MpiprofError(f"{title} ended with {code}: {shown}")


@contextlib.contextmanager
def _redirect_errors(descriptor: int) -> Iterator[None]:
    """Let this process and its children write standard error to another file."""
    sys.stderr.flush()
    before = os.dup(STDERR)
    os.dup2(descriptor, STDERR)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, STDERR)
        os.close(before)


def find_study_fault(
    study: ModuleType, ranks: int, options: Options, table: Mapping[str, Any]
) -> str:
    """Return why message times are unusable for the messages of a study, or ""."""
    fault = find_fault(table)
    find_smallest = getattr(study, "find_smallest_message", None)
    if not fault or find_smallest is None or find_fault(table, NO_MESSAGE):
        return fault
    machine = machine_of_table(table, "the measured table")
    in_series = getattr(study, "MESSAGES_IN_SERIES", False)
    return find_fault(table, find_smallest(Setup(ranks, options, machine)), in_series=in_series)


# ---- times by size


def tabulate_messages(machine: Mapping[str, Any]) -> list[Row]:
    """Return the measured times of a machine table; [] if some of them are not usable."""
    return [] if find_fault(machine) else _list_times(machine)


def _list_times(machine: Mapping[str, Any]) -> list[Row]:
    rows = []
    for name in LINK_NAMES:
        link = machine.get(name) or {"sizes": (), "one_way_ns": ()}
        for size, ns in zip(link["sizes"], link["one_way_ns"], strict=True):
            row = {"link": LINK_NAMES[name], "bytes": size, "time ms": ns / 1e6}
            rows.append(row | {"MB/s": 1e3 * size / ns})
    return rows


def describe_messages(machine: Mapping[str, Any], fault: str) -> str:
    """Return the measured times of some messages, or the fault that makes them unusable."""
    if fault:
        return f"Message times of `calibrate` are not usable: {fault}."
    harmless = find_fault(machine)  # only of times that the study does not use
    shown = SHOWN_BYTES[1:] if harmless else SHOWN_BYTES
    times = [
        f"{format_round_size(row['bytes'])} take {format_time(row['time ms'] * 1e6)} {row['link']}"
        for row in _list_times(machine)
        if row["bytes"] in shown
    ]
    text = f"T, one way: {', '.join(times)}." if times else "No message was timed."
    return f"{text} Without effect on this study: {harmless}." if harmless else text
