"""`report --rank`: the longest waits of a rank and their causes, on a trace with a known answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_verb
from support.program import Program
from support.synthetic import Synthetic

US, MS = 1_000, 1_000_000
START = 10 * US


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks 0 and 1 wait for 2 in one communicator, which waits for 3 in another one before."""
    trace = Synthetic(4)
    trace.add_communicator("late", [2, 3])
    trace.add_communicator("early", [0, 1, 2])

    def times(*values: int) -> np.ndarray:
        return np.array([values]) * US + START

    trace.add_collective("barrier", times(10, 80), times(81, 81), "late", 0, 0, site="a.py:1:f")
    trace.add_collective(
        "allreduce", times(5, 6, 90), times(91, 91, 91), "early", 8, 8, site="a.py:2:g"
    )
    trace.started_ns, trace.ended_ns = 0, START + 100 * US
    return trace.write(tmp_path_factory.mktemp("rank") / "trace")


def test_a_rank_has_its_longest_wait_and_the_way_to_its_cause(chained: Path) -> None:
    code, out, _ = run_verb("report", chained, "--rank", 0)
    text = " ".join(out.split())
    assert code == 0 and len(out.splitlines()) <= 40
    assert "Rank 0 of 4 waits 85.0 µs of" in text and "85.0 µs in collectives" in text
    assert "85.0 µs 15.0 µs allreduce at a.py:2 g 2 3 " in text
    assert "Rank 0 waits 85.0 µs for rank 2 in allreduce at a.py:2 g." in text
    assert "Rank 2 waits 70.0 µs for rank 3 in barrier at a.py:1 f." in text
    assert "Rank 3 waits for no other rank meanwhile: it is outside of MPI calls." in text
    assert "--rank 3" in out.splitlines()[-1]


def test_a_rank_that_never_waits_says_so(chained: Path) -> None:
    code, out, _ = run_verb("report", chained, "--rank", 3)
    assert code == 0 and "Rank 3 of 4 waits 0 ns of" in out and "Its longest waits" not in out


def test_messages_and_collectives_are_in_one_table(tmp_path: Path) -> None:
    program = Program(4)
    for _ in range(3):
        program.work(MS * (np.arange(4) == 1))
        program.message(1, 2, tag=57)
        program.work(3 * MS * (np.arange(4) == 0))
        program.collective("barrier")
    code, out, _ = run_verb("report", program.write(tmp_path / "both"), "--rank", 2)
    table = out.split("at  in")[1].split("wait: the")[0]
    assert code == 0 and table.count("recv at ") == 3 and table.count("barrier at ") == 3
    waits = [float(line.split()[0]) for line in table.splitlines()[1:] if " ms " in line]
    assert waits == sorted(waits, reverse=True)
    # The awaited rank and the tag; a collective has none.
    assert table.count(" 1   57  ") == 3 and table.count(" 0    –  ") == 3


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--rank", 4), "the trace has the ranks 0 to 3"),
        (("--rank", 1, "--site", "a.py"), "leave out --site"),
        (("--rank", 1, "--json", "--by", "rank"), "leave out --by and --json"),
    ],
)
def test_wrong_options_name_the_remedy(
    chained: Path, words: tuple[object, ...], wanted: str
) -> None:
    code, _, err = run_verb("report", chained, *words)
    assert code == 2 and wanted in err


def test_a_call_site_names_its_instance_with_most_waiting(tmp_path: Path) -> None:
    """Instance 7 of 10: rank 2 arrives 5 ms after the others, of which one is early.

    In instance 3 a single rank is earlier, so that the imbalance is larger, but one rank waits.
    """
    synthetic = Synthetic(4)
    synthetic.ended_ns = 200 * MS
    arrivals = np.arange(1, 11)[:, None] * 10 * MS + np.array([0, 0, MS, 0])
    arrivals[7] += np.array([-MS, 0, 4 * MS, 0])
    arrivals[3] += np.array([-8 * MS, 0, 0, 0])
    last = arrivals.max(1, keepdims=True)
    ends = np.repeat(last + US, 4, 1)
    synthetic.add_collective("allreduce", arrivals, ends, site="app.py:12:step")
    _, out, _ = run_verb("report", synthetic.write(tmp_path / "trace"), "--site", "app.py:12")
    text = " ".join(out.split())
    assert "The instance with most waiting (16.0 ms of all ranks together) is number 7, " in text
    assert "rank 2 arrives last, 5.00 ms after the median of the other ranks" in text
    assert "and 6.00 ms after the first." in text
