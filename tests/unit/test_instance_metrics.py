"""Imbalance, sizes and aggregation by hand-computed examples and by invariants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account.callsites import average_factors, factor_distribution, join_by_routine
from mpiprof.account.instance_metrics import MIX_STEP, _mix_rows
from mpiprof.trace.types import Int

A, B = "app.py:10:step", "app.py:20:solve"


def random_run(seed: int, ranks: int = 5, count: int = 40) -> tuple[Int, Int]:
    random = np.random.default_rng(seed)
    arrivals = np.arange(1, count + 1)[:, None] * 1_000_000 + random.integers(
        0, 100_000, (count, ranks)
    )
    return arrivals, arrivals.max(1)[:, None] + random.integers(0, 5000, (count, ranks))


def test_the_paper_s_definitions(tmp_path: Path) -> None:
    trace = Synthetic(4)
    trace.add_collective("allreduce", [[1000, 2000, 3000, 10_000]], [[12_000] * 4], sent=1000)
    row = mpiprof.open(trace.write(tmp_path / "t")).instances.iloc[0]
    # Mean arrival 4000: deviations 3000, 2000, 1000, 6000; T(1000 B) = 11000 ns.
    assert row["average_imbalance_ns"] == 3000
    assert row["worst_imbalance_ns"] == 9000
    assert row["message_time_ns"] == 11_000
    assert row["average_factor"] == pytest.approx(3000 / 11_000)
    assert row["worst_factor"] == pytest.approx(9000 / 11_000)
    assert row["mean_elapsed_ns"] == (11_000 + 10_000 + 9000 + 2000) / 4
    assert (row["first_rank"], row["last_rank"]) == (0, 3)
    assert (row["first_arrival_ns"], row["last_arrival_ns"]) == (1000, 10_000)
    assert row["last_exit_ns"] == 12_000


def test_metrics_equal_a_plain_computation(tmp_path: Path) -> None:
    arrivals, exits = random_run(1)
    trace = Synthetic(5)
    trace.add_collective("alltoall", arrivals, exits, sent=500, received=500)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    table = opened.instances
    mean = arrivals.mean(1, keepdims=True)
    np.testing.assert_allclose(table["average_imbalance_ns"], np.abs(arrivals - mean).mean(1))
    np.testing.assert_array_equal(table["worst_imbalance_ns"], np.ptp(arrivals, axis=1))
    np.testing.assert_array_equal(table["exit_imbalance_ns"], np.ptp(exits, axis=1))
    np.testing.assert_allclose(table["exit_factor"], np.ptp(exits, axis=1) / 10_100)
    np.testing.assert_array_equal(table["first_rank"], arrivals.argmin(1))
    np.testing.assert_array_equal(table["last_rank"].astype(int), arrivals.argmax(1))
    np.testing.assert_allclose(table["mean_elapsed_ns"], (exits - arrivals).mean(1))
    row = opened.callsites.iloc[0]
    means = ("average_imbalance_ns", "worst_factor", "exit_imbalance_ns", "exit_factor")
    for name in (*means, "mean_elapsed_ns", "wait_ns"):
        assert row[name] == pytest.approx(table[name].mean())
    assert row["total_elapsed_ns"] == (exits - arrivals).sum()
    assert row["total_wait_ns"] == table["wait_ns"].sum()
    assert row["balanced_share"] == pytest.approx((table["worst_factor"] < 1).mean())
    lates = np.bincount(arrivals.argmax(1), minlength=5)
    assert row["latest_rank"] == lates.argmax()
    assert row["latest_share"] == pytest.approx(lates.max() / 40)
    found = opened.matrix(0)
    np.testing.assert_array_equal(found[0], arrivals)
    np.testing.assert_array_equal(found[1], exits)


def test_shifting_all_times_changes_nothing_but_the_times(tmp_path: Path) -> None:
    arrivals, exits = random_run(2)
    tables = []
    for shift in (0, 12_345_678):
        trace = Synthetic(5)
        trace.add_collective("allreduce", arrivals + shift, exits + shift)
        tables.append(mpiprof.open(trace.write(tmp_path / str(shift))).callsites)
    assert tables[0].equals(tables[1])


def test_waiting_never_exceeds_the_time_inside(tmp_path: Path) -> None:
    arrivals, exits = random_run(3)
    trace = Synthetic(5)
    for operation in ("bcast", "reduce", "scan", "allreduce", "barrier"):
        trace.add_collective(operation, arrivals, exits, root=2)
        arrivals, exits = arrivals + 10**9, exits + 10**9
    table = mpiprof.open(trace.write(tmp_path / "t")).instances
    assert (table["wait_ns"] <= table["mean_elapsed_ns"] * 5).all()
    assert (table["wait_ns"] >= 0).all()
    assert (table["average_imbalance_ns"] <= table["worst_imbalance_ns"]).all()


@pytest.mark.parametrize(
    ("operation", "sent", "received", "root", "bytes_", "message"),
    [
        ("allreduce", 800, 800, None, 800, 800),
        ("reduce", 800, {1: 800}, 1, 800, 800),
        ("bcast", {0: 4096}, {1: 4096, 2: 4096, 3: 4096}, 0, 4096, 4096),
        ("alltoall", 4000, 4000, None, 4000, 1000),
        ("alltoallv", {0: 1000, 1: 2000, 2: 3000, 3: 10_000}, 4000, None, 4000, 1000),
        ("allgather", 100, 400, None, 100, 100),
        ("allgatherv", {0: 0, 1: 100, 2: 200, 3: 500}, 800, None, 200, 200),
        ("gather", 100, {0: 400}, 0, 100, 100),
        ("gatherv", {0: 0, 1: 100, 2: 200, 3: 500}, {0: 800}, 0, 200, 200),
        ("scatter", {2: 400}, 100, 2, 100, 100),
        ("scatterv", {0: 800}, {0: None, 1: 100, 2: 200, 3: 500}, 0, 200, 200),
        ("barrier", 0, 0, None, 0, 0),
    ],
)
def test_sizes(
    tmp_path: Path, operation: str, sent: Any, received: Any, root: Any, bytes_: int, message: int
) -> None:
    trace = Synthetic(4)
    trace.add_collective(
        operation, [[1, 2, 3, 4]], [[9] * 4], sent=sent, received=received, root=root
    )
    row = mpiprof.open(trace.write(tmp_path / "t")).instances.iloc[0]
    assert row["bytes"] == bytes_
    assert row["message_bytes"] == message
    assert row["message_time_ns"] == 10_000 + message


def test_sizes_given_by_extensions(tmp_path: Path) -> None:
    trace = Synthetic(2)
    for rank in (0, 1):
        shape = trace.add_shape(rank, "alltoallv", "world")
        for number in (0, 1):
            trace.add_extension(rank, 3, 1000 * (number + 1) + 200 * rank)
            trace.add(rank, shape, number, 1000 + number * 1000, 1500 + number * 1000)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    table = opened.instances
    assert table["bytes"].tolist() == [1100, 2100]
    assert table["bytes_min"].tolist() == [1000, 2000]
    assert table["message_bytes"].tolist() == [550, 1050]
    row = opened.callsites.iloc[0]
    assert (row["bytes"], row["bytes_min"], row["bytes_max"]) == (1600, 1000, 2200)


@pytest.mark.parametrize(("pace", "largest"), [({}, 62_000), ({"pace_ns_per_byte": 20.0}, 80_000)])
def test_message_time_between_nodes_and_beyond_the_table(
    pace: dict[str, float], largest: int, tmp_path: Path
) -> None:
    slow = {"alpha_ns": 5e4, "beta_ns_per_byte": 2.0, "sizes": [0, 100], "one_way_ns": [5e4, 6e4]}
    slow |= pace
    machine: dict[str, Any] = {"source": "init", "within": None, "between": slow}
    trace = Synthetic(2, nodes=[0, 1], offsets=[0, 0], drifts=[0, 0], machine=machine)
    trace.add_clock(1, 0, 1000, 10)
    trace.add_collective("allreduce", [[10_000, 10_000]], [[20_000, 20_000]], sent=50)
    trace.add_collective("allreduce", [[30_000, 30_000]], [[40_000, 40_000]], sent=1100)
    table = mpiprof.open(trace.write(tmp_path / "t")).instances
    assert table["message_time_ns"].tolist() == [55_000, largest]


def test_without_a_machine_table_factors_are_unknown(tmp_path: Path) -> None:
    trace = Synthetic(2, machine=None)
    trace.add_collective("allreduce", [[10, 20]], [[30, 30]])
    row = mpiprof.open(trace.write(tmp_path / "t")).callsites.iloc[0]
    assert np.isnan(row["worst_factor"])
    assert np.isnan(row["balanced_share"])
    assert row["worst_imbalance_ns"] == 10


def two_sites(tmp_path: Path) -> mpiprof.Trace:
    trace = Synthetic(4)
    a = np.array([[1_000_000, 1_000_100, 1_000_200, 1_500_000]]) + np.arange(3)[:, None] * 10**6
    trace.add_collective("allreduce", a, np.tile(a.max(1)[:, None] + 100, 4), site=A)
    even = np.full((2, 4), 10**8) + np.arange(2)[:, None] * 10**6
    root = {0: A, 1: B, 2: B, 3: B}
    trace.add_collective("bcast", even, even + 1000, root=0, site=root, sent=5000, received=5000)
    return mpiprof.open(trace.write(tmp_path / "two"))


def test_an_instance_may_have_several_sites(tmp_path: Path) -> None:
    table = two_sites(tmp_path).callsites
    assert table["operation"].tolist() == ["allreduce", "bcast"]
    assert [[s["line"] for s in sites] for sites in table["sites"]] == [[10], [10, 20]]
    assert table["instances"].tolist() == [3, 2]
    assert table["latest_rank"].isna().tolist() == [False, True]
    assert table["balanced_share"].tolist() == [0, 1]


def test_routines_averages_and_distribution(tmp_path: Path) -> None:
    trace = two_sites(tmp_path)
    by = join_by_routine(trace.callsites)
    assert by["operation"].tolist() == ["allreduce", "bcast"]
    assert by["count"].tolist() == [3, 2]
    assert by["major"].tolist() == [True, False]
    worst = trace.instances["worst_factor"]
    assert average_factors(trace.callsites)["worst_factor"] == pytest.approx(worst.mean())
    shares = factor_distribution(trace).set_index("range")
    assert shares["small"].sum() == pytest.approx(1)
    assert shares.loc["32-128", "small"] == 1  # 500000 / 10008
    assert shares.loc["<1", "large"] == 1


def test_communicators_of_several_sizes_share_a_call_site(tmp_path: Path) -> None:
    trace = Synthetic(4)
    trace.add_communicator("low", [0, 1])
    trace.add_collective("barrier", [[10, 20, 30, 40]], [[50] * 4], site=A)
    trace.add_collective("barrier", [[100, 200]], [[300, 300]], "low", site=A)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert opened.callsites["instances"].tolist() == [2]
    arrivals, exits = opened.matrix(0)
    assert arrivals.tolist() == [[10, 20, 30, 40], [100, 200, -1, -1]]
    assert exits.tolist() == [[50] * 4, [300, 300, 0, 0]]


@pytest.mark.parametrize("ranks", [1, 2, 7, 300])
@pytest.mark.parametrize("is_uniform", [False, True])
def test_hashes_of_instances_are_those_of_the_definition(ranks: int, is_uniform: bool) -> None:
    random = np.random.default_rng(ranks)
    mix = random.integers(1, 1 << 63, 6, dtype=np.uint64)
    shape = np.resize(random.integers(-1, 5, 20), (ranks, 20))
    if not is_uniform:
        shape = random.permuted(shape, axis=1)
    expected = []
    for column in shape.T.tolist():
        value = 0
        for number in column:
            value = (value * int(MIX_STEP) + int(mix[number])) % (1 << 64)
        expected.append(value)
    assert _mix_rows(mix, shape).tolist() == expected
