"""`tune --replay`: the tasks of a trace on the ranks of a job, and what was measured as results.

The trace is read before MPI begins, by the process that starts the ranks, or under a bare mpiexec
by rank 0, while the others wait in MPI_Init. Files in a folder of our own carry the tasks to the
ranks and the outcome back.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.commands import bench, tune
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.launch.job import job_in, rank_in, ranks_in
from mpiprof.launch.library import Mpi
from mpiprof.launch.program import become, python_flags

if TYPE_CHECKING:
    from mpiprof.bench.replay import Outcome, Task
    from mpiprof.trace import Trace
    from mpiprof.tune.result import Result
    from mpiprof.tune.work import Work

MOST_PATTERNS = 12
MOST_WORKS = 12
WORKS = "MPIPROF_TUNE_WORKS"


def run(args: argparse.Namespace) -> int:
    """Replay on the ranks of this job, or start them."""
    environment = dict(os.environ)
    inside = rank_in(environment) is not None
    if inside and (args.ranks is not None or args.cluster):
        raise UsageError("-n and --cluster start ranks themselves: leave out this mpiexec")
    if inside:
        return take_part(args)
    if args.ranks is None and not args.cluster:
        raise UsageError(
            "say where to replay: `mpiexec -n 16 python -m mpiprof tune TRACE --replay`, -n 4, or "
            "--cluster 16x100mbit"
        )
    return start(args, bench.this_mpi(environment), environment)


# ---- tasks


def prepared(args: argparse.Namespace, ranks: int | None) -> tuple[Trace, str, list[Work]]:
    """Return the trace and what of it can be replayed on so many ranks; raises UsageError."""
    trace, name = tune.opened(args)
    works = [w for w in tune.chosen_works(args, trace, MOST_PATTERNS) if w.instances > 2]
    if not works:
        raise MpiprofError(f"{trace.path}: no blocking collective to replay was recorded")
    fitting = [w for w in works if ranks is None or w.members <= ranks]
    if not fitting:
        most = min(w.members for w in works)
        raise UsageError(f"--replay on {ranks} ranks: the trace needs {most} or more")
    return trace, name, fitting[:MOST_WORKS]


def tasks_of(trace: Trace, works: Sequence[Work], ranks: int) -> list[Task]:
    """Return works as what the ranks are to do."""
    import numpy as np

    from mpiprof.bench.replay import NATIVE, Task
    from mpiprof.model import machine
    from mpiprof.tune.candidates import candidates

    table = trace.meta.get("machine")
    known = machine.of_table(table, "meta.json") if table else machine.DEFAULT
    made = []
    for work in works:
        names = [c.name for c in candidates(work, known)]
        members = work.ranks if ranks >= trace.ranks else tuple(range(work.members))
        problems = tuple(
            replace(p.problem, alpha=known.alpha, beta=known.beta) for p in work.patterns
        )
        arrivals = tuple(np.rint(p.arrivals).astype(np.int64) for p in work.patterns)
        made.append(Task(work.operation, (NATIVE, *names), problems, arrivals, members))
    return made


def results_of(works: Sequence[Work], outcome: Outcome) -> list[Result]:
    """Return what was measured as results: scores lap by lap, of instances that came right."""
    import numpy as np

    from mpiprof.bench.replay import LEAST_LAPS, NATIVE, NEAR_NS
    from mpiprof.tune.result import REPLAY, Result, Trial
    from mpiprof.tune.score import score

    found = []
    for work, r in zip(works, outcome.replayed, strict=True):
        right = {n: {s.lap for s in shots if s.error_ns <= NEAR_NS} for n, shots in r.shots.items()}
        own = right.get(NATIVE, set())
        near = all(len(own & right[name]) >= LEAST_LAPS for name in r.alive)
        scores = {name: np.full(outcome.laps, np.nan) for name in r.shots}
        for name, shots in r.shots.items():
            for s in shots:
                if s.error_ns <= NEAR_NS or not near:
                    problem = r.task.problems[s.pattern]
                    times = (t.astype(np.float64) - s.arrivals.min() for t in (s.arrivals, s.exits))
                    scores[name][s.lap] = score(work.operation, problem, *times)
        base = scores.pop(NATIVE, np.full(outcome.laps, np.nan))
        trials = tuple(Trial(name, values) for name, values in scores.items())
        errors = [s.error_ns for shots in r.shots.values() for s in shots]
        note = "not within the --budget"
        if errors:
            note = f"arrivals imposed within {np.median(errors) / 1e3:.0f} us (median)"
            note += "" if near else f", too far off to leave out what is beyond {NEAR_NS // 1000}"
        found.append(Result(work, REPLAY, base, np.ones(outcome.laps), trials, 1.0, note))
    return found


# ---- starting ranks


def words_of(args: argparse.Namespace) -> list[str]:
    """Return the command line of one rank."""
    words = [sys.executable, *python_flags(), "-m", "mpiprof", "tune", "--replay"]
    words += ["--budget", f"{args.budget}s", "--top", str(args.top)]
    if args.trace is not None:
        words.append(str(args.trace.absolute()))
    for option, value in (("--site", args.site), ("-o", args.output)):
        if value is not None:
            words += [option, str(value.absolute()) if isinstance(value, Path) else value]
    for wanted, option in ((args.summary, "--summary"), (args.json, "--json")):
        if wanted:
            words.append(option)
    return words


def start(args: argparse.Namespace, mpi: Mpi, environment: Mapping[str, str]) -> int:
    """Read the trace, start the ranks here or on an emulated cluster, and conclude."""
    from mpiprof.bench import cluster

    shape = cluster.parse(args.cluster) if args.cluster else None
    ranks = shape.ranks if shape is not None else args.ranks
    trace, name, works = prepared(args, ranks)
    with cluster.endings_as_exceptions(), tempfile.TemporaryDirectory(prefix="mpiprof-tune-") as t:
        folder = Path(t)
        file = folder / "works"
        file.write_bytes(pickle.dumps(tasks_of(trace, works, ranks)))
        words = words_of(args)
        inside = bench.prepared("", words, mpi, folder / "trace") | {WORKS: str(file)}
        if sys.stderr.isatty():
            inside["MPIPROF_PROGRESS"] = "1"
        if shape is not None:
            with cluster.Cluster(shape) as made:
                code = made.run(mpi, ranks, words, inside)
        else:
            code = on_this_machine(mpi, ranks, words, inside, environment)
        if code:
            return code
        outcome = pickle.loads(file.with_name("outcome").read_bytes())
    where = f"an emulated cluster of {shape}" if shape is not None else "this machine"
    return conclude(args, trace, name, works, outcome, where)


def on_this_machine(
    mpi: Mpi,
    ranks: int,
    words: Sequence[str],
    inside: Mapping[str, str],
    environment: Mapping[str, str],
) -> int:
    """Start ranks with the mpiexec that fits, and return its exit code."""
    from mpiprof.launch import mpiexec

    head = mpiexec.find(mpi, environment).words(ranks, environment)
    pairs = [f"{name}={value}" for name, value in inside.items()]
    return subprocess.run([*head, "env", *pairs, *words], check=False).returncode


# ---- one rank


def take_part(args: argparse.Namespace) -> int:
    """Be a rank; begun by a bare mpiexec, first get the library put before MPI."""
    if bench.READY not in os.environ:
        become_ready(args)
    from mpiprof.bench import replay, timing

    tasks: list[Any] | MpiprofError
    try:
        ranks = timing.begin()
        rank = ranks.rank
        file = os.environ.get(WORKS)
        tasks = ranks.world.bcast(pickle.loads(Path(file).read_bytes()) if file else None)
        outcome = None
        if not isinstance(tasks, MpiprofError):
            outcome = replay.replay(ranks, tasks, args.budget)
    except BaseException as error:
        timing.abort_on_error(error)
        raise
    bench.leave(os.environ[bench.READY] == "remove")
    if isinstance(tasks, MpiprofError):
        if file is not None:
            Path(file).unlink()
        if rank:
            return tasks.exit_code
        raise tasks
    if outcome is None or file is None:
        return 0
    if os.environ[bench.READY] != "remove":
        Path(file).with_name("outcome").write_bytes(pickle.dumps(outcome))
        return 0
    Path(file).unlink()
    trace, name, works = prepared(args, outcome.ranks)
    return conclude(args, trace, name, works, outcome, "")


def become_ready(args: argparse.Namespace) -> None:
    """Read the trace on rank 0, while the others go ahead, and start again with our library."""
    rank, ranks = rank_in(os.environ), ranks_in(os.environ)
    mpi = bench.this_mpi(os.environ)
    job = job_in(os.environ) or f"{os.getuid()}-{os.getppid()}"
    folder = Path(tempfile.gettempdir(), "mpiprof-bench-" + re.sub("[^A-Za-z0-9.]", "-", job))
    words = words_of(args)
    full = dict(os.environ) | bench.prepared("", words, mpi, folder) | {bench.READY: "remove"}
    if job_in(os.environ) is None:  # ranks of other nodes have other parents
        full["MPIPROF_BASE"] = full.pop("MPIPROF_TRACE")
    if rank == 0:
        found: list[Task] | MpiprofError
        try:
            trace, _, works = prepared(args, ranks)
            found = tasks_of(trace, works, ranks or trace.ranks)
        except MpiprofError as error:
            found = error  # told to all ranks, so that none waits for this one
        handle, full[WORKS] = tempfile.mkstemp(prefix="mpiprof-tune-")
        with os.fdopen(handle, "wb") as file:
            file.write(pickle.dumps(found))
    become(words, full)


# ---- what was found


def conclude(
    args: argparse.Namespace,
    trace: Trace,
    name: str,
    works: Sequence[Work],
    outcome: Outcome,
    where: str,
) -> int:
    """Print what was measured, how near the arrivals were, and write the plan."""
    import numpy as np

    from mpiprof.bench.replay import NEAR_NS
    from mpiprof.reports.text import mpi_name
    from mpiprof.reports.units import duration
    from mpiprof.tune import entries

    errors = outcome.errors()
    facts: dict[str, Any] = {
        "ranks": outcome.ranks,
        "mpi": mpi_name(outcome.mpi),
        "instances": len(errors),
        "laps": outcome.laps,
        "arrival_error_median_ns": float(np.median(errors)),
        "arrival_error_90_ns": float(np.percentile(errors, 90)),
        "near_share": float((errors <= NEAR_NS).mean()),
        "clock_error_ns": outcome.clock_error_ns,
    }
    place = f" on {where}" if where else ""
    head = (
        f"Replayed{place} with {outcome.ranks} ranks of {facts['mpi']}: "
        f"{len(errors)} instances in {outcome.laps} laps\n"
        f"  arrivals imposed within {duration(facts['arrival_error_median_ns'])} (median), "
        f"{duration(facts['arrival_error_90_ns'])} (9 in 10); {facts['near_share']:.0%} of the "
        f"instances within {duration(NEAR_NS)}"
    )
    if outcome.clock_error_ns:
        head += f"\n  clocks of the ranks are right within {duration(outcome.clock_error_ns)}"
    origin = entries.origin("replay", mpi_name(outcome.mpi), outcome.hosts, "")
    return tune.conclude(args, trace, name, results_of(works, outcome), origin, [head], facts)
