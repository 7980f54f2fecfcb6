"""The verb `algorithms`: catalogue, diagrams, predictions, and messages on wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiprof.__main__ import main
from mpiprof.collectives.proofs import prove
from mpiprof.collectives.schedule import SEND, Schedule, load_catalogue
from mpiprof.errors import UsageError
from mpiprof.interface.parse_units import parse_arrivals, parse_duration, parse_size

FIELDS = ["operation", "name", "intercommunicator", "restrictions", "cost", "parameters", "source"]
FIELDS += ["library", "number", "same_as"]


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the output of `algorithms`."""
    assert main(["algorithms", *words]) == 0
    return capsys.readouterr().out


def test_the_catalogue_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys)
    for a in load_catalogue():
        assert f"  {a.name} " in text
        assert f"from {a.source.split()[0]}" in text
    assert text.index("alltoall\n") < text.index("allgather on inter-communicators\n")
    assert text.splitlines()[-1].startswith("next: ")


def test_what_libraries_have_themselves_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "alltoall")
    ours, _, theirs = text.partition("\nalltoall in Open MPI itself\n")
    openmpi, _, mpich = theirs.partition("\nalltoall in MPICH itself\n")
    assert "linear_sync" not in ours
    assert "  2 pairwise                  as ring\n" in openmpi
    assert "  pairwise                    as pair or ring, needs a send buffer other than" in mpich
    assert "itself" not in output_of(capsys, "alltoall", "ring")


def test_one_operation_and_one_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "alltoall")
    assert "bruck" in text
    assert "needs a power of two of processes" in text
    assert "chain" not in text
    text = output_of(capsys, "allgatherv", "pipelined_ring")
    assert "block_size=BYTES" in text
    assert "linear_ring" not in text


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output_of(capsys, "--json"))
    assert all(list(row) == FIELDS for row in rows)
    assert [row["library"] for row in rows].count(None) == len(load_catalogue())
    theirs = {(row["library"], row["operation"], row["number"], row["name"]) for row in rows}
    assert ("openmpi", "allreduce", 6, "rabenseifner") in theirs
    assert ("mpich", "allreduce", None, "reduce_scatter_allgather") in theirs
    assert all(row["name"] != "native" for row in rows)
    rows = json.loads(output_of(capsys, "allgather", "--json"))
    assert {row["operation"] for row in rows} == {"allgather"}
    assert {row["intercommunicator"] for row in rows} == {True, False}


def test_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "allgatherv",
        "-p",
        "64",
        "--bytes",
        "64K",
        "--distribution",
        "broadcast",
        "--simulate",
    ]
    lines = output_of(capsys, *words).splitlines()
    assert lines[0] == "allgatherv on 64 processes, 64.0 KB as base of broadcast"
    assert "alpha 2.00 µs, beta 0.1 ns/B" in lines[1]
    assert "assumed" in lines[1]
    names = [line.split()[0] for line in lines[4:6]]
    assert names == ["pipelined_ring", "linear_ring"]
    # (p-1)(alpha + m beta), and alpha + m beta
    assert lines[5].split()[1:3] == ["539", "µs"]
    assert lines[6].split()[:4] == ["lower", "bound", "8.55", "µs"]


def test_predictions_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "alltoall",
        "-p",
        "6",
        "--bytes",
        "1000",
        "--simulate",
        "--json",
        "--arrivals",
        "3=1ms",
    ]
    data = json.loads(output_of(capsys, *words))
    times = [row["end_ns"] for row in data["algorithms"]]
    assert times == sorted(times)
    assert min(times) >= data["lower_bound_ns"] == 1e6 + 2000 + 500
    assert data["last_arrival_ns"] == 1e6
    assert {row["name"] for row in data["not_applicable"]} == {
        "pair",
        "pair_one_barrier",
        "pair_light_barrier",
    }


def test_a_measured_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "within": {"alpha_ns": 200.0, "beta_ns_per_byte": 0.1},
        "between": {"alpha_ns": 50_000.0, "beta_ns_per_byte": 80.0},
        "gamma_sum_ns_per_byte": 0.3,
    }
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(table))
    words = ["bcast", "flat_tree", "-p", "3", "--bytes", "1K", "--simulate", "--machine", str(path)]
    text = output_of(capsys, *words)
    assert f"alpha 50.0 µs, beta 80 ns/B; gamma 0.3 ns/B (from {path})" in text
    assert "264 µs" in text  # 2 (50 + 81.92)
    text = output_of(capsys, *words, "--per-node", "2")
    assert "alpha 200 ns, beta 0.1 ns/B within; 2 processes a node" in text


def test_parameters_change_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bcast", "chain", "-p", "4", "--bytes", "64K", "--simulate", "--json", "--parameters"]
    ends = [
        json.loads(output_of(capsys, *words, f"block_size={block}"))["algorithms"][0]["end_ns"]
        for block in ("64K", "32K")
    ]
    assert ends == [pytest.approx(3 * (2000 + 6553.6)), pytest.approx(4 * (2000 + 3276.8))]


def test_diagrams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "alltoall", "ring", "-p", "4", "--draw", "--arrivals", "0,0,50us,..")
    assert "after the last arrival" in text
    assert "→3" in text
    assert "r1" in output_of(capsys, "allgather", "kang", "-p", "3", "-q", "2", "--draw")
    page = tmp_path / "ring.html"
    assert str(page) in output_of(capsys, "alltoall", "ring", "-p", "4", "--draw", "-o", str(page))
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("alltoal", "unknown operation 'alltoal': the nearest: alltoall"),
        ("alltoall rnig --draw -p 4", "unknown alltoall algorithm 'rnig': did you mean ring?"),
        ("barrier zzz", "known: linear, dissemination, tournament"),
        ("alltoall --simulate", "-p is missing: pass the number of processes"),
        ("--simulate -p 4", "name an operation"),
        ("alltoall --draw -p 4", "name an algorithm to draw"),
        ("alltoall ring --draw -p 65", "at most 64 processes; with -o FILE.html up to 512"),
        ("alltoall pair --draw -p 6", "requires a power of two of processes"),
        ("allgather kang --draw -p 6", "pass the size of the remote group with -q"),
        ("alltoall ring --draw -p 6 -q 2", "leave out -q"),
        ("bcast --simulate -p 6 -q 2", "without -q only"),
        ("bcast --simulate -p 4 --root 4", "--root 4: ranks range from 0 to 3"),
        ("bcast --simulate -p 4 --bytes 4X", "'4X' is not a size"),
        ("bcast --simulate -p 4 --arrivals 0,5", "'5' is not a time"),
        ("bcast --simulate -p 2 --arrivals 0,0,1s", "ranks range from 0 to 1"),
        ("bcast --simulate -p 4 --distribution spike", "bcast is regular"),
        ("allgatherv --simulate -p 4 --distribution spice", "did you mean spike?"),
        ("bcast chain --simulate -p 4 --parameters blocksize=4", "did you mean block_size?"),
        ("allgatherv pipelined_ring --draw -p 4 --parameters order=spred", "did you mean spread?"),
        ("bcast chain --draw -p 4 --parameters block_size", "not NAME=VALUE"),
        ("bcast --simulate -p 4 --parameters order=spread", "unknown parameter of bcast 'order'"),
        ("bcast --simulate -p 4 --machine no-such.json", "no-such.json: no such file"),
    ],
)
def test_wrong_words(words: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algorithms", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert expected in printed.err


def test_quantities() -> None:
    assert [parse_size(text) for text in ("0", "100", "64K", "1.5M", "2GB")] == [
        0,
        100,
        65536,
        3 << 19,
        1 << 31,
    ]
    assert [parse_duration(text) for text in ("0", "5ns", "1.5us", "2ms", "1s")] == [
        0,
        5,
        1500,
        2e6,
        1e9,
    ]
    assert parse_arrivals("0,1us,..", 4) == [0, 1000, 0, 0]
    assert parse_arrivals("3=2us", 4) == [0, 0, 0, 2000]


def test_proofs_state_their_problems(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(output_of(capsys, "reduce", "--prove", "-p", "5", "--json"))
    assert [row["algorithm"] for row in rows] == [a["name"] for a in named(capsys, "reduce")]
    assert all(row["roots"] == 5 and row["processes"] == [5] for row in rows)
    # Five lengths with each root, with and without MPI_IN_PLACE at the root; two or three last
    # ranks.
    proved = {row["algorithm"]: row["problems"] for row in rows}
    assert proved.pop("late_last") == 2 * 5 * (2 + 3 + 3 + 3 + 2)
    assert set(proved.values()) == {2 * 5 * 5}
    assert all(row["most_bytes"] == 8000 for row in rows)
    text = output_of(capsys, "allgather", "kang", "--prove", "-p", "4")
    assert "Proved" in text and "allgather between groups" in text
    assert main(["algorithms", "alltoall", "pair", "--prove", "-p", "6"]) == UsageError.exit_code


def named(capsys: pytest.CaptureFixture[str], operation: str) -> list[dict[str, str]]:
    """Return an operation's rows of the catalogue."""
    rows: list[dict[str, str]] = json.loads(output_of(capsys, operation, "--json"))
    return [row for row in rows if row["library"] is None]


@pytest.mark.heavy
def test_every_algorithm_is_proved_with_its_parameters() -> None:
    for algorithm in load_catalogue():
        found = prove(algorithm, (4,))
        assert found.problems and not found.failure, algorithm


def test_a_broken_schedule_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Schedule.read_steps

    def steps(self: Schedule, first: int, last: int) -> NDArray[np.int64]:
        rows = honest(self, first, last)
        if self.rank == 1 and self.algorithm.name == "ring":
            rows[rows[:, 1] == SEND, 4] = 0
        return rows

    monkeypatch.setattr(Schedule, "read_steps", steps)
    assert main(["algorithms", "alltoall", "--prove", "-p", "4"]) == 1
    text = capsys.readouterr().out
    assert "Not proved\n  alltoall ring, 4 processes: wrong data at the end" in text
    assert "alltoall   bruck" in text.partition("Not proved")[0]
