"""Cost of mpiprof on many ranks: `python -m benchmarks.scale [--ranks N] [--kills K] ...`.

A C program (rounds of an allreduce, a broadcast and a barrier, with rank 1 late) runs alternately
unrecorded and recorded, with the mpiexec beside this Python and all ranks on this machine. The
output has a row per requirement: goal, measurement and verdict. The exit code is 3 if a
requirement is missed. The benchmark measures the processor time of all processes of a job, because
ranks outnumber processors. `--memory` adds the private memory of a rank. Finally the benchmark
kills all processes of jobs at random points, and reads the remaining traces.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import mpiprof
from benchmarks import jobs
from benchmarks.checks import THRESHOLD_MISSED, Row, printed
from benchmarks.memory import Kept, kept
from mpiprof.errors import MpiprofError, TraceError
from mpiprof.interface.progress import show_progress

SOURCE = Path(__file__).with_suffix(".c")
CODE = 7  # which the program ends with
ADDED_MS, SHARE = 15.0, 0.05  # of processor time a rank, beyond bare
KEPT_KB = 64
LIMIT_S = 1800
MODES = ("events", "summary", "ring")
OPERATIONS = ("allreduce", "bcast", "barrier")  # of a round
MOST_DRAWS = 4  # of points to kill at, for each that counts


@dataclass(frozen=True)
class Job:
    """Result of a job: exit code, output, and processor time (s) of all its processes."""

    code: int
    output: str
    cpu: float


class Bench:
    """The compiled program, its mpiexec, and the numbers of ranks and rounds."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder = folder
        self.ranks, self.rounds, self.modes = args.ranks, args.rounds, args.modes
        self.late_ms = args.late
        program = jobs.compiled(SOURCE, folder)
        self.program, self.launcher = program.path, program.launcher

    def words(self, mode: str | None, trace: Path, *more: str) -> list[str]:
        """Return the command line of a job; without a mode it is not recorded."""
        program = [str(self.program), str(self.rounds), str(CODE), str(self.late_ms), *more]
        if mode is None:
            return [*self.launcher.make_command(self.ranks, os.environ), *program]
        options = ("-n", str(self.ranks), "--yes", "--record", mode)
        return [*jobs.recording(trace, *options), *program]

    def run(self, mode: str | None, trace: Path, *more: str) -> Job:
        """Run a job until it ends."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            self.words(mode, trace, *more),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if mode is None and done.returncode != CODE:
            said = (done.stderr.strip() or "it said nothing").splitlines()
            why = next((line for line in said if line.strip("-* ")), said[0])
            raise MpiprofError(f"the program doesn't run bare, exit code {done.returncode}: {why}")
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Job(done.returncode, done.stdout, spent)


def pairs(bench: Bench, laps: int) -> Iterator[Row]:
    """Yield the cost of recording; recorded and unrecorded runs alternate."""
    found: dict[str | None, list[Job]] = {None: [], **{mode: [] for mode in bench.modes}}
    with show_progress("running", laps * len(found)) as step:
        for lap in range(laps):
            for mode, done in found.items():
                done.append(bench.run(mode, bench.folder / f"{mode}-{lap}"))
                step(1)
    bare = found[None]
    alone = median(job.cpu for job in bare) / bench.ranks * 1000
    yield Row("bare, processor time a rank", "", f"{alone:.1f} ms", True)
    bound = SHARE * alone + ADDED_MS
    for mode in bench.modes:
        same = {(j.code, j.output) for j in found[mode]} == {(j.code, j.output) for j in bare}
        yield Row(f"{mode}: result and exit code", "as bare", "same" if same else "others", same)
        added = [
            (wrapped.cpu - alone_.cpu) / bench.ranks * 1000
            for wrapped, alone_ in zip(found[mode], bare, strict=True)
        ]
        middle = median(added)
        text = f"{middle:.1f} ms ({min(added):.1f} to {max(added):.1f})"
        yield Row(f"{mode}: added a rank", f"< {bound:.1f} ms", text, middle < bound)
        yield from contents(bench, mode)


def contents(bench: Bench, mode: str) -> Iterator[Row]:
    """Yield the completeness of a trace and the correctness of its report."""
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
    right = trace.is_complete and calls == due
    yield Row(f"{mode}: calls in the report", f"{due}, complete", str(calls), right)
    if mode == "events":
        late = trace.instances
        late = late[late["operation"] == "allreduce"]
        share = float((late["last_rank"] == 1).mean())
        yield Row("events: the late rank is found", "in > 90 %", f"{share:.0%}", share > 0.9)


# ---- memory


def memory(bench: Bench) -> Iterator[Row]:
    """Yield the private memory that recording adds per rank, and the resident part of its log."""
    bare = _private(bench, None)
    alone = median(kept.others for kept in bare)
    for mode in bench.modes:
        found = _private(bench, mode)
        added = sorted(kept.library + kept.others - alone for kept in found)
        text = f"{median(added):.0f} KB ({added[0]:.0f} to {added[-1]:.0f})"
        yield Row(f"{mode}: memory a rank", f"<= {KEPT_KB} KB", text, median(added) <= KEPT_KB)
        pages = sorted(kept.trace for kept in found)
        text = f"{median(pages):.0f} KB ({pages[0]} to {pages[-1]})"
        yield Row(f"{mode}: pages of its log", "", text)


def _private(bench: Bench, mode: str | None) -> list[Kept]:
    folder, trace = bench.folder / f"memory-{mode}", bench.folder / f"memory-of-{mode}"
    folder.mkdir()
    bench.run(mode, trace, str(folder))
    measured = [kept(path.read_text(), trace) for path in folder.iterdir()]
    if len(measured) != bench.ranks:
        raise MpiprofError(f"{len(measured)} of {bench.ranks} ranks stored their memory")
    return measured


# ---- killed


def kills(bench: Bench, count: int, seed: int) -> Row:
    """Kill all processes of jobs at random points; every remaining trace must be readable.

    A point lies within the time in which the trace is written. A job that ends without a trace
    tests nothing and is replaced by another job.
    """
    chance, unreadable, partial, begun = random.Random(seed), [], 0, 0
    length = _until(bench, bench.folder / "whole")
    with show_progress("killing", count) as step:
        for number in range(MOST_DRAWS * count):
            trace = bench.folder / f"killed-{number}"
            _until(bench, trace, chance.uniform(0, length))
            if not _is_begun(trace):
                continue
            begun += 1
            try:
                opened = mpiprof.open(trace)
                partial += not opened.is_complete
                _ = opened.callsites
            except TraceError as error:
                unreadable.append(str(error))
            shutil.rmtree(trace, ignore_errors=True)
            step(1)
            if begun == count:
                break
    text = f"{begun - len(unreadable)} of {begun}, {partial} incomplete"
    text += "".join(f"; {why}" for why in unreadable[:1])
    met = begun == count and not unreadable
    return Row("killed: a readable trace", f"{count} of {count}", text, met)


def _until(bench: Bench, trace: Path, seconds: float | None = None) -> float:
    """Run a recorded job, and kill its processes some time after its first table has content.

    Returns the time in s from that moment to the end of the job.
    """
    quiet, left = subprocess.DEVNULL, trace.with_name(f"left-{trace.name}")
    left.mkdir()
    words = bench.words("events", trace)
    process = subprocess.Popen(words, stdout=quiet, stderr=quiet, env=jobs.killable(left))
    try:
        while process.poll() is None and not _is_begun(trace):
            time.sleep(0.001)
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT_S if seconds is None else seconds)
        return time.monotonic() - began
    finally:
        jobs.kill(process)
        shutil.rmtree(left, ignore_errors=True)


def _is_begun(trace: Path) -> bool:
    return any(table.stat().st_size for table in trace.glob("*.tables"))


# ---- the command


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--ranks", type=int, default=512, metavar="N")
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    parser.add_argument("--laps", type=int, default=3, metavar="N", help="bare and recorded")
    parser.add_argument("--modes", default="events,summary", help=f"some of {','.join(MODES)}")
    parser.add_argument("--memory", action="store_true", help="of a rank, beyond bare")
    parser.add_argument("--kills", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the kills")
    parser.add_argument("--late", type=int, default=20, metavar="MS", help="of rank 1 in a round")
    parser.add_argument(
        "--quick", action="store_true", help="4 ranks, 12 rounds, 100 ms late, one lap, 2 kills"
    )
    args = parser.parse_args()
    if args.quick:
        args.ranks, args.rounds, args.late, args.laps, args.kills = 4, 12, 100, 1, 2
    args.modes = args.modes.split(",")
    if not set(args.modes) <= set(MODES):
        parser.error(f"--modes: some of {','.join(MODES)}")
    if min(args.ranks - 1, args.rounds) < 1 or min(args.laps, args.kills, args.late) < 0:
        parser.error("at least two ranks and one round, and no negative number")
    return args


def command() -> int:
    """Print the table; returns the exit code."""
    args = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="mpiprof-scale-") as name:
            bench = Bench(Path(name), args)
            print(f"{args.ranks} ranks, {args.rounds} rounds, {bench.launcher.path}")
            met = printed(_rows(bench, args))
    except MpiprofError as error:
        print(f"mpiprof: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if met else THRESHOLD_MISSED


def _rows(bench: Bench, args: argparse.Namespace) -> Iterator[Row]:
    if args.laps:
        yield from pairs(bench, args.laps)
    if args.memory:
        yield from memory(bench)
    if args.kills:
        yield kills(bench, args.kills, args.seed)


if __name__ == "__main__":
    sys.exit(command())
