"""Regression tests of faults that a review of the core found."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof


def recorded(mpi: Mpi, folder: Path, *options: str | Path) -> list[str | Path]:
    """Return the command line that records a program into a folder."""
    return [mpi.python, "-m", "mpiprof", "run", "-q", "-o", folder, *options, "--"]


CALLS = "from mpi4py import MPI\ndef work():\n    MPI.COMM_WORLD.Barrier()\nwork()\n"


def test_a_folder_of_the_users_has_a_packages_name(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a user's folder may have a skipped package's name; its files are call sites."""
    script = tmp_path / "mpi4py" / "demo" / "x.py"
    script.parent.mkdir(parents=True)
    script.write_text(CALLS)
    run([*recorded(mpi, tmp_path / "a"), mpi.python, "-m", "mpi4py", script], check=True)
    (call,) = raw_trace.read(tmp_path / "a").of(0)
    assert (call.frames[0]["file"], call.frames[0]["function"]) == (str(script), "work")


def test_what_is_paused_on_an_unseen_communicator(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a paused call has no record, even if it is the first on its communicator."""
    program = compiled(mpi, "communicators_unrecorded.c")
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "a"), program], check=True)
    trace = raw_trace.read(tmp_path / "a")
    for rank in range(2):
        assert [call.sequence for call in trace.of(rank)] == [2, 0]


def test_children_of_communicators_that_are_alike(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 100,000 communicators have different identities, so no call is lost."""
    count = 100_000
    words = recorded(mpich, tmp_path / "a")
    words += [compiled(mpich, "communicators_children.c"), str(count)]
    run(words, env={"MPIPROF_ALIKE": "1"}, check=True, timeout=240)
    trace = raw_trace.read(tmp_path / "a")
    assert len(trace.of(0)) == len({call.start for call in trace.of(0)}) == count
    opened = mpiprof.open(tmp_path / "a")
    assert opened.complete and len(opened.instances) == count


def test_a_rank_that_cannot_share_its_nodes_files(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: no file of the node stays open, mapped or claimed."""
    script = tmp_path / "x.py"
    script.write_text(
        "import os\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "held = open('/proc/self/maps').read()\n"
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try:\n        held += os.readlink(f'/proc/self/fd/{name}')\n"
        "    except OSError:\n        pass\n"
        "print('node-' in held)\n"
    )
    shared = {"MPIPROF_NODE_FILES_ABOVE": "1"}
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "a"), mpi.python, script], env=shared, check=True)
    (log,) = (tmp_path / "a").glob("node-*.log")
    (tmp_path / "b" / log.with_suffix(".tables").name).mkdir(parents=True)
    words = [*recorded(mpi, tmp_path / "b"), mpi.python, script]
    ended = run_mpi(mpi, 2, words, env=shared, check=True)
    assert sorted(ended.stdout.split()) == ["False"] * 2
    assert len(list((tmp_path / "b").glob("rank-*.log"))) == 2
    claims = (tmp_path / "b" / log.name).read_bytes()[4096 + 16 : 4096 + 32]
    assert not {1, 2} & set(memoryview(claims).cast("I"))


@pytest.mark.parametrize("number", [10, 12])
def test_our_handler_at_another_signal(number: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a runtime copies the handler to a signal that had none."""
    program = compiled(mpi, "signals_shared_handler.c")
    ended = run([*recorded(mpi, tmp_path / "a"), program, str(number)])
    assert (ended.returncode, ended.stdout) == (-number, "the same\n")
    assert list((tmp_path / "a").glob("rank-*.log"))
