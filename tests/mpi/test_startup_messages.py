"""No rank sends or receives more than O(log p) messages at the recorder's start and end.

Open MPI's monitoring counts them, including the library's own messages for mpiprof. A bare run
sends none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest
from benchmarks import messages
from numpy.typing import NDArray
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

MESSAGES_A_LEVEL = 14  # per tree level, at start and at end: c in c * ceil(log2 p)
BYTES_A_LEVEL = 2048
TABLE = '{"within": {"alpha_ns": 1000, "beta_ns_per_byte": 1}}'
LINE = re.compile(r"^E\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent", re.M)
NODE = 'MPIPROF_NODE=$((OMPI_COMM_WORLD_RANK / {0})) exec "$@"'


@dataclass
class Sent:
    """Messages and bytes that each rank sends to each other rank, p x p."""

    messages: NDArray[np.int64]
    bytes: NDArray[np.int64]

    def most(self) -> int:
        """Return the maximum number of messages that a rank sends or receives."""
        return int(max(self.messages.sum(0).max(), self.messages.sum(1).max()))

    def most_bytes(self) -> int:
        """Return the maximum number of bytes that a rank sends or receives."""
        return int(max(self.bytes.sum(0).max(), self.bytes.sum(1).max()))


def count(
    mpi: Mpi,
    ranks: int,
    folder: Path,
    options: Sequence[str] = (),
    *,
    calls: int = 0,
    ranks_a_node: int = 0,
    table: bool = True,
) -> tuple[Sent, Sent]:
    """Record a job; returns the messages sent at its start, and afterwards."""
    folder.mkdir()
    words = ["sh", "-c", NODE.format(ranks_a_node), "sh"] if ranks_a_node else []
    words += [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder / "trace"), *options]
    if table:  # otherwise two ranks measure messages for 20 ms
        (folder / "machine.json").write_text(TABLE)
        words += ["--machine", str(folder / "machine.json")]
    words += ["--", str(compiled(mpi, "messages_at_start.c")), str(folder), str(calls)]
    monitoring = {
        "OMPI_MCA_pml_monitoring_enable": "1",
        "OMPI_MCA_pml_monitoring_enable_output": "3",
        "OMPI_MCA_pml_monitoring_filename": str(folder / "sent"),
    }
    run_mpi(mpi, ranks, words, env=monitoring, check=True)
    start, end = (
        np.array([np.loadtxt(folder / f"{rank}.{when}", int) for rank in range(ranks)])
        for when in ("start", "end")
    )
    whole = np.zeros((ranks, ranks, 2), int)
    for rank in range(ranks):
        for source, to, size, number in LINE.findall((folder / f"sent.{rank}.prof").read_text()):
            whole[int(source), int(to)] = int(number), int(size)
    last = whole - end
    return Sent(start[:, :, 0], start[:, :, 1]), Sent(last[:, :, 0], last[:, :, 1])


def levels(ranks: int) -> int:
    """Return the logarithm that bounds the messages."""
    return ceil(log2(ranks))


LARGE = [
    pytest.param(64, marks=pytest.mark.slow),
    *(pytest.param(ranks, marks=pytest.mark.everything) for ranks in (128, 256)),
]


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32, *LARGE])
def test_start_and_end_on_one_node(ranks: int, openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 to 64 ranks: the start uses a tree of log2(p) levels, and the end sends nothing.

    On 128 and 256 ranks Open MPI uses other algorithms for mpiprof's collectives, with one message
    per level more or less.
    """
    start, end = count(openmpi, ranks, tmp_path / "a")
    expected = messages.start(ranks, folder_bytes=len(str(tmp_path / "a" / "trace")))
    if ranks <= 64:
        assert start.most() == start.messages[0].sum() == expected.messages
        assert start.bytes[0].sum() == expected.bytes  # the folder's name is part of the message
    assert abs(start.most() - expected.messages) <= levels(ranks)
    assert start.most() <= MESSAGES_A_LEVEL * levels(ranks)
    assert start.most_bytes() <= BYTES_A_LEVEL * levels(ranks)
    assert end.most() == 0


def test_measuring_messages(openmpi: Mpi, tmp_path: Path) -> None:
    """On 16 ranks: two ranks exchange messages for 20 ms; the others send no more than usual."""
    start, _ = count(openmpi, 16, tmp_path / "a", table=False)
    start.messages[0, 1] = start.messages[1, 0] = 0
    assert start.most() <= MESSAGES_A_LEVEL * 4


def test_choosing_automatically(openmpi: Mpi, tmp_path: Path) -> None:
    """On 32 ranks: the start shares a clock; at the end a window's reduction may be active."""
    words = ["--switch", "auto", "--learn", str(tmp_path / "learned.jsonl")]
    start, end = count(openmpi, 32, tmp_path / "a", words, calls=50)
    assert start.most() == messages.start(32, auto=True).messages
    assert start.most() <= MESSAGES_A_LEVEL * 5
    assert end.most() <= MESSAGES_A_LEVEL * 5
    assert max(start.most_bytes(), end.most_bytes()) <= BYTES_A_LEVEL * 5


@pytest.mark.parametrize("options", [[], ["--switch", "auto"]], ids=["recorded", "auto"])
def test_several_nodes(options: list[str], openmpi: Mpi, tmp_path: Path) -> None:
    """On 16 ranks of 8 nodes: leaders exchange the time, 20 times in each of 3 rounds."""
    words = ["--together", *options]
    start, end = count(openmpi, 16, tmp_path / "a", words, ranks_a_node=2)
    length = len(str(tmp_path / "a" / "trace"))
    expected = messages.start(16, 8, length, auto="auto" in options)
    assert (start.most(), start.bytes[0].sum()) == (expected.messages, expected.bytes)
    assert end.most() >= messages.clocks(8).messages
    for sent in (start, end):
        assert 20 * 3 <= sent.most() <= 20 * 3 + MESSAGES_A_LEVEL * 4
        assert sent.most_bytes() <= 20 * 3 * 24 + BYTES_A_LEVEL * 4


def test_a_tree_is_used_only_if_all_ranks_record(openmpi: Mpi, tmp_path: Path) -> None:
    """On 8 ranks, one of them bare: the bare rank receives any message, and gets only its own."""
    script = tmp_path / "some.sh"
    run = f"{openmpi.python} -m mpiprof run -o {tmp_path / 'trace'} --"
    script.write_text(f'[ $OMPI_COMM_WORLD_RANK = 4 ] && exec "$@"\nexec {run} "$@"\n')
    words = ["sh", str(script), str(compiled(openmpi, "mpmd_server.c")), "4"]
    done = run_mpi(openmpi, 8, words, check=True)
    assert done.stdout.replace("\n", "") == "ok" * 8
    assert "1 of 8 ranks have not answered for 10 s (4)" in done.stderr
    assert len(list((tmp_path / "trace").glob("*.tables"))) == 7


def test_a_rank_is_missed_in_the_tree(openmpi: Mpi, tmp_path: Path) -> None:
    """On 8 ranks that are declared to record: one inner rank of the tree does not."""
    script = tmp_path / "some.sh"
    run = f"{openmpi.python} -m mpiprof run --together -o {tmp_path / 'trace'} --"
    script.write_text(f'[ $OMPI_COMM_WORLD_RANK = 6 ] && exec "$@"\nexec {run} "$@"\n')
    program = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    words = ["sh", str(script), str(openmpi.python), "-c", program]
    done = run_mpi(openmpi, 8, words, check=True)
    printed = "2 of 8 ranks have not answered for 10 s (6; other ranks answer through them)"
    assert printed in done.stderr
    assert len(list((tmp_path / "trace").glob("*.tables"))) == 7
