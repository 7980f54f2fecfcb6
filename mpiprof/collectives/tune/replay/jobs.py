"""`tune --replay`: replays the tasks of a trace on the ranks of a job, and returns the results.

The trace is read before MPI starts: by the process that starts the ranks, or under a bare mpiexec
by rank 0, while the other ranks wait in MPI_Init. Files in a temporary folder carry the tasks to
the ranks and the outcome back.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mpiprof.collectives import machine
from mpiprof.collectives.library_choice import identify_family
from mpiprof.collectives.papers.cluster import network as cluster
from mpiprof.collectives.papers.harness import timing
from mpiprof.collectives.tune.candidates import list_candidates
from mpiprof.collectives.tune.replay import imposed_arrivals
from mpiprof.collectives.tune.replay.imposed_arrivals import MAX_ERROR_NS, MIN_LAPS, Outcome, Task
from mpiprof.collectives.tune.result import REPLAY, Result, Trial
from mpiprof.collectives.tune.tasks import TuningTask, choose_works
from mpiprof.collectives.variant import NATIVE
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.interface.progress import show_work
from mpiprof.launch import ranks as launched
from mpiprof.launch.job import find_rank, find_rank_count
from mpiprof.trace import Trace
from mpiprof.trace.default_trace import choose_trace

MAX_PATTERNS = 12
# Bytes of the messages into which a library's algorithms divide the data.
SEGMENT_SIZES = (8192, 65536)
MAX_WORKS = 12
WORKS_VARIABLE = "MPIPROF_TUNE_WORKS"


@dataclass(frozen=True)
class ReplayRequest:
    """Options of the command line; `words` start one rank."""

    trace: Path | None
    site: str | None
    ranks: int | None
    cluster: str | None
    budget: float
    words: tuple[str, ...]


@dataclass(frozen=True)
class ReplayedTrace:
    """Results of a replayed trace, and the machine that they are from."""

    trace: Trace
    results: list[Result]
    outcome: Outcome
    environment: str


def replay_trace(request: ReplayRequest) -> ReplayedTrace | int:
    """Replay on this job's ranks, or start ranks; returns an exit code on all processes but one."""
    started = request.ranks is not None or request.cluster is not None
    if find_rank(os.environ) is not None:
        if started:
            remedy = "run this command without mpiexec"
            raise UsageError(f"-n and --cluster start the ranks themselves: {remedy}")
        return run_rank(request)
    if not started:
        command = "mpiexec -n 16 python -m mpiprof tune TRACE --replay"
        ways = f"use `{command}`, -n 4, or --cluster 16x100mbit"
        raise UsageError(f"no ranks for the replay: {ways}")
    return start(request)


# ---- tasks


def prepare_tasks(request: ReplayRequest, ranks: int | None) -> tuple[Trace, list[TuningTask]]:
    """Return the trace and the tasks that fit on so many ranks; raises UsageError if none fits."""
    from mpiprof.formats.cached_trace import open_trace  # imports pandas, so on few ranks

    folder = choose_trace(request.trace)
    with show_work(f"reading {folder}"):
        trace = open_trace(folder)
    works = [w for w in choose_works(trace, MAX_PATTERNS, request.site) if w.instances > 2]
    if not works:
        raise MpiprofError(f"{trace.path}: the trace has no blocking collective to replay")
    fitting = [w for w in works if ranks is None or w.members <= ranks]
    if not fitting:
        largest_size = min(w.members for w in works)
        raise UsageError(f"--replay on {ranks} ranks: the trace requires at least {largest_size}")
    return trace, fitting[:MAX_WORKS]


def make_tasks(trace: Trace, works: Sequence[TuningTask], ranks: int) -> list[Task]:
    """Return the tasks of the ranks."""
    table = trace.machine
    trace_machine = machine.machine_of_table(table, "meta.json") if table else machine.DEFAULT
    alpha, beta = trace_machine.alpha, trace_machine.beta
    tasks = []
    for work in works:
        names = [c.name for c in list_candidates(work, trace_machine)]
        names += library_variants(trace, work)
        members = work.ranks if ranks >= trace.ranks else tuple(range(work.members))
        problems = tuple(replace(p.problem, alpha=alpha, beta=beta) for p in work.patterns)
        arrivals = tuple(np.rint(p.arrivals).astype(np.int64) for p in work.patterns)
        tasks.append(Task(work.operation, (NATIVE, *names), problems, arrivals, members))
    return tasks


def library_variants(trace: Trace, work: TuningTask) -> list[str]:
    """Return the library's algorithms that may run there; the first lap drops the others."""
    family = identify_family(trace.mpi)
    if family is None or work.remote_size:
        return []
    largest = max(p.problem.bytes for p in work.patterns)
    sizes = [f":segment={size}" for size in SEGMENT_SIZES if size < largest]
    return [
        f"{NATIVE}:{a.name}{end}"
        for a in find_algorithms(family, work.operation)
        if a.is_selectable and a.runs_on(work.members)
        for end in ("", *(sizes if a.is_segmented else ()))
    ]


def make_results(works: Sequence[TuningTask], outcome: Outcome) -> list[Result]:
    """Return the measurements as results: scores by lap, from instances with correct arrivals."""
    results = []
    for work, r in zip(works, outcome.replayed, strict=True):
        right: dict[str, set[int]] = {}
        for name, shots in r.shots.items():
            right[name] = {s.lap for s in shots if s.error_ns <= MAX_ERROR_NS}
        of_library = right.get(NATIVE, set())
        near = all(len(of_library & right[name]) >= MIN_LAPS for name in r.remaining)
        scores = {name: np.full(outcome.laps, np.nan) for name in r.shots}
        for name, shots in r.shots.items():
            for s in shots:
                if s.error_ns <= MAX_ERROR_NS or not near:
                    scores[name][s.lap] = r.task.score_shot(s)
        base = scores.pop(NATIVE, np.full(outcome.laps, np.nan))
        trials = tuple(Trial(name, values) for name, values in scores.items())
        errors = [s.error_ns for shots in r.shots.values() for s in shots]
        note = "not within the --budget"
        if errors:
            note = f"arrivals imposed within {np.median(errors) / 1e3:.0f} us (median)"
            if not near:
                note += f", too far off to leave out what is beyond {MAX_ERROR_NS // 1000}"
        results.append(Result(work, REPLAY, base, np.ones(outcome.laps), trials, 1.0, note))
    return results


# ---- starting ranks


def start(request: ReplayRequest) -> ReplayedTrace | int:
    """Read the trace, start the ranks here or on an emulated cluster, and wait for them."""
    mpi = launched.mpi_of_this_python(os.environ)
    shape = cluster.parse(request.cluster) if request.cluster else None
    ranks = shape.ranks if shape is not None else request.ranks or 0
    trace, works = prepare_tasks(request, ranks)
    with cluster.raise_on_termination(), tempfile.TemporaryDirectory(prefix="mpiprof-tune-") as t:
        folder = Path(t)
        file = folder / "works"
        file.write_bytes(pickle.dumps(make_tasks(trace, works, ranks)))
        inside = launched.rank_environment(request.words, mpi, folder / "trace")
        inside[WORKS_VARIABLE] = str(file)
        level = trace.meta.get("library")
        if isinstance(level, dict) and level.get("multiple") is False:
            # The recorded program had at most one thread in MPI at a time.
            inside |= launched.serialize_threads()
        where = "this machine"
        if shape is not None:
            where = f"an emulated cluster of {shape}"
            with cluster.Cluster(shape) as emulated_cluster:
                code = emulated_cluster.run(mpi, ranks, request.words, inside)
        else:
            code = launched.start(mpi, ranks, request.words, inside)
        if code:
            return code
        outcome = pickle.loads(file.with_name("outcome").read_bytes())
    return ReplayedTrace(trace, make_results(works, outcome), outcome, where)


# ---- one rank


def run_rank(request: ReplayRequest) -> ReplayedTrace | int:
    """Run as one rank."""
    if not launched.is_preloaded():
        # A rank of a bare mpiexec has no recorder yet.
        restart_preloaded(request)
    tasks: list[Any] | MpiprofError
    try:
        ranks = timing.begin_study()
        rank = ranks.rank
        file = os.environ.get(WORKS_VARIABLE)
        tasks = ranks.world.bcast(pickle.loads(Path(file).read_bytes()) if file else None)
        outcome = None
        if not isinstance(tasks, MpiprofError):
            outcome = imposed_arrivals.replay(ranks, tasks, request.budget)
    except BaseException as error:
        timing.abort_on_error(error)
        raise
    launched.finalize_mpi()
    if isinstance(tasks, MpiprofError):
        if file is not None:
            Path(file).unlink()
        if rank:
            return tasks.exit_code
        raise tasks
    if outcome is None or file is None:
        return 0
    if not launched.was_restarted():
        Path(file).with_name("outcome").write_bytes(pickle.dumps(outcome))
        return 0
    Path(file).unlink()
    trace, works = prepare_tasks(request, outcome.ranks)
    return ReplayedTrace(trace, make_results(works, outcome), outcome, "")


def restart_preloaded(request: ReplayRequest) -> NoReturn:
    """Read the trace on rank 0 while other ranks go on; restart with the recorder preloaded."""
    ranks = find_rank_count(os.environ)
    variables = {}
    if find_rank(os.environ) == 0:
        tasks: list[Task] | MpiprofError
        try:
            trace, works = prepare_tasks(request, ranks)
            tasks = make_tasks(trace, works, ranks or trace.ranks)
        except MpiprofError as error:
            tasks = error  # passed to all ranks, so that none waits for this one
        handle, variables[WORKS_VARIABLE] = tempfile.mkstemp(prefix="mpiprof-tune-")
        with os.fdopen(handle, "wb") as file:
            file.write(pickle.dumps(tasks))
    mpi = launched.mpi_of_this_python(os.environ)
    launched.restart_preloaded(request.words, mpi, variables=variables)
