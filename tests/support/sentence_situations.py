"""Typical situations in which reports state sentences.

A situation writes its traces below a folder, and returns the reports on them as functions. The
programs are those of the unit tests and of tests/causes. Jobs that hang are in `hang_situations`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import mpiprof
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.rank_pairs import list_waiting_pairs
from mpiprof.causes.arrival_statistics import find_late_rank
from mpiprof.causes.cause_changes import compare_ledgers
from mpiprof.causes.finding import find_causes_at
from mpiprof.causes.findings import make_verdict
from mpiprof.causes.sampled_code import make_stack_tree
from mpiprof.reports.words import (
    answer_facts,
    callsite_sentences,
    change_sentences,
    conclusion,
    delay_sentences,
    division,
    finding_sentences,
    message_sentences,
    stack_sentences,
    trace_sentences,
)
from mpiprof.trace import Trace
from mpiprof.trace.thread_times import NamedThreads
from support import dashboard_traces, hang_situations, page_traces
from support.dataset_traces import messaging
from support.hang_traces import abort, drop
from support.headline_situations import make_headlines
from support.jobs import run_verb
from support.late_traces import noise, one_site
from support.program import Program
from support.run_folders import write_runs
from support.run_pairs import Program as RunProgram
from support.run_pairs import record
from support.spec_files import find_spec
from support.synthetic import Synthetic
from support.where_samples import add_samples

Reports = Iterator[Callable[[], object]]
MS = 1_000_000
# By situation: file and title of a specification in tests/causes.
CAUSES = {
    "ranks with different delays": ("coupled_ranks", "Two delays of different size"),
    "late ranks": ("late_ranks", "Two to four ranks"),
    "less work": ("late_ranks", "A third of the ranks with less work"),
    "late node": ("late_ranks", "Slow node"),
    "gradient": ("late_ranks", "Gradient"),
    "loads of all ranks": ("late_ranks", "Loads of all ranks"),
    "moving front": ("moving_delays", "Smooth front"),
    "alternating ranks": ("moving_delays", "Two ranks alternate"),
    "delay that moves on after 20 steps": ("adaptive_mesh", "Two ranks in each epoch"),
    "growing delay": ("gradual_delays", "Growing from step 20 to 40"),
    "shrinking delay": ("gradual_delays", "Shrinking more and more slowly"),
    "levels": ("gradual_delays", "Levels in phases"),
    "periodic delay": ("delay_steps", "Periodic"),
    "varying delay": ("delay_steps", "Varying"),
    "noise": ("fair_programs", "Normal noise in collectives"),
    "one instance": ("few_steps", "A few long breaks"),
    "stopped rank": ("off_processor", "2 s before a call"),
    "stop in a collective": ("off_processor", "2 s inside a collective"),
    "shared processor": ("oversubscription", "Two ranks"),
    "other programs": ("oversubscription", "Other programs"),
    "processor quota": ("processor_quota", "One rank"),
    "polling": ("polling", "Pauses of 10 ms"),
    "repeated stops": ("repeated_stops", "25 stops"),
    "serial section": ("serial_section", "Half of the parallel work"),
    "slow link": ("slow_link", "Short messages"),
    "larger messages": ("larger_messages", "Rank 3"),
    "unequal groups": ("unequal_groups", "Four of 16 ranks"),
    "wavefront": ("wavefront", "From one corner"),
    "lock queue": ("lock_queue", "All clients hold the lock for 1 ms"),
}


def run(*words: object) -> None:
    """Run a verb, which must succeed."""
    code, _, error = run_verb(*words)
    assert code == 0, (words, error)


def plant_cause(folder: Path, file: str, title: str) -> Reports:
    """Write the program of a specification in tests/causes."""
    case = find_spec(file, title).make_case()
    case.build(**case.planted).write(folder)
    trace = mpiprof.open(folder)
    yield partial(state_findings, trace)
    if title == "Two to four ranks":  # its messages take much time
        yield lambda: run("report", folder, "-o", folder.with_suffix(".html"))
        pairs = list_waiting_pairs(find_located_waits(trace))
        yield lambda: message_sentences.headline_text(trace, pairs)
        yield lambda: message_sentences.further_sentences(trace, pairs)
        yield lambda: message_sentences.headline_text(trace, pairs[:0])


def state_findings(trace: Trace) -> None:
    """Make the verdict and all findings."""
    findings = trace.findings()
    conclusion.verdict_lines(trace, make_verdict(trace, findings))
    division.division_sentences(trace)
    callsite_sentences.name_causes(findings)
    for finding in findings:
        finding_sentences.finding_title(trace, finding)
        finding_sentences.finding_text(trace, finding)
        answer_facts.list_facts(trace, finding)


def late_rank(folder: Path) -> Reports:
    """Write a rank that is late before a collective and makes its neighbours wait for messages."""
    page_traces.simulate(8, 5, 40, sampled=True).write(folder)
    trace = mpiprof.open(folder)
    causes = trace.findings()
    rows: list[Any] = trace.callsites.to_dict("records")
    for row in rows:
        late = find_late_rank(trace, row["callsite"])
        at = find_causes_at(causes, row["callsite"])
        yield partial(callsite_sentences.callsite_headline, row, late, 0.0)
        yield partial(callsite_sentences.callsite_headline, row, None, 0.0, at)
    for words in (
        ("-o", folder.with_suffix(".html")),
        ("--explain",),
        ("--site", "dot"),
        ("--site", "exchange"),
        ("--site", "read_step"),
        ("--rank", 2),
        ("--what-if", "rank 5 = median"),
    ):
        yield partial(run, "report", folder, *words)


def sampled(folder: Path) -> Reports:
    """Write one instance in 4."""
    page_traces.simulate(16, 9, 120, sample=4).write(folder)
    yield lambda: run("report", folder, "--all")


def summary(folder: Path) -> Reports:
    """Write totals without single calls."""
    page_traces.write_summary(folder)
    yield lambda: run("report", folder, "--all")
    yield lambda: run("status", folder)


def damaged(folder: Path) -> Reports:
    """Write a trace without the log of a rank."""
    page_traces.write_damaged(folder)
    trace = mpiprof.open(folder)
    yield lambda: run("report", folder, "--all")
    yield lambda: run("report", folder, "-o", folder.with_suffix(".html"))
    yield lambda: run("compare", folder, folder)
    yield lambda: trace_sentences.describe_lost_ranks(trace)


def dropped(folder: Path) -> Reports:
    """Write a trace that lacks some records of a rank."""
    page_traces.simulate(4, 2, 5).write(folder)
    drop(folder, 1)
    yield lambda: run("report", folder, "--all")


def killed(folder: Path) -> Reports:
    """Write a job of which two ranks did not reach MPI_Finalize."""
    program = page_traces.simulate(4, 2, 5)
    program.log.finish()
    program.synthetic.write(folder, finished=(0, 2))
    yield lambda: run("report", folder, "--all")


def aborted(folder: Path) -> Reports:
    """Write a job that ended in MPI_Abort."""
    abort(page_traces.simulate(4, 2, 5).write(folder))
    yield lambda: run("report", folder, "--all")


def empty(folder: Path) -> Reports:
    """Write a trace without calls."""
    dashboard_traces.empty(folder)
    yield lambda: run("report", folder, "--all")


def limited(folder: Path) -> Reports:
    """Write a trace whose logs reached their limit after 40 of 200 ms."""
    synthetic = _make_steps(4, 20)
    for rank in range(4):
        limit = {"at_ns": int(synthetic.to_local(rank, 40 * MS)), "bytes": 1 << 20}
        synthetic.lines[rank].append({"rank": rank, "limit": limit})
    synthetic.ended_ns = 200 * MS
    synthetic.write(folder)
    yield lambda: run("report", folder, "--all")


def call_free(folder: Path) -> Reports:
    """Write a run with a long stretch in which no rank calls MPI."""
    program = Program(3, intervals=True)
    for step in range(10):
        work_ms = np.array((30, 40, 50)) if step == 4 else np.full(3, 5)
        program.collective("barrier", own_ns=work_ms * MS)
    program.write(folder)
    yield lambda: run("report", folder, "--all")


def complete_windows(folder: Path) -> Reports:
    """Write a run whose message calls are recorded for half of the time, and without windows."""
    for name in ("all", "half"):
        program = Program(2)
        for _ in range(20):
            program.work(np.array([MS, 5 * MS]))
            program.message_to_wait(1, 0)
        program.collective("barrier")
        program.write(folder / name)
    trace = mpiprof.open(folder / "all")
    half_ns = trace.run_start_ns + trace.run_ns // 2
    for rank in range(2):
        with (folder / "half" / f"rank-{rank:06d}.tables").open("a") as file:
            for mark in ({"begin_ns": trace.run_start_ns}, {"end_ns": half_ns}):
                file.write(json.dumps({"rank": rank, "complete": mark}) + "\n")
    yield lambda: run("report", folder / "half", "--all")


def incomplete_messages(folder: Path) -> Reports:
    """Write messages of which some steps have only the long calls, and the reasons of waits."""
    messaging(folder)
    yield lambda: run("report", folder, "--all")
    for operation in message_sentences.WINDOW_REASONS:
        yield partial(message_sentences.split_reason, operation)


def busy_threads(_: Path) -> Reports:
    """Make the threads that work beside the calling thread of a rank."""
    table = pd.DataFrame({"rank": [1], "other_threads_ns": [10.0 * MS]})
    for times_ns in ((8 * MS, MS), (MS,)):
        threads = [NamedThreads(f"worker {i}", 4, ns) for i, ns in enumerate(times_ns)]
        trace: Any = SimpleNamespace(tables=SimpleNamespace(threads={1: threads}), intervals=table)
        yield partial(delay_sentences.name_busy_threads, trace, [1])


def periodic_instances(folder: Path) -> Reports:
    """Write a call site of which every tenth instance is different."""
    late = noise(200, 8, 0.1)
    late[:, 5] += 3
    late[3::10, 0] += 6
    trace = one_site(folder, Synthetic(8), late)
    yield lambda: run("report", trace.path, "--site", "allreduce")


def exceeded_processors(folder: Path) -> Reports:
    """Write ranks with more threads than processors, and with a call that was off the processor."""
    synthetic = _make_steps(2, 20)
    stalled = {"enter_ns": 19 * MS, "exit_ns": 80 * MS, "shape": 0}
    stalled |= {"asleep_ns": 2 * MS, "queue_ns": 50 * MS}
    synthetic.lines[1].append({"rank": 1, "stalled_call": stalled})
    synthetic.write(folder)
    for path in folder.glob("*.tables"):
        first, _, rest = path.read_text().partition("\n")
        line = json.loads(first)
        line["process"] |= {"environment": {"OMP_NUM_THREADS": "4"}, "node_processors": 2}
        path.write_text(f"{json.dumps(line)}\n{rest}")
    yield lambda: run("report", folder, "--all")


def few_samples(folder: Path) -> Reports:
    """Write samples without callers, few of them."""
    synthetic = _make_steps(4, 20)
    add_samples(synthetic, 2, "app.py:12:step", "app.py:12:step", "a.c:3:kernel", 8, 10 * MS)
    trace = mpiprof.open(synthetic.write(folder))
    tree = make_stack_tree(trace, [[2]])
    yield lambda: stack_sentences.caller_note(tree)
    yield lambda: stack_sentences.sample_note(tree, ["rank 2"])


def slow_calls(folder: Path) -> Reports:
    """Write collectives that take longer than the waiting in them."""
    _make_steps(4, 20, cost_ms=3.0).write(folder)
    yield lambda: run("report", folder, "--all")
    yield lambda: run("report", folder, "--site", "app.py")


def compared(folder: Path) -> Reports:
    """Write pairs and groups of runs: slower, equal, with a new cause, incomparable."""
    folder.mkdir()
    runs = {
        name: [folder / f"{name}{i}" for i in range(4)] for name in ("usual", "slow", "repeated")
    }
    slow = RunProgram(loads=(10.0,) * 7 + (14.0,))
    for seed, path in enumerate(path for paths in runs.values() for path in paths):
        record(path, slow if path.name.startswith("slow") else RunProgram(), seed)
    page_traces.simulate(8, 5, 40).write(folder / "late")
    page_traces.simulate(8, 5, 40, 1).write(folder / "early")
    usual = runs["usual"]
    yield lambda: run("compare", usual[0], runs["slow"][0])
    yield lambda: run("compare", usual[0], runs["repeated"][0])
    yield lambda: run("compare", *usual, "--to", *runs["slow"], "--all")
    yield lambda: run("compare", *runs["slow"], "--to", *usual, "--all")
    yield lambda: run("compare", *usual, "--to", *runs["repeated"], "--all")
    yield lambda: run("compare", usual[0], folder / "late")
    yield lambda: run("compare", folder / "early", folder / "late", "--all")
    yield lambda: run("compare", folder / "late", folder / "early", "--all")
    sides = [[mpiprof.open(path) for path in runs[name]] for name in ("usual", "slow")]
    for pair in (sides, sides[::-1]):
        changes = compare_ledgers(*pair).places
        yield partial(change_sentences.advise_place, changes, "B")


def scaled(folder: Path) -> Reports:
    """Write runs on 2, 4 and 8 ranks with less work for each rank, one of which has more."""
    folder.mkdir()
    paths = [folder / str(ranks) for ranks in (2, 4, 8)]
    for path in paths:
        ranks = int(path.name)
        _make_steps(ranks, 10, work_ms=24 / ranks, late_ms=3.0, cost_ms=0.0).write(path)
    yield lambda: run("compare", "--scaling", *paths)


def history(folder: Path) -> Reports:
    """Write the runs of a program with a change, without one, and too few of them."""
    folder.mkdir()
    write_runs(folder / "changed", 12, 6)
    write_runs(folder / "changed", 2, 9, "other.py")
    write_runs(folder / "equal", 9, 99)
    write_runs(folder / "few", 3, 99)
    for name in ("changed", "equal", "few"):
        yield partial(run, "history", folder / name)


def _make_steps(
    ranks: int, steps: int, work_ms: float = 8.0, late_ms: float = 1.0, cost_ms: float = 1.0
) -> Synthetic:
    """Return steps of work, longer on the last rank, that end in an allreduce."""
    step = work_ms + late_ms + cost_ms
    late = np.where(np.arange(ranks) == ranks - 1, late_ms, 0.0)
    starts = step * np.arange(steps)[:, None]
    arrivals = np.rint((starts + work_ms + late) * MS).astype(np.int64)
    exits = np.rint((starts + step + 0.0 * late) * MS).astype(np.int64)
    synthetic = Synthetic(ranks)
    synthetic.add_collective("allreduce", arrivals, exits, site="app.py:12:step")
    synthetic.started_ns, synthetic.ended_ns = 0, round(step * steps * MS)
    return synthetic


WRITERS: dict[str, Callable[[Path], Reports]] = {
    write.__name__.replace("_", " "): write
    for write in (
        *(late_rank, sampled, summary, damaged, dropped, killed, empty, limited, call_free),
        *(
            incomplete_messages,
            busy_threads,
            complete_windows,
            periodic_instances,
            exceeded_processors,
            few_samples,
        ),
        *(aborted, slow_calls, compared, scaled, history),
    )
}


def write_situations(folder: Path) -> Iterator[tuple[str, Reports]]:
    """Yield the name and the reports of each situation, whose traces are written below a folder."""
    for name, write in WRITERS.items():
        yield name, write(folder / name.replace(" ", "_"))
    yield "headline", make_headlines(folder)
    for name, spec in CAUSES.items():
        yield name, plant_cause(folder / name.replace(" ", "_"), *spec)
    for name, make in hang_situations.SITUATIONS.items():
        yield name, make(folder / name.replace(" ", "_"))
