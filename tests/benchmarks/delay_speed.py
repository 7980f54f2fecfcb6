"""Speed and memory of delays: `python -m benchmarks.delay_speed [--calls N ...] [--ranks R]`.

The benchmark writes a trace of a halo exchange with one slow rank, and computes its delays in a new
process on one core. An event is a recorded call: a Waitall that took long, or a collective. The
output has a row per step and size: events per second of processor time, and the peak memory.
The exit code is 3 if a requirement is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from support.neighbours import make_ring
from support.program import END_NS, Program
from support.program_log import HAVE_BEGIN, HAVE_END

from benchmarks.checks import Row, report_rows
from benchmarks.memory import peak_mb
from benchmarks.view import number
from mpiprof.account.analysis_memory import BYTES_PER_MESSAGE_RECORD
from mpiprof.trace.chunks import MESSAGES
from mpiprof.trace.types import CALL, RECEIVED_PART, SENT_PART, Array
from mpiprof.trace.writer import (
    RECORD_TYPE,
    RECORDS_PER_CHUNK,
    make_chunks,
    make_head_chunk,
    pad_messages,
)

EXCHANGES = 5  # per step, which ends with an allreduce
WORK_NS, LATE_NS, NOISE = 1_000_000, 2_000_000, 0.1
SIMULATED_CALLS = 500_000  # the trace repeats these
GOAL = 3e6  # events/s of processor time, from log to costs


def simulate(ranks: int, calls: int) -> tuple[Program, int]:
    """Return a program with about this number of calls, and its steps."""
    program, random = Program(ranks, intervals=True), np.random.default_rng(1)
    steps = max(calls // (ranks * (EXCHANGES + 1)), 1)
    neighbours = make_ring(ranks)
    for _ in range(steps):
        for exchange in range(EXCHANGES):
            work = WORK_NS * (1 + NOISE * random.standard_normal(ranks))
            work[ranks // 2] += LATE_NS * (exchange == 0)
            program.halo(neighbours, own_ns=work.astype(np.int64))
        program.collective("allreduce")
    return program, steps


def write(folder: Path, calls: int, ranks: int) -> None:
    """Write a trace of about `calls` calls."""
    program, steps = simulate(ranks, min(calls, SIMULATED_CALLS))
    copies = max(calls // (steps * ranks * (EXCHANGES + 1)), 1)
    synthetic = program.synthetic
    period = int(program.now_ns.max()) - synthetic.started_ns
    synthetic.ended_ns = synthetic.started_ns + copies * period + END_NS
    synthetic.meta["options"] = {"messages": "auto"}
    program.log.finish()
    synthetic.write_meta(folder)
    for name, members in synthetic.list_files().items():
        (folder / f"{name}.tables").write_text("".join(map(synthetic.format_tables, members)))
        with (folder / f"{name}.log").open("wb") as log:
            log.write(make_head_chunk(has_outside=True))
            for rank in members:
                of_rank: dict[str, Any] = {"rank": rank, "spent": synthetic.spent[rank]}
                records = np.concatenate(synthetic.records[rank])
                repeated = (_shift(records, i, period, steps) for i in range(copies))
                _write_chunks(log, np.concatenate(list(repeated)), 0, of_rank)
                messages = _fill_chunk(pad_messages(np.concatenate(synthetic.messages[rank])))
                for i in range(copies):
                    serial = i * (len(messages) // RECORDS_PER_CHUNK)
                    shifted = _shift(messages, i, period, steps * EXCHANGES)
                    _write_chunks(log, shifted, serial, of_rank | {"content": MESSAGES})
                sums = np.concatenate(synthetic.message_sums[rank])
                _write_chunks(log, sums, 0, of_rank | {"content": MESSAGES, "thread": 1})


def _shift(records: Array, copy: int, period: int, numbers: int) -> Array:
    """Return a copy of records that is `copy` periods later; numbers: of calls in a period."""
    shifted = records.copy()
    kind = records["kind"]
    for name, kinds in (("enter_ns", HAVE_BEGIN), ("exit_ns", HAVE_END)):
        shifted[name][np.isin(kind, kinds)] += copy * period
    shifted["sequence"][np.isin(kind, (CALL, SENT_PART, RECEIVED_PART))] += copy * numbers
    return shifted


def _fill_chunk(records: Array) -> Array:
    """Append empty records up to the end of the last chunk."""
    missing = -len(records) % RECORDS_PER_CHUNK
    return np.concatenate([records, np.zeros(missing, RECORD_TYPE)])


def _write_chunks(log: BinaryIO, records: Array, serial: int, of_rank: dict[str, Any]) -> None:
    options = {"thread": 0, "window": False} | of_rank
    log.write(make_chunks(records, serial=serial, **options))


def measure(folder: Path) -> Iterator[Row]:
    """Compute the delays on one core, and yield a row per step."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import mpiprof
    from mpiprof.trace.malloc_tuning import retain_freed_memory

    retain_freed_memory()  # as verbs do
    trace = mpiprof.open(folder)
    first_mb = peak_mb()
    steps: dict[str, Callable[[], object]] = {
        "call sites": lambda: trace.callsites,
        "calls on messages": lambda: trace.message_calls,
        "intervals": lambda: trace.intervals,
        "waits": lambda: trace.message_waits,
        "windows": lambda: trace.derive("delays_found"),
        "costs": lambda: trace.derive("delays_found").graph.compute_costs(),
        "table of delays": lambda: trace.delays,
    }
    spent = {}
    for name, step in steps.items():
        begin = time.process_time()
        step()
        spent[name] = time.process_time() - begin
    table = trace.callsites
    calls = int((table["instances"] * table["size"]).sum()) + len(trace.message_calls)
    yield Row("events", "", f"{calls:,}")
    yield Row("waits", "", f"{len(trace.derive('delays_found').waits.rank):,}")
    for name, seconds in spent.items():
        yield Row(f"  {name}: ns per event", "", f"{seconds / calls * 1e9:.0f} ns")
    whole = sum(spent.values()) - spent["costs"]  # which the table of delays computes again
    goal = f">= {GOAL / 1e6:g} million"
    for name, seconds in (("costs", spent["costs"]), ("all", whole)):
        rate = calls / seconds
        yield Row(f"{name}: events/s", goal, f"{rate / 1e6:.2f} million", rate >= GOAL)
    peak = (peak_mb() - first_mb) * 1e6
    chunks = (chunk for of_thread in trace.logs.messages.values() for chunk in of_thread)
    each = peak / sum(chunk.log.layout.capacity for chunk in chunks)
    limit = f"<= {BYTES_PER_MESSAGE_RECORD} bytes"
    yield Row("peak memory", "", f"{peak_mb():,.0f} MB, {peak / calls:.0f} bytes an event")
    yield Row(
        "peak memory per record", limit, f"{each:.0f} bytes", each <= BYTES_PER_MESSAGE_RECORD
    )


def measure_windows(folder: Path, count: int) -> Iterator[Row]:
    """Find the causes on one core in this number of windows, as if there was no more memory."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import mpiprof
    from mpiprof.account import analysis_memory, run_windows
    from mpiprof.trace.malloc_tuning import retain_freed_memory

    retain_freed_memory()
    trace = mpiprof.open(folder)
    needed = analysis_memory.count_analysis_bytes(trace) / (count - 0.5)
    needed += run_windows.count_margin_bytes(trace)
    analysis_memory.MAX_BYTES = needed
    begin, first_mb = time.process_time(), peak_mb()
    trace.findings()
    seconds = time.process_time() - begin
    table = trace.callsites
    calls = int((table["instances"] * table["size"]).sum())
    calls += int(trace.derive("window_waits")["calls"].sum())
    yield Row("events", "", f"{calls:,} in {len(trace.derive('window_delays'))} windows")
    yield Row("windows: events/s", "", f"{calls / seconds / 1e6:.2f} million")
    peak = f"{peak_mb():,.0f} MB, {(peak_mb() - first_mb) * 1e6 / calls:.0f} bytes an event"
    yield Row("windows: peak memory", "", peak)


def command() -> int:
    """Write traces, and compute their delays in other processes; return the worst exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=number, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--ranks", type=number, default=256)
    parser.add_argument("--windows", type=number, default=1)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        if options.windows > 1:
            return report_rows(measure_windows(options.read, options.windows))
        return report_rows(measure(options.read))
    worst = 0
    for calls in options.calls:
        with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as folder:
            write(Path(folder), calls, options.ranks)
            words = [sys.executable, "-m", "benchmarks.delay_speed", "--read", folder]
            words += ["--windows", str(options.windows)]
            worst = max(worst, abs(subprocess.run(words, check=False).returncode))
    return worst


if __name__ == "__main__":
    sys.exit(command())
