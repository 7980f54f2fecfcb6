"""MPMD launches with several parts: no message of mpiprof reaches a process that runs bare.

The program is a server that receives any message from any source, and its workers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import LONG_WITH_MPICH, Mpi

from mpiprof.launch import job

BY_ITSELF = "this launch has several parts"


def launch(mpi: Mpi, parts: str, folder: Path, *options: str) -> tuple[str, dict[int, list[str]]]:
    """Run parts such as "bare 1, run 2"; returns the messages and the operations of each rank."""
    program = str(compiled(mpi, "mpmd_server.c"))
    recorded = [str(mpi.python), "-m", "mpiprof", "run", *options, "--"]
    words = mpi.mpiexec(1)[:-2]
    ranks = 0
    for part in parts.split(", "):
        kind, number = part.split()
        words += [":"] if ranks else []
        words += ["-n", number, *(recorded if kind != "bare" else []), program]
        words += [str(server_of(parts))]
        ranks += int(number)
    ended = run(words, cwd=folder, check=True)
    assert ended.stdout.replace("\n", "") == "ok" * ranks
    found: dict[int, list[str]] = {}
    for trace in folder.glob("*/meta.json"):
        lines = raw_trace.read(trace.parent)
        found |= {r: [c.operation for c in lines.of(r)] for r in range(ranks) if lines.of(r)}
    return ended.stderr, found


def server_of(parts: str) -> int:
    """Return the rank of the first process of the first bare part, or 0 without a bare part."""
    first = 0
    for part in parts.split(", "):
        kind, number = part.split()
        if kind == "bare":
            return first
        first += int(number)
    return 0


def recorded_ranks(parts: str) -> dict[int, list[str]]:
    kinds = [k for k, n in (part.split() for part in parts.split(", ")) for _ in range(int(n))]
    return {rank: ["barrier"] for rank, kind in enumerate(kinds) if kind != "bare"}


def check_partial(folder: Path, printed: str) -> None:
    assert printed.count(BY_ITSELF) == 1
    assert "have not answered" not in printed
    (meta,) = [json.loads(path.read_text()) for path in folder.glob("*/meta.json")]
    assert meta["options"]["partial"]


ORDERS = ["bare 1, run 2", "run 1, bare 2", "run 1, bare 1, run 1"]
NAMES = ["", "trace", ""]


@pytest.mark.parametrize(("parts", "name"), list(zip(ORDERS, NAMES, strict=True)), ids=ORDERS)
def test_a_bare_part_receives_only_program_messages(
    parts: str, name: str, mpi: Mpi, tmp_path: Path
) -> None:
    """On 3 ranks: the bare part receives the program's messages only."""
    printed, operations = launch(mpi, parts, tmp_path, *(["-o", name] if name else []))
    assert operations == recorded_ranks(parts)
    check_partial(tmp_path, printed)


def test_a_bare_part_under_a_system_mpi(system_mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: the same under a system MPI."""
    printed, operations = launch(system_mpi, ORDERS[0], tmp_path)
    assert operations == recorded_ranks(ORDERS[0])
    check_partial(tmp_path, printed)


@pytest.mark.parametrize("option", ["", "--together"])
def test_parts_that_all_record_do_it_together(option: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: parts that all record write one complete trace, and no link remains."""
    parts = "run 1, run 1, run 1"
    printed, operations = launch(mpi, parts, tmp_path, *([option] if option else []))
    assert operations == recorded_ranks(parts)
    assert BY_ITSELF not in printed
    (folder,) = [path.parent for path in tmp_path.glob("*/meta.json")]
    meta = json.loads((folder / "meta.json").read_text())
    assert not meta["options"]["partial"] and meta["machine"]["within"]["alpha_ns"] > 0
    assert not list(folder.glob(".parts*"))


def test_a_bare_part_that_is_visible_only_to_mpi(mpich: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: mpiexec's command line is not visible, as if it ran on another node."""
    program = str(compiled(mpich, "mpmd_server.c"))
    recorded = ["env", "MPI_LOCALNRANKS=1", str(mpich.python), "-m", "mpiprof", "run", "--"]
    words = [*mpich.mpiexec(1), program, "0", ":", "-n", "2", *recorded, program, "0"]
    ended = run(words, cwd=tmp_path, check=True)
    assert ended.stdout.replace("\n", "") == "ok" * 3
    check_partial(tmp_path, ended.stderr)
    (folder,) = tmp_path.glob("mpiprof-*")
    assert len(list(folder.glob("rank-*.log"))) == 2


def test_an_old_trace_is_seen_where_rank_0_is_bare(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: an existing trace is refused although rank 0 is bare."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "meta.json").write_text("{}")
    os.utime(tmp_path / "old" / "meta.json", (1, 1))
    program = str(compiled(mpich, "mpmd_server.c"))
    recorded = [str(mpich.python), "-m", "mpiprof", "run", "-o", "old", "--"]
    words = [*mpich.mpiexec(1), program, "0", ":", "-n", "1", *recorded, program, "0"]
    ended = run(words, cwd=tmp_path)
    assert ended.returncode == 2 and "already holds a trace" in ended.stderr


def test_two_jobs_never_share_a_folder(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks each: the later job runs unrecorded, and reports it."""
    program = str(compiled(mpi, "mpmd_server.c"))
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / ".job").write_text("another")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", "trace", "--", program]
    ended = run_mpi(mpi, 2, words, cwd=tmp_path, check=True)
    assert (
        ended.stdout.replace("\n", "") == "ok" * 2
        and ended.stderr.count("another job writes to") == 1
    )
    assert [path.name for path in (tmp_path / "trace").iterdir()] == [".job"]


def test_partial_needs_no_folders_name(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks, one of them bare: all recording ranks write into one folder, silently."""
    printed, operations = launch(mpi, ORDERS[0], tmp_path, "--partial")
    assert operations == recorded_ranks(ORDERS[0])
    assert BY_ITSELF not in printed
    (folder,) = tmp_path.glob("mpiprof-*")
    assert folder.name in printed


def test_one_part_is_no_launch_of_parts(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the recording is complete, and the folder has its date."""
    printed, operations = launch(mpi, "run 2", tmp_path)
    assert operations == recorded_ranks("run 2") and BY_ITSELF not in printed
    assert len(list(tmp_path.glob("mpiprof-mpmd_server-2*-*"))) == 1


@pytest.mark.parametrize("words", [":", "-configfile"])
def test_parts_are_parsed_from_the_command_line_of_hydra(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line of an mpiexec is read only if the job has one node."""
    monkeypatch.setattr(job, "_mpiexec_command", lambda _: ["mpiexec", "-n", "1", "a", words, "b"])
    alone = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    assert job.count_mpmd_parts(alone) == 2
    assert job.count_mpmd_parts(alone | {"PMI_SIZE": "4"}) is None
    assert job.count_mpmd_parts({"OMPI_NUM_APP_CTX": "3"}) == 3
    assert job.count_mpmd_parts({}) is None


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("mpiexec -n 2 python -m mpiprof run -- a", True),
        ("mpiexec -n 2 sh some.sh python -m mpiprof run -- a", False),
        ("mpiexec -n 2 sh some.sh", False),
        ("mpiexec -n 1 b : -n 1 python -m mpiprof run -- a", False),
        ("python -m mpiprof run -- a", False),
    ],
)
def test_recorded_parts_are_parsed_from_the_command_line(
    line: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may leave ranks bare; unless that is excluded, no rank is sent a message."""
    monkeypatch.setattr(job, "_find_hydra", lambda: (job.read_process(os.getpid()), None))
    monkeypatch.setattr(job, "_mpiexec_command", lambda _: line.split())
    own = ["/usr/bin/python", "-m", "mpiprof", "run", "--", "a"]
    monkeypatch.setattr(job, "_read_command_line", lambda _: own)
    alone = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    assert job.has_uniform_launch(alone) is whole
    assert not job.has_uniform_launch(alone | {"PMI_SIZE": "4"})
    assert not job.has_uniform_launch({})


@LONG_WITH_MPICH
def test_a_rank_that_a_script_leaves_bare(mpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks: rank 2 is bare, and rank 3 would send to it if all were known to record."""
    pick = tmp_path / "pick.sh"
    pick.write_text(
        'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n[ "$rank" = 2 ] && unset LD_PRELOAD\nexec "$@"\n'
    )
    program = [str(compiled(mpi, "mpmd_server.c")), "2"]
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", "trace", "--", "/bin/sh", str(pick)]
    ended = run_mpi(mpi, 4, [*words, *program], cwd=tmp_path, check=True)
    assert ended.stdout.replace("\n", "") == "ok" * 4
    assert "1 of 4 ranks have not answered for 10 s (2)" in ended.stderr
    lines = raw_trace.read(tmp_path / "trace")
    assert [[c.operation for c in lines.of(r)] for r in range(4)] == [
        *(["barrier"], ["barrier"], [], ["barrier"])
    ]
