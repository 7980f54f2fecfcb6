"""Eight traces on which every page is opened: sizes, states and kinds of traces.

All are simulated runs of one program. A step exchanges messages with the neighbours, and ends in an
allreduce, in an alltoall on each row of ranks and, every fifth time, in a bcast. One rank computes
longer before the allreduce.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.hang.processes import BOOT_ID
from mpiprof.trace.types import RECEIVED_PART
from mpiprof.trace.writer import make_totals
from support.message_traces import call, part
from support.neighbours import make_ring
from support.program import Program
from support.synthetic import upgrade_folder
from support.where_samples import add_samples

US, MS, SECOND = 1_000, 1_000_000, 10**9
HALO_SITES = ("halo.c:58:exchange", "halo.c:61:exchange", "halo.c:64:exchange")
HUNG_FOR_NS = 120 * SECOND
LATE_MS = 12


def simulate(
    ranks: int,
    late: int,
    steps: int,
    late_ms: float = LATE_MS,
    *,
    sampled: bool = False,
    **more: Any,
) -> Program:
    """Simulate some steps in which the rank `late` computes longer by `late_ms`.

    sampled: with samples of functions, as `run --where` records them.
    """
    per_node = max(ranks // 4, 4) if ranks <= 64 else 64
    nodes = [rank // per_node for rank in range(ranks)]
    count = nodes[-1] + 1
    program = Program(
        ranks, nodes=nodes, offsets=(0,) * count, drifts=(0.0,) * count, intervals=True, **more
    )
    program.synthetic.meta["program"] = "cfd3d"
    program.synthetic.meta["command"] = ["./cfd3d", "-n", "512"]
    row = max(ranks // 8, 2)
    rows = [
        program.synthetic.add_communicator(f"row {i}", list(range(i * row, (i + 1) * row)))
        for i in range(ranks // row)
    ]
    random, neighbours = np.random.default_rng(ranks), make_ring(ranks)
    for step in range(steps):
        work = random.integers(18 * MS, 20 * MS, ranks)
        work[late] += int(late_ms * MS * random.uniform(0.9, 1.1))
        program.halo(neighbours, own_ns=10 * MS, bytes_=65_536, sites=HALO_SITES)
        program.collective("allreduce", "solver.c:120:dot < main.c:30:main", work)
        transpose = random.integers(2 * MS, 3 * MS, ranks)
        for name in rows:
            members = program.synthetic.members[name][0]
            own = np.zeros(ranks, np.int64)
            own[members] = transpose[members]
            program.collective("alltoall", "fft.c:77:transpose", own, 4096, communicator=name)
        if step % 5 == 0:
            program.collective("bcast", "input.c:30:read_step", 500 * US, 65_536, root=0)
    if sampled:
        for rank in range(ranks):
            _add_samples(program, rank, late_ms * (rank == late))
    return program


def _add_samples(program: Program, rank: int, late_ms: float) -> None:
    """Add the samples of 100 steps: 10 ms a step in one function, and the lateness in another."""
    stack = "solver.c:60:{} < solver.c:110:solve < main.c:30:main"
    left, entered = "halo.c:64:exchange", "solver.c:120:dot < main.c:30:main"
    for function, count in (("sweep", 100), ("assemble", int(10 * late_ms))):
        if count:
            stacked = stack.format(function)
            add_samples(program.synthetic, rank, left, entered, stacked, count, 10 * MS * count)


def write_hung(folder: Path, pid: int) -> Path:
    """Write 8 running ranks in a deadlock: 5 waits for a message of 2, all others for 5.

    pid: a process that takes the part of all ranks.
    """
    start_ns = time.monotonic_ns() - HUNG_FOR_NS - SECOND
    program = simulate(8, 5, 20, start_ns=start_ns)
    program.log.finish()
    synthetic, at = program.synthetic, int(program.now_ns.max()) + MS
    others = [rank for rank in range(8) if rank != 5]
    arrivals = np.full((1, 8), -1)
    arrivals[0, others] = at + np.arange(7) * 100 * US
    site = "solver.c:120:dot < main.c:30:main"
    synthetic.add_collective("allreduce", arrivals, 0 * arrivals, site=site)
    shape = synthetic.add_shape(5, "recv", "world", site="halo.c:71:fetch", peer=2)
    synthetic.add_messages(5, call(shape, at, 0, _expected(shape, at)))
    for rank in range(8):
        synthetic.add(rank, 0, 0, 0, 0, kind=0)
    synthetic.write(folder, finished=False)
    boot = BOOT_ID.read_text().strip()
    for path in folder.glob("*.tables"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "process" in line:
                line["process"] |= {"pid": pid, "node": boot}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _expected(shape: int, at_ns: int) -> Any:
    """Return the record of a message that never arrives."""
    return part(RECEIVED_PART, shape, 40, 7, -1, at_ns, 0)


def write_damaged(folder: Path, _: int = 0) -> Path:
    """Write 8 ranks; the log of rank 3 is lost, and a chunk of rank 2 is damaged."""
    upgrade_folder(simulate(8, 5, 40).write(folder))
    (folder / "rank-000003.log").unlink()
    log = folder / "rank-000002.log"
    content = bytearray(log.read_bytes())
    content[65536 + 500] ^= 1
    log.write_bytes(content)
    return folder


def write_summary(folder: Path, _: int = 0) -> Path:
    """Write the totals of 8 ranks, as `--record summary` does."""
    program = simulate(8, 5, 40)
    program.log.finish()
    synthetic = program.synthetic
    synthetic.meta["record"] = "summary"
    synthetic.records = [[make_totals(np.concatenate(r))] for r in synthetic.records]
    synthetic.messages, synthetic.message_sums, synthetic.spent = {}, {}, {}
    synthetic.ended_ns = int(program.now_ns.max()) + MS
    for at in (synthetic.started_ns, synthetic.ended_ns):
        synthetic.add_clock(4, 0, at, 500)
    return synthetic.write(folder)


WRITERS: dict[str, Callable[[Path, int], Path]] = {
    "four": lambda folder, _: simulate(4, 2, 60).write(folder),
    "sixty-four": lambda folder, _: simulate(64, 21, 40, sampled=True).write(folder),
    "thousand": lambda folder, _: simulate(1024, 700, 6, sampled=True).write(folder),
    "hung": write_hung,
    "damaged": write_damaged,
    "sampled": lambda folder, _: simulate(16, 9, 120, sample=4).write(folder),
    "summary": write_summary,
    "second": lambda folder, _: simulate(64, 21, 40, LATE_MS / 2).write(folder),
}
TRACES = tuple(WRITERS)


@contextmanager
def write_traces(folder: Path, names: Sequence[str] = TRACES) -> Iterator[list[Path]]:
    """Write some of the traces; the hung job lives until the end of the context."""
    process = subprocess.Popen(["sleep", "infinity"])
    try:
        yield [WRITERS[name](folder / name, process.pid) for name in names]
    finally:
        process.kill()
        process.wait()
