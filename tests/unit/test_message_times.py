"""Plausibility of message times, and the treatment of implausible ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import LINK, MACHINE, Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.collectives.tune.predict import find_gains
from mpiprof.commands.run import read_model
from mpiprof.trace.machine import find_fault

MS = 1_000_000


def machine(where: str = "within", **changed: Any) -> dict[str, Any]:
    """Return a table with one changed link."""
    table = copy.deepcopy(MACHINE)
    table[where] = {**LINK, **changed}
    return table


# A port that sends its first 15 KB at once, and the next bytes at 100 Mbit/s, measured on an
# emulated cluster.
PORT = {
    "alpha_ns": 17e3,
    "beta_ns_per_byte": 6.0,
    "pace_ns_per_byte": 84.0,
    "sizes": [0, 8192, 65536],
    "one_way_ns": [18.6e3, 51e3, 4.27e6],
    "both_ways_ns": [32.7e3, 593e3, 4.77e6],
    "undisturbed_rounds": [20, 20, 5],
    "spread": [1.02, 1.07, 1.01],
}


def both_ways(factor: float) -> dict[str, Any]:
    """Return a table in which both ways take `factor` times as long as one way."""
    times: Any = LINK["one_way_ns"]
    return machine(both_ways_ns=[factor * time for time in times])


def rounds(undisturbed: list[Any], spread: list[float], where: str = "within") -> dict[str, Any]:
    """Return a table with facts about its measurement."""
    return machine(where, undisturbed_rounds=undisturbed, spread=spread)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (MACHINE, ""),
        (None, ""),
        (both_ways(2.0), ""),
        (both_ways(1 / 2.43), ""),  # from a sound node: exchanges of empty messages overlap
        (both_ways(0.9), ""),
        (machine("between", alpha_ns=400e3, beta_ns_per_byte=80.0), ""),  # 100 Mbit
        (both_ways(1 / 14), "one way takes 14 times as long as both ways within a node"),
        (both_ways(9.0), "both ways take 9 times as long as one way within a node"),
        (machine(beta_ns_per_byte=1000 / 0.17), "0.17 MB/s within a node"),
        (machine(beta_ns_per_byte=0.001), "large messages are not slower than small ones within"),
        (
            machine("between", beta_ns_per_byte=-1.0),
            "large messages are not slower than small ones between nodes",
        ),
        (machine(beta_ns_per_byte=float("nan")), "large messages are not slower"),
        (machine(alpha_ns=3.85e6), "3.85 ms for an empty message within a node"),
        (machine("between", alpha_ns=50e6), "50.0 ms for an empty message between nodes"),
        (machine(alpha_ns="x"), "the table within a node is damaged"),
        (machine("between", **PORT), ""),
        (
            machine("between", **PORT | {"pace_ns_per_byte": 6.0}),
            "both ways take 12 times as long as one way between nodes",
        ),
        (rounds([12, 12, 12], [1.1, 1.2, 1.0]), ""),
        (rounds([12, 4, 12], [1.1, 1.2, 1.3]), ""),
        (rounds([64, 64, 64], [1.0, 1.4, 1.0]), "1000 B differ by a factor of 1.4 within a node"),
        (
            rounds([0, 4, 12], [1.0, 1.0, 1.0]),
            "used the cores in all of the repetitions within a node",
        ),
        (rounds([12, 12, 12], [1.1, 7.2, 1.0]), "1000 B differ by a factor of 7.2 within a node"),
        (rounds([0, 0, 0], [1.0, 1.2, 1.0], "between"), ""),  # a network's messages wait anyway
        (rounds([12, 12, 12], [1.0, 1.0, 8.0], "between"), "by a factor of 8.0 between nodes"),
        (
            rounds([12, 12, 12], [1.7, 7.0, 1.4], "between"),
            "repetitions of 0 B differ by a factor of 1.7, of 1000 B by 7.0, of 1000000 B by 1.4",
        ),
        (rounds(["x"], [1.0]), "the table within a node is damaged"),
    ],
)
def test_what_can_be(table: Any, why: str) -> None:
    found = find_fault(table)
    assert why in found and bool(why) == bool(found)


def test_what_can_not_be_is_no_factor_and_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same trace with sound times has both."""
    for name, table in (("sound", MACHINE), ("disturbed", both_ways(1 / 14))):
        synthetic = Synthetic(4, machine=table)
        arrivals = np.arange(1, 51)[:, None] * 10 * MS + np.array([0, 0, 3 * MS, 0])
        exits = np.repeat(arrivals.max(1, keepdims=True) + 5 * MS, 4, 1)
        synthetic.ended_ns = 600 * MS
        synthetic.add_collective("allreduce", arrivals, exits, sent=1024, received=1024)
        synthetic.write(tmp_path / name)
    sound, disturbed = mpiprof.open(tmp_path / "sound"), mpiprof.open(tmp_path / "disturbed")
    assert sound.callsites["worst_factor"].notna().all()
    empty = ["message_time_ns", "average_factor", "worst_factor", "balanced_share"]
    assert disturbed.callsites[empty].isna().all(axis=None) and not find_gains(disturbed, 1.0)
    assert main(["report", str(tmp_path / "disturbed")]) == 0
    text = capsys.readouterr().out
    assert (
        "message times   not usable (sketched at start), so no factors: one way takes 14 times"
        in text
    )
    assert "Time by operation" in text and "Imbalance factors" not in text
    assert main(["tune", str(tmp_path / "disturbed")]) == 2
    assert "message times are not usable" in capsys.readouterr().err


def test_a_measured_table_that_is_not_usable_gives_no_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither for tune nor for the simulator; a run takes no block size from it."""
    synthetic = Synthetic(4, machine=MACHINE)
    arrivals = np.arange(1, 51)[:, None] * 10 * MS + np.zeros(4, np.int64)
    synthetic.add_collective("allreduce", arrivals, arrivals + 5 * MS, sent=1024, received=1024)
    synthetic.ended_ns = 600 * MS
    synthetic.write(tmp_path / "t")
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(both_ways(1 / 14)))
    simulated = ["algorithms", "bcast", "-p", "4", "--simulate"]
    study = ["bench", "reduction", "--simulate", "4"]
    for words in (["tune", str(tmp_path / "t")], simulated, study):
        assert main([*words, "--machine", str(file)]) == 2
        printed = capsys.readouterr().err
        assert "its message times are not usable, one way takes 14 times" in printed
        assert "repeat `mpiexec -n 4 " in printed and "-m mpiprof calibrate -o" in printed
    assert read_model(file) is None
    file.write_text(json.dumps(machine()))
    assert read_model(file) == "10000.0 1.0 1.0 0.0"
