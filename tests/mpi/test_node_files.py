"""The ranks of a node share one log and one file of tables, without loss or mixing.

This applies to 2 or more nodes, emulated on one machine (MPIPROF_NODE), or above a number of ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.jobs import descendants
from support import PROGRAMS, ROOT
from support.compilation import compiled
from support.jobs import end, run, run_mpi, start
from support.mpis import Mpi
from support.wait_until import HANG_S, wait_for_line, wait_until

import mpiprof
from mpiprof.__main__ import main
from mpiprof.hang.processes import BOOT_ID

RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}
NBODY = ROOT / "samples" / "nbody.py"


def words(mpi: Mpi, folder: Path, *options: str, nodes: int = 0) -> list[str]:
    """Return the command line that records into a folder; `nodes` nodes take ranks cyclically."""
    here = BOOT_ID.read_text().strip()
    node = f'MPIPROF_NODE={here}-$(({RANK[mpi.name]} % {nodes})) exec "$@"'
    run_words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *options, "--"]
    return (["sh", "-c", node, "sh"] if nodes else []) + run_words


def check_nbody(folder: Path, ranks: int) -> mpiprof.Trace:
    """Check that a trace of the sample has all its calls."""
    trace = mpiprof.open(folder)
    assert trace.is_complete and not trace.problems
    assert trace.ranks == ranks
    counts: Any = trace.instances.groupby("operation")["complete"].agg(["count", "all"])
    assert counts.loc["allgather"].tolist() == [40, True]
    assert counts.loc["gather"].tolist() == [4, True]
    events: Any = trace.events
    assert events.groupby("rank").size().tolist() == [45] * ranks  # with MPI_Finalize
    return trace


def names(folder: Path, ending: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"*{ending}"))


def test_one_log_for_the_three_ranks_of_a_node(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks of one node: the trace of one file equals that of three files."""
    folder = tmp_path / "trace"
    command = [*words(mpi, folder), str(NBODY)]
    run_mpi(mpi, 3, command, env={"MPIPROF_NODE_FILES_ABOVE": "2"}, check=True)
    (log,) = names(folder, ".log")
    assert log.startswith("node-")
    check_nbody(folder, 3)


def test_each_rank_of_a_single_node_has_separate_files(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks of one node: each rank has a separate log."""
    run_mpi(mpi, 2, [*words(mpi, tmp_path / "trace"), str(NBODY)], check=True)
    assert names(tmp_path / "trace", ".log") == ["rank-000000.log", "rank-000001.log"]
    check_nbody(tmp_path / "trace", 2)


def test_the_network_switch_from_slurm(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: one has Slurm's address of this host, one that of another host, one has none."""
    folder = tmp_path / "trace"
    host = socket.gethostname().partition(".")[0]
    rank = f"${RANK[mpi.name]}"
    tell = (
        f"case {rank} in 0) SLURM_TOPOLOGY_ADDR=core.leaf3.{host};; "
        '1) SLURM_TOPOLOGY_ADDR=core.leaf4.elsewhere;; *) exec "$@";; esac; '
        "export SLURM_TOPOLOGY_ADDR SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node; "
        'exec "$@"'
    )
    run_mpi(mpi, 3, ["sh", "-c", tell, "sh", *words(mpi, folder), str(NBODY)], check=True)
    assert check_nbody(folder, 3).switches == {0: "leaf3"}


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 2), (5, 2), (8, 4)])
def test_one_log_a_node(ranks: int, nodes: int, openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 to 8 ranks: each node has one log and its tables, and there is one meta.json."""
    folder = tmp_path / "trace"
    run_mpi(openmpi, ranks, [*words(openmpi, folder, nodes=nodes), str(NBODY)], check=True)
    check_files(check_nbody(folder, ranks), nodes)


def test_one_log_a_node_under_mpich(mpich: Mpi, tmp_path: Path) -> None:
    """On 3 ranks and 2 nodes: each node has one log and its tables."""
    folder = tmp_path / "trace"
    run_mpi(mpich, 3, [*words(mpich, folder, nodes=2), str(NBODY)], check=True)
    check_files(check_nbody(folder, 3), 2)


def check_files(trace: mpiprof.Trace, nodes: int) -> None:
    """Check the number of files, and that each rank writes into its node's files."""
    logs, tables = names(trace.path, ".log"), names(trace.path, ".tables")
    assert len(logs) == nodes
    assert [name.replace(".tables", ".log") for name in tables] == logs
    hidden = {path.name for path in trace.path.iterdir() if path.name.startswith(".")}
    assert {path.name for path in trace.path.iterdir()} == {*logs, *tables, *hidden, "meta.json"}
    assert hidden <= {".job"}
    found: dict[str, set[str]] = defaultdict(set)
    for (rank, _), chunks in trace.logs.threads.items():
        process = trace.tables.processes[rank]
        found[process["node"]].add(process["log"])
        assert {chunk.log.name for chunk in chunks} == {process["log"] + ".log"}
    assert all(len(own) == 1 for own in found.values())
    assert sorted(f"{name}.log" for own in found.values() for name in own) == logs


def test_short_writes_of_ranks_that_share_files(openmpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks and 2 nodes: the file system makes short writes or fails with EINTR."""
    shim = tmp_path / "shim.so"
    run(["cc", "-shared", "-fPIC", "-o", shim, PROGRAMS / "tracefile_short_writes.c"], check=True)
    program = tmp_path / "app.py"
    program.write_text(
        "from mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "for i in range(60): world.Split(i % 2, world.rank).Barrier()\n"
        "for i in range(5000): MPI.COMM_SELF.Barrier()\nworld.Barrier()\n"
    )
    own = words(openmpi, tmp_path / "trace", nodes=2)
    done = run_mpi(openmpi, 4, ["env", f"LD_PRELOAD={shim}", *own, str(program)], check=True)
    assert "recording stops" not in done.stderr
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete and not trace.problems
    assert len(names(trace.path, ".log")) == 2
    assert len(trace.events) == 4 * (60 + 60 + 5000 + 1 + 1)


def test_a_later_program_of_the_job_stays_passive(openmpi: Mpi, tmp_path: Path) -> None:
    """2 ranks on 2 nodes, then one of them alone, then 2 again: the first trace stays as it is.

    Rank 0 waits for a sign of rank 1 before its second program: Open MPI would take what rank 1 has
    left of its first one for the other side, and hang, bare too.
    """
    program, script, sign = tmp_path / "app.py", tmp_path / "three.sh", tmp_path / "sign"
    program.write_text("from mpi4py import MPI\nfor i in range(9): MPI.COMM_WORLD.Barrier()\n")
    launched = r"s/^\(\(OMPI\|PMIX\|PRTE\)_[A-Za-z0-9_]*\)=.*/-u \1/p"
    script.write_text(
        '"$@"\n'
        "if [ $OMPI_COMM_WORLD_RANK = 1 ]\n"
        f'then env $(env | sed -n "{launched}") "$@"; touch {sign}\n'
        f"else while [ ! -e {sign} ]; do sleep 0.05; done\n"
        'fi\nexec "$@"\n'
    )
    own = [*words(openmpi, tmp_path / "trace", nodes=2), "sh", str(script)]
    done = run_mpi(openmpi, 2, [*own, str(openmpi.python), str(program)])
    assert done.returncode == 0, done.stderr
    trace = mpiprof.open(tmp_path / "trace")
    assert trace.is_complete and not trace.problems
    assert trace.ranks == 2 and len(trace.events) == 2 * 10
    assert len(names(trace.path, ".log")) == 2


def test_a_pack_of_shared_files(openmpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks and 2 nodes: four files become one, with the same contents."""
    pytest.importorskip("backports.zstd")
    folder = tmp_path / "trace"
    run_mpi(openmpi, 4, [*words(openmpi, folder, nodes=2), str(NBODY)], check=True)
    events: Any = mpiprof.open(folder).events
    assert main(["pack", str(folder)]) == 0
    assert not names(folder, ".log") and not names(folder, ".tables")
    assert check_nbody(folder, 4).events.equals(events)


def test_rings_of_two_nodes(openmpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks and 2 nodes: each rank has a separate ring."""
    options, program = ("--record", "ring:128K"), compiled(openmpi, "ring_counts.c")
    command = [*words(openmpi, tmp_path / "t", *options, nodes=2), str(program), "3000"]
    run_mpi(openmpi, 4, command, check=True)
    trace = mpiprof.open(tmp_path / "t")
    assert len(trace.logs.opened) == 2 and set(trace.wrapped_chunks) == {0, 1} and trace.is_sound
    totals: Any = trace.summed_up.set_index("operation")["calls"]
    assert totals["allreduce"] == 2 * 9000
    held: Any = trace.instances
    assert held["complete"].all()
    assert int(held.loc[held["operation"] == "allreduce", "sequence"].max()) == 8999


def test_a_hang_on_two_nodes(
    openmpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 4 ranks and 2 nodes, with the last rank missing: the watchdog and status report it.

    No watchdog runs on the emulated second node, so a file has its report. Both nodes are this
    machine, so either may be the one with the watchdog, and each has a file.
    """
    folder, program = tmp_path / "t", compiled(openmpi, "hang_absent_rank.c")
    command = [*words(openmpi, folder, "--watch", "2s", nodes=2), str(program), "0", "0", "hang"]
    job = start([*openmpi.mpiexec(4), *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until((folder / "meta.json").exists, "meta.json is there", job)
        # A time in the future keeps the file fresh however long the test takes.
        for node in (0, 1):
            shares = {str(rank): 0.0 for rank in (node, node + 2)}
            there = {"at": time.time() + 10 * HANG_S, "quiet_s": 2.0, "shares": shares}
            name = f".watch-{BOOT_ID.read_text().strip()}-{node}"
            (folder / name).write_text(json.dumps(there))
        line = wait_for_line(job, "mpiprof: ")
        main(["status", str(folder)])
    finally:
        end(job)
    assert "Rank 3 " in line
    states = re.findall(r"^  (\S+) +(inside|outside) ", capsys.readouterr().out, re.MULTILINE)
    assert states == [("0-2", "inside"), ("3", "outside")]
    assert len(names(folder, ".log")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("points", [6, pytest.param(60, marks=pytest.mark.everything)])
@pytest.mark.parametrize("ring", [False, True])
def test_a_killed_job_of_two_nodes(
    points: int, ring: bool, openmpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 4 ranks and 2 nodes, killed at random points (one rank, then all): it is readable."""
    chance, program = random.Random(points), compiled(openmpi, "ring_counts.c")
    options = ("--record", "ring:128K") if ring else ()
    for number in range(points):
        folder = tmp_path / str(number)
        own = words(openmpi, folder, *options, nodes=2)
        job = start([*openmpi.mpiexec(4), *own, str(program), "20", "hang"])
        try:
            pids = wait_until(partial(known_processes, folder), "a rank is known", job)
            time.sleep(0.4 * chance.random())
            for pid in [chance.choice(pids), *known_processes(folder), *descendants(job.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        finally:
            end(job)
        assert main(["report", str(folder)]) == 0
        capsys.readouterr()
        trace = mpiprof.open(folder)
        # A node that is killed before its log has a first line leaves an empty log.
        empty = any("its process is starting, or died" in note for note in trace.problems)
        assert trace.ranks == 4 and trace.logs.truncated == empty and not trace.logs.is_damaged
        assert set(trace.tables.processes) <= set(range(4))
        assert {rank for rank, _ in trace.logs.threads} <= set(trace.tables.processes)


def known_processes(folder: Path) -> list[int]:
    """Return the processes of a job that have written their ids."""
    with contextlib.suppress(mpiprof.errors.TraceError):
        return [row["pid"] for row in mpiprof.open(folder).tables.processes.values()]
    return []


def test_a_rank_that_cannot_share_the_files_of_its_node(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: no file of the node stays open, mapped or claimed."""
    script = tmp_path / "x.py"
    script.write_text(
        "import os\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "opened = open('/proc/self/maps').read()\n"
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try:\n        opened += os.readlink(f'/proc/self/fd/{name}')\n"
        "    except OSError:\n        pass\n"
        "print('node-' in opened)\n"
    )
    shared = {"MPIPROF_NODE_FILES_ABOVE": "1"}
    run_mpi(mpi, 2, [*words(mpi, tmp_path / "a"), mpi.python, script], env=shared, check=True)
    (log,) = (tmp_path / "a").glob("node-*.log")
    (tmp_path / "b" / log.with_suffix(".tables").name).mkdir(parents=True)
    again = words(mpi, tmp_path / "b")
    ended = run_mpi(mpi, 2, [*again, mpi.python, script], env=shared, check=True)
    assert sorted(ended.stdout.split()) == ["False"] * 2
    assert len(list((tmp_path / "b").glob("rank-*.log"))) == 2
    claims = (tmp_path / "b" / log.name).read_bytes()[4096 + 16 : 4096 + 32]
    assert not {1, 2} & set(memoryview(claims).cast("I"))
