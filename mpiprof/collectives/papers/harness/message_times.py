"""Message times of a study's ranks.

`calibrate` measures them in a job of its own. Without it, each study measures them on its ranks
while all ranks shift messages around a ring. The result is a machine table in the recorder's
format. It includes the evidence by which `mpiprof.trace.machine.find_fault` refuses times that
would not repeat (see core/timing/repetitions.c), as on an emulated cluster without `calibrate`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiprof.collectives.machine import machine_of_table
from mpiprof.collectives.papers.harness.calls import import_mpi
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.study import Row, Setup
from mpiprof.collectives.papers.harness.timing import Ranks, first_rank_of_nodes
from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_round_size, format_time
from mpiprof.launch.mpiexec import find_failure
from mpiprof.launch.program import verb_command
from mpiprof.trace.machine import LINK_NAMES, MIN_REPETITIONS, NO_MESSAGE, find_fault

Start = Callable[[Sequence[str], Mapping[str, str]], int]  # runs a command on all ranks
CALIBRATION_S = 20
STDERR = 2  # file descriptor
ATTEMPTS = 3
Times = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Two large sizes determine the slope, because an idle port sends its first bytes at once.
MESSAGE_SIZES = (0, 65536, 262144)
REPETITIONS = 16
EXCHANGES = 3  # per round; the shortest counts
SPREAD_PARTS = 8  # parts of the rounds, in order of time
MAX_DURATION_NS = 3_000_000_000  # if ranks outnumber cores, an exchange may take 100 ms
SHOWN_BYTES = (4, 65536)  # messages with printed times
REMEDY = "repeat on a quiet machine, or pass --machine FILE of `calibrate`"


def calibrate_ranks(
    start: Start, folder: Path, find_unusable: Callable[[Any], str] = find_fault
) -> Path:
    """Run `calibrate` on the ranks, and return its file; raises MpiprofError if it fails.

    Unusable message times are measured again within a minute, because other processes may disturb
    a measurement.
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
        message = next((line for line in lines if "check failed" in line), last)
        raise MpiprofError(f"{title} ended with {code}: {message}")


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
    sizes = SHOWN_BYTES[1:] if harmless else SHOWN_BYTES
    times = [
        f"{format_round_size(row['bytes'])} take {format_time(row['time ms'] * 1e6)} {row['link']}"
        for row in _list_times(machine)
        if row["bytes"] in sizes
    ]
    text = f"T, one way: {', '.join(times)}." if times else "No message was timed."
    return f"{text} Without effect on this study: {harmless}." if harmless else text


# ---- measurement on the ranks of a study


def measure_message_times(ranks: Ranks) -> dict[str, Any]:
    """Return the machine table of these ranks; collective over all ranks, with equal results."""
    world = ranks.world
    nodes = first_rank_of_nodes(world)
    # On several nodes, the times are from the ranks that send to another node.
    sending = [r for r in range(world.size) if nodes[r] != nodes[(r + 1) % world.size]]
    times, clean = _measure_rounds(world, blocking=bool(sending))
    every_time = np.zeros((world.size, *times.shape))
    every_clean = np.zeros((world.size, *clean.shape), np.bool_)
    world.Allgather(times, every_time)
    world.Allgather(clean, every_clean)
    chosen = every_time[sending] if sending else every_time
    link = fit_link(np.median(chosen, axis=0), np.asarray(every_clean.all(axis=0)))
    return {"source": "bench", "between" if sending else "within": link}


def fit_link(times: Times, clean: Flags) -> dict[str, Any]:
    """Return the link of a table from times, MESSAGE_SIZES x rounds; `clean`: undisturbed ones."""
    measured = [_time_and_spread(t, c) for t, c in zip(times, clean, strict=True)]
    small, middle, large = (took for took, _ in measured)
    return {
        "alpha_ns": small,
        "beta_ns_per_byte": (large - middle) / (MESSAGE_SIZES[2] - MESSAGE_SIZES[1]),
        "sizes": list(MESSAGE_SIZES),
        "undisturbed_rounds": clean.sum(axis=1).tolist(),
        "spread": [spread for _, spread in measured],
    }


def _time_and_spread(times: Times, clean: Flags) -> tuple[float, float]:
    """Return the repeatable time, and the relative excess of the middle part of the rounds."""
    count = int(clean.sum())
    chosen = times[clean == (count >= MIN_REPETITIONS or count >= len(times) - count)]
    took = float(np.sort(chosen)[len(chosen) // 10])
    parts = np.array_split(chosen, min(SPREAD_PARTS, len(chosen)))
    shortest = sorted(float(part.min()) for part in parts)
    return took, max(shortest[len(shortest) // 2] / took, 1.0)


def _measure_rounds(world: Any, *, blocking: bool) -> tuple[Times, Flags]:
    """Return this rank's times in ns, and if it stayed on its core, MESSAGE_SIZES x rounds.

    blocking: whether receives may give up the core, as those from other nodes.
    """
    byte, largest = import_mpi().BYTE, max(MESSAGE_SIZES)
    buffer, into = np.zeros(largest, np.uint8), np.zeros(largest, np.uint8)
    right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    times = np.zeros((len(MESSAGE_SIZES), REPETITIONS))
    clean = np.zeros_like(times, np.bool_)
    start, count = time.monotonic_ns(), 0
    # The first round makes the connections; a round's first exchange synchronises the ranks.
    for number in range(-1, REPETITIONS):
        late = time.monotonic_ns() - start > MAX_DURATION_NS
        if world.bcast(late and number >= MIN_REPETITIONS):
            break
        count = number + 1
        for i, n in enumerate(MESSAGE_SIZES):
            before, took = count_switches(blocking=blocking), []
            for _ in range(EXCHANGES):
                began = time.monotonic_ns()
                world.Sendrecv([buffer, n, byte], right, 0, [into, n, byte], left, 0)
                took.append(time.monotonic_ns() - began)
            times[i, number] = min(took)
            clean[i, number] = count_switches(blocking=blocking) == before
    # MPI requires contiguous arrays, and a slow network allows fewer rounds than requested.
    return np.ascontiguousarray(times[:, :count]), np.ascontiguousarray(clean[:, :count])


def count_switches(*, blocking: bool) -> int:
    """Return how often this thread lost its core; if receives may block, only involuntarily."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_nivcsw + (0 if blocking else used.ru_nvcsw)
