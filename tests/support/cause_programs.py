"""Simulated programs of the specifications in tests/causes that mostly make collectives.

The parameters of a function with a default are what is planted: without them the program is the
same, including its noise, and has no cause of waiting. Times of work are in ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiprof.trace.types import Int
from support.cause_judgement import list_ranks
from support.neighbours import make_grid
from support.program import Program
from support.random_work import MS, SPREAD, Noise


def only(ranks: int, chosen: int | Sequence[int], ms: float) -> Int:
    """Return the work of some ranks in ns, 0 for all others."""
    work_ns = np.zeros(ranks, np.int64)
    work_ns[np.atleast_1d(np.array(chosen, np.int64))] = round(ms * MS)
    return work_ns


def serial_section(
    ranks: int,
    steps: int,
    work_ms: float,
    rank: int = 0,
    is_root_changing: bool = False,
    serial_ms: float = 0.0,
) -> Program:
    """Return parallel work, a gather, work of its root alone, and a broadcast of the result.

    The root makes its calls in a branch of its own (`if rank == root`). is_root_changing: let each
    rank be the root in turn, from this rank on.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for step in range(steps):
        root = (rank + step * is_root_changing) % ranks
        work_ns, serial_ns = noise.work(work_ms * MS), only(ranks, root, serial_ms)
        site, root_site = "solver.py:24:solve", "solver.py:20:solve"
        program.collective("gather", site, work_ns, root=root, root_site=root_site)
        site, root_site = "solver.py:25:solve", "solver.py:22:solve"
        program.collective("bcast", site, serial_ns, root=root, root_site=root_site)
    return program


def coarse_level(
    ranks: int,
    steps: int,
    work_ms: float,
    has_own_calls: bool = False,
    rank: int = 0,
    solve_ms: float = 0.0,
) -> Program:
    """Return cycles of a multigrid solver whose coarsest level is solved on one rank.

    has_own_calls: this rank makes its calls in a branch of its own.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    neighbours = make_grid((ranks,))
    for _ in range(steps):
        for level in range(3):
            program.halo(neighbours, noise.work(work_ms * MS / 2**level))
        for operation, line, work_ns in (
            ("gather", 41, noise.work(MS / 20)),
            ("scatter", 43, only(ranks, rank, solve_ms)),
        ):
            root_site = f"multigrid.py:{line}:coarse"
            site = f"multigrid.py:{line + 5}:coarse" if has_own_calls else root_site
            program.collective(operation, site, work_ns, root=rank, root_site=root_site)
        for level in (2, 1, 0):
            program.halo(neighbours, noise.work(work_ms * MS / 2**level))
    return program


def preconditioner(
    ranks: int,
    steps: int,
    work_ms: float,
    solve_ms: float = 0.0,
    rank: int = 0,
    late_ms: float = 0.0,
) -> Program:
    """Return a solver whose coarse problem is solved on rank 0, with a norm of all ranks.

    solve_ms: work of rank 0 alone. late_ms: work of another rank, before the norm.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    neighbours = make_grid((ranks,))
    for _ in range(steps):
        for level in range(3):
            program.halo(neighbours, noise.work(work_ms * MS / 2**level))
        program.collective("gather", "solver.py:41:coarse", noise.work(MS / 20))
        program.collective("bcast", "solver.py:43:coarse", only(ranks, 0, solve_ms))
        program.halo(neighbours, noise.work(work_ms * MS))
        norm_ns = noise.work(MS / 10) + only(ranks, rank, late_ms)
        program.collective("allreduce", "solver.py:50:norm", norm_ns)
    return program


def scattered_tasks(
    ranks: int, steps: int, work_ms: float, sync_every: int, prepare_ms: float = 0.0
) -> Program:
    """Return tasks that rank 0 prepares and scatters, with a reduction of their results.

    All ranks meet in a barrier in every n-th step only. prepare_ms: work of rank 0 before the
    scatter, beside a little work of all ranks.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for step in range(steps):
        prepare_ns = noise.work(MS / 20) + only(ranks, 0, prepare_ms)
        program.collective("scatter", "tasks.py:9:loop", prepare_ns, 4096)
        program.collective("reduce", "tasks.py:15:loop", noise.work(work_ms * MS))
        if step % sync_every == sync_every - 1:
            program.collective("barrier", "tasks.py:20:loop")
    return program


def single_task(
    ranks: int, steps: int, work_ms: float, rank: int = 0, task_ms: float = 0.0
) -> Program:
    """Return two loops of work and barriers, and between them a task of one rank."""
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for line in (12, 21):
        for _ in range(steps // 2):
            program.collective("barrier", f"phases.py:{line}:main", noise.work(work_ms * MS))
        if line == 12:
            program.collective("barrier", "phases.py:17:main", only(ranks, rank, task_ms))
    return program


def checkpoint(
    ranks: int,
    steps: int,
    work_ms: float,
    every: int,
    has_calls: bool = False,
    has_barrier: bool = True,
    rank: int = 0,
    write_ms: float = 0.0,
) -> Program:
    """Return steps with an allreduce, of which every n-th ends with a checkpoint.

    has_calls: one rank writes between two collectives, not before the allreduce of the step.
    has_barrier: the second of these is a barrier, not the allreduce of the next step.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for step in range(steps):
        is_written = step % every == every - 1
        write_ns = only(ranks, rank, write_ms if is_written else 0.0)
        work_ns = noise.work(work_ms * MS)
        if has_calls:
            program.collective("allreduce", "model.py:15:advance", work_ns)
        else:
            program.collective("allreduce", "model.py:15:advance", work_ns + write_ns)
        if has_calls and is_written:
            program.collective("gather", "model.py:51:checkpoint", root=rank)
            if has_barrier:
                program.collective("barrier", "model.py:54:checkpoint", write_ns)
            else:
                program.work(write_ns)
    return program


def mpmd(
    ranks: int,
    steps: int,
    work_ms: float,
    slow_ranks: int,
    slower: float = 0.0,
    convert_ms: float = 0.0,
    couple_every: int = 1,
    spread: float = SPREAD,
    is_shared: bool = True,
) -> Program:
    """Return two programs that exchange messages; the last ranks run the second.

    slower: excess of the second program's work over that of the first, as a share. convert_ms:
    work of rank 0 alone, after the exchange. couple_every: number of steps from one exchange to
    the next. spread: standard deviation of the work, over its mean. is_shared: whether rank 0
    broadcasts the data to all ranks of the first program.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    first, second = np.split(np.arange(ranks), [ranks - slow_ranks])
    program.synthetic.add_communicator("fluid", first.tolist())
    program.synthetic.add_communicator("structure", second.tolist())
    partners = first[: len(second)]
    for step in range(steps):
        work_ns = noise.work(work_ms * MS, spread)
        work_ns[second] = (work_ns[second] * (1 + slower)).astype(np.int64)
        for name, line in (("fluid", 12), ("structure", 27)):
            site = f"{name}.py:{line}:advance"
            program.collective("allreduce", site, work_ns, communicator=name)
        if step % couple_every < couple_every - 1:
            continue
        sites = "structure.py:30:couple", "fluid.py:16:couple"
        program.message(second, partners, 4096, sites=sites)
        sites = "fluid.py:17:couple", "structure.py:31:couple"
        program.message(partners, second, 4096, sites=sites)
        if is_shared:
            convert_ns = only(ranks, 0, convert_ms)
            program.collective("bcast", "fluid.py:18:couple", convert_ns, communicator="fluid")
    return program


def slow_group(
    ranks: int,
    steps: int,
    work_ms: float,
    nodes: int,
    slow: Sequence[int] | str = (),
    slower: float = 0.0,
) -> Program:
    """Return halo exchanges of one program, in which some ranks work longer by a share."""
    node_of = [rank * nodes // ranks for rank in range(ranks)]
    options: dict[str, Any] = {"offsets": (0,) * nodes, "drifts": (0.0,) * nodes}
    program = Program(ranks, intervals=True, nodes=node_of, **options)
    noise, neighbours = Noise(ranks), make_grid((ranks,))
    factors = 1 + slower * np.isin(np.arange(ranks), list_ranks(slow))
    for _ in range(steps):
        work_ns = (noise.work(work_ms * MS) * factors).astype(np.int64)
        program.halo(neighbours, work_ns)
        program.collective("allreduce", "step.py:31:main", noise.work(MS / 50))
    return program


def alternating_groups(ranks: int, steps: int, work_ms: float, late_ms: float = 0.0) -> Program:
    """Return an allreduce in each step; the halves of the ranks work longer in turn."""
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for step in range(steps):
        is_late = np.arange(ranks) * 2 // ranks == step % 2
        work_ns = noise.work(work_ms * MS) + round(late_ms * MS) * is_late
        program.collective("allreduce", "step.py:31:main", work_ns)
    return program


def node_leaders(
    ranks: int, steps: int, work_ms: float, rank: int = 0, pack_ms: float = 0.0
) -> Program:
    """Return a reduction on each node of 4 ranks, among their leaders, and back to the nodes.

    pack_ms: work of one leader between the reductions.
    """
    nodes = np.arange(ranks).reshape(-1, 4)
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    program.synthetic.add_communicator("leaders", nodes[:, 0].tolist())
    names = [program.synthetic.add_communicator(f"node-{node[0]}", node.tolist()) for node in nodes]
    pack_ns = only(ranks, rank, pack_ms)
    for _ in range(steps):
        work_ns = noise.work(work_ms * MS)
        for name, node in zip(names, nodes, strict=True):
            program.collective("reduce", "sum.py:12:sum", work_ns, 8, int(node[0]), name)
        program.collective("allreduce", "sum.py:14:sum", pack_ns, communicator="leaders")
        for name, node in zip(names, nodes, strict=True):
            program.collective("bcast", "sum.py:15:sum", 0, 8, int(node[0]), name)
    return program


def adaptive_mesh(
    ranks: int,
    steps: int,
    work_ms: float,
    regrid_every: int,
    heavy: Sequence[Sequence[int]] = (),
    excess_ms: float = 0.0,
) -> Program:
    """Return a mesh that is regridded every n-th step; heavy: ranks with most cells after each."""
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    neighbours = make_grid((ranks,))
    for step in range(steps):
        epoch = step // regrid_every
        if step % regrid_every == 0:
            program.collective("alltoallv", "mesh.py:70:regrid", noise.work(MS / 10), 4096)
        excess_ns = only(ranks, heavy[epoch] if heavy else (), excess_ms)
        program.halo(neighbours, noise.work(work_ms * MS) + excess_ns)
        program.collective("allreduce", "mesh.py:33:advance", noise.work(MS / 50))
    return program


def block_columns(
    ranks: int, columns: int, work_ms: float, spread: float = SPREAD, panel_ms: float = 0.0
) -> Program:
    """Return an LU factorisation; columns of blocks belong to the ranks in turn.

    In step k the owner of column k factorises it and broadcasts it, and all update the rest.
    spread: standard deviation of the updates, over their mean.
    """
    program, noise = Program(ranks, intervals=True), Noise(ranks)
    for column in range(columns):
        owner, rest = column % ranks, (columns - column) / columns
        panel_ns = only(ranks, owner, panel_ms * rest)
        program.collective("bcast", "lu.py:25:factorise", panel_ns, 65536, owner)
        update_ns = noise.work(work_ms * rest * MS, spread)
        program.collective("allreduce", "lu.py:31:factorise", update_ns)
    return program
