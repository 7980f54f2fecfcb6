"""Quantiles by call site: as accurate as promised, in every order of merging."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_verb
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import quantiles
from mpiprof.account.instance_rows import Rows, make_empty_rows
from mpiprof.account.quantiles import LEVELS, NAMES, Quantiles, bucket_middles, bucket_numbers
from mpiprof.trace.types import Float, Int

ERROR = 1 / 128
MS = 1_000_000


def rows_of(elapsed: Float, wait: Float) -> Rows:
    rows = make_empty_rows(len(wait))
    rows.complete[:] = ~np.isnan(wait)
    rows.mean_elapsed, rows.wait = elapsed, wait
    rows.elapsed = 7 * elapsed
    return rows


def random_rows(seed: int, count: int) -> tuple[Rows, Int]:
    """Return times over nine powers of ten at three call sites, some of them 0 or unknown."""
    random = np.random.default_rng(seed)
    wait = np.floor(10 ** random.uniform(0, 9, count))
    wait[random.random(count) < 0.1] = 0
    wait[random.random(count) < 0.05] = np.nan
    elapsed = wait / 7 + random.uniform(1, 1e6, count)
    return rows_of(elapsed, wait), random.integers(0, 3, count)


def exact(values: Float, percent: int) -> float:
    """Return the value of a rank, by sorting."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[-(-len(known) * percent // 100) - 1])


@pytest.mark.parametrize("count", [3, 10, 100, 20_000])
def test_quantiles_are_as_near_as_promised(count: int) -> None:
    rows, where = random_rows(count, count)
    where %= 1 + count // 10
    collected = Quantiles()
    collected.add(rows, np.array([2, 5, 11]), where)
    table = collected.make_table(12)
    assert list(table) == list(NAMES)
    for place, callsite in enumerate((2, 5, 11)):
        mine = where == place
        for name, values in (("elapsed", rows.mean_elapsed), ("wait", rows.wait)):
            known = values[mine & rows.complete]
            for level, percent in LEVELS.items():
                value = table[f"{name}_{level}_ns"][callsite]
                if len(known):
                    assert value == pytest.approx(exact(known, percent), rel=ERROR)
                else:
                    assert np.isnan(value)
    assert np.isnan(table["wait_p50_ns"][[0, 1, 3, 4]]).all()


def test_the_excess_is_that_of_long_transfers() -> None:
    """A transfer is the time of all ranks without their wait; each call site has its median."""
    rows, where = random_rows(5, 5000)
    rows.elapsed = rows.wait + np.random.default_rng(5).exponential(1e6, len(rows.wait))
    collected = Quantiles()
    collected.add(rows, np.array([2, 5, 11]), where)
    excess = collected.sum_excess("transfer", 2.0, 12)
    for place, callsite in enumerate((2, 5, 11)):
        transfer = (rows.elapsed - rows.wait)[(where == place) & rows.complete]
        usual = exact(transfer, 50)
        expected = (transfer - usual)[transfer > 2 * usual].sum()
        assert excess[callsite] == pytest.approx(expected, rel=0.03)
    assert not excess[[0, 1, 3, 4]].any()


def test_a_bucket_s_middle_is_near_all_that_is_in_it() -> None:
    values = np.concatenate([np.arange(1, 5_000), np.geomspace(1, 2.0**62, 100_000)]).astype(float)
    assert (np.abs(bucket_middles(bucket_numbers(values)) / values - 1) <= ERROR).all()
    assert (np.diff(bucket_numbers(np.sort(values))) >= 0).all()
    assert bucket_middles(bucket_numbers(np.array([0.0, 0.999]))).tolist() == [0, 0]


def test_the_order_of_joining_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts number their call sites independently, and are merged several times."""
    pieces = [random_rows(seed, 500) for seed in range(12)]
    whole = Quantiles()
    for rows, where in pieces:
        whole.add(rows, np.arange(3), where)
    monkeypatch.setattr(quantiles, "FULL", 100)
    for order in (range(12), range(11, -1, -1), np.random.default_rng(1).permutation(12)):
        joined = Quantiles()
        for piece in order:
            rows, where = pieces[piece]
            part = Quantiles()
            part.add(rows, np.array([0, 1, 4]), np.array([1, 2, 0])[where])
            joined.add_counts(part, np.array([2, 0, -1, -1, 1]))
        for name, values in whole.make_table(3).items():
            assert values.tobytes() == joined.make_table(3)[name].tobytes(), name


def test_counting_and_sorting_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, where = random_rows(3, 4_000)
    tables = []
    for some in (1 << 30, -(1 << 30)):
        monkeypatch.setattr(quantiles, "DENSE_CELLS", some)
        found = Quantiles()
        found.add(rows, np.array([0, 3, 4]), where)
        tables.append(found.make_table(5))
    for name in NAMES:
        assert tables[0][name].tobytes() == tables[1][name].tobytes(), name


def test_the_table_has_those_of_its_instances(tmp_path: Path) -> None:
    """Rank 1 is late in every tenth allreduce, and very late in one; the last allreduce is open.

    No rank has left the bcast.
    """
    synthetic = Synthetic(3)
    late = np.where(np.arange(400) % 10 == 9, 40_000, 500)
    late[200] = 3 * MS
    arrivals = np.arange(1, 401)[:, None] * 5 * MS + late[:, None] * np.array([0, 1, 0])
    exits = np.repeat(arrivals.max(1, keepdims=True) + 700, 3, 1)
    exits[-1, 2] = 0
    synthetic.add_collective("allreduce", arrivals, exits, site="a.py:1:main")
    synthetic.add_collective("bcast", [[2003 * MS] * 3], [[0] * 3], root=0, site="a.py:9:main")
    synthetic.ended_ns = 2004 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    table, instances = trace.callsites, trace.instances
    mine = instances[(instances["callsite"] == 0) & instances["complete"]]
    assert len(mine) == 399
    for name, column in (("elapsed", "mean_elapsed_ns"), ("wait", "wait_ns")):
        for level, percent in LEVELS.items():
            wanted = exact(mine[column].to_numpy(np.float64), percent)
            assert table[f"{name}_{level}_ns"][0] == pytest.approx(wanted, rel=ERROR)
    assert table["wait_p50_ns"][0] == pytest.approx(1_000, rel=ERROR)
    assert table["wait_p99_ns"][0] == pytest.approx(80_000, rel=ERROR)
    assert table.loc[1, list(NAMES)].isna().all()


def test_the_report_shows_quantiles(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    late = np.where(np.arange(100) < 95, 0, 10 * MS)
    arrivals = np.arange(1, 101)[:, None] * 20 * MS + late[:, None] * np.array([0, 1])
    synthetic.add_collective(
        "barrier", arrivals, np.repeat(arrivals.max(1, keepdims=True) + 2_000, 2, 1)
    )
    synthetic.ended_ns = 2_100 * MS
    folder = synthetic.write(tmp_path / "t")
    row = json.loads(run_verb("report", folder, "--json")[1])["callsites"][0]
    assert (row["wait_p50_ns"], row["wait_p90_ns"]) == (0, 0)
    assert row["wait_p99_ns"] == pytest.approx(10 * MS, rel=ERROR)
    text = " ".join(run_verb("report", folder, "--site", "barrier", "--all")[1].split())
    assert "50 % 90 % 99 %" in text
    assert "waiting, all ranks together 500 µs 0 ns 0 ns 10.0 ms" in text
    assert run_verb("report", folder, "--fail-on", "wait_p99 > 9ms")[0] == 3
    assert run_verb("report", folder, "--fail-on", "wait_p90 > 9ms")[0] == 0
