"""Scaling over numbers of ranks, for programs whose speed-up is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import main
from mpiprof.account.efficiencies import judge_scaling
from mpiprof.trace import Trace

MS = 1_000_000
STEPS = 10


def recorded(folder: Path, ranks: int, work: float, extra: float = 0.0, cost: float = 0.0) -> Trace:
    """Record steps in which each rank works `work` ms, the last one `extra` ms more.

    cost: time of the allreduce after the last arrival.
    """
    step = work + extra + cost
    starts = step * np.arange(STEPS)[:, None]
    late = np.where(np.arange(ranks) == ranks - 1, extra, 0.0)
    arrivals = np.rint((starts + work + late) * MS).astype(np.int64)
    exits = np.rint((starts + step + 0.0 * late) * MS).astype(np.int64)
    synthetic = Synthetic(ranks)
    synthetic.add_collective("allreduce", arrivals, exits)
    synthetic.started_ns, synthetic.ended_ns = 0, round(step * STEPS * MS)
    return mpiprof.open(synthetic.write(folder))


def test_the_factor_that_loses_most_is_named(tmp_path: Path) -> None:
    """One rank has 3 ms more: of 12 ms on 2 ranks, of 6 on 4, of 3 on 8."""
    traces = [recorded(tmp_path / f"{n}", n, 24 / n, 3.0) for n in (8, 2, 4)]
    found = judge_scaling(traces)
    table = found.table
    assert table["ranks"].tolist() == [2, 4, 8]
    assert table["run_ns"].tolist() == [150 * MS, 90 * MS, 60 * MS]
    assert table["speedup"].tolist() == pytest.approx([1, 15 / 9, 15 / 6])
    assert table["ideal_speedup"].tolist() == [1, 2, 4]
    balance = [(24 + 3) / 2 / 15, (24 + 3) / 4 / 9, (24 + 3) / 8 / 6]
    assert table["load_balance"].tolist() == pytest.approx(balance)
    assert table["parallel"].tolist() == pytest.approx(balance)
    assert table["computation"].tolist() == pytest.approx([1, 1, 1])
    assert (found.factor, found.is_weak) == ("load_balance", False)
    assert (found.before, found.after) == pytest.approx((balance[0], balance[-1]))


def test_transfer_and_computation(tmp_path: Path) -> None:
    """The collective takes 1 ms on any number of ranks, or each rank does more work in all."""
    slow = judge_scaling([recorded(tmp_path / f"c{n}", n, 24 / n, cost=1.0) for n in (2, 8)])
    assert slow.factor == "transfer"
    assert (slow.before, slow.after) == pytest.approx((12 / 13, 3 / 4))
    more = judge_scaling([recorded(tmp_path / f"m{n}", n, 24 / n + 1) for n in (2, 8)])
    assert more.factor == "computation" and more.after == pytest.approx(26 / 32)
    even = judge_scaling([recorded(tmp_path / f"e{n}", n, 24 / n) for n in (2, 8)])
    assert even.factor == ""


def test_the_speedup_is_the_product_of_its_factors(tmp_path: Path) -> None:
    traces = [recorded(tmp_path / f"{n}", n, 24 / n + 0.5, 0.2 * n, 0.1 * n) for n in (2, 4, 16)]
    table = judge_scaling(traces).table
    factors = table[["load_balance", "serialisation", "transfer"]].prod(axis=1)
    product = factors / factors[0] * table["computation"] * table["ideal_speedup"]
    assert product.tolist() == pytest.approx(table["speedup"].tolist())


def test_weak_scaling(tmp_path: Path) -> None:
    """Each rank has 10 ms of work; the collective takes 0.5 ms for each rank."""
    found = judge_scaling([recorded(tmp_path / f"{n}", n, 10.0, cost=0.5 * n) for n in (2, 8)])
    assert found.is_weak and found.factor == "transfer"
    assert found.table["speedup"].tolist() == pytest.approx([1, 4 * 11 / 14])
    assert found.table["computation"].tolist() == pytest.approx([1, 1])


def test_runs_with_equal_numbers_of_ranks_are_averaged(tmp_path: Path) -> None:
    traces = [recorded(tmp_path / f"a{i}", 2, 12 + i) for i in range(3)]
    table = judge_scaling([*traces, recorded(tmp_path / "b", 4, 6)]).table
    assert table["runs"].tolist() == [3, 1]
    assert table["run_ns"].tolist() == [130 * MS, 60 * MS]


def test_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in (2, 8):
        recorded(tmp_path / f"{n}", n, 24 / n, 3.0)
    paths = [str(tmp_path / "2"), str(tmp_path / "8")]
    assert main(["compare", "--scaling", *paths]) == 0
    text = capsys.readouterr().out
    sentence = (
        "From 2 to 8 ranks the run is 2.5 times as fast (perfect scaling: 4 times). "
        "Load balance loses most: 56 % instead of 90 %."
    )
    assert " ".join(text.split()).startswith(sentence)
    assert "speed-up" in text and "serialisation" in text
    assert main(["compare", "--scaling", "--json", *paths]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["scaling"], data["factor"], data["text"]) == ("strong", "load_balance", sentence)
    assert [row["ranks"] for row in data["rows"]] == [2, 8]
    assert data["rows"][1]["speedup"] == pytest.approx(2.5)
    assert len(data["traces"]) == 2


@pytest.mark.parametrize(("words", "fact"), [
    (["2", "2b"], "all traces have 2 ranks"),
    (["2", "--to", "2b"], "--scaling and --to contradict each other"),
    (["2", "2b", "--fail-on", "wait_ns > 1"], "--scaling and --fail-on contradict each other"),
])  # fmt: skip
def test_wrong_use(
    tmp_path: Path, words: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("2", "2b"):
        recorded(tmp_path / name, 2, 1.0)
    paths = [str(tmp_path / word) if word[0] == "2" else word for word in words]
    assert main(["compare", "--scaling", *paths]) == 2
    assert fact in capsys.readouterr().err
