"""Statistics of arrivals: late rank, slow node, noise, inherited lateness, and mixtures.

Arrivals are sums of components with known shares of the variance.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support import tune_traces
from support.late_traces import MS, STEP, messages, noise, one_site, steps
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account.variance_components import SIGNIFICANT, nodes_differ, subtract_median_of_others
from mpiprof.causes.arrival_statistics import ArrivalStatistics
from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import Gain, find_findings
from mpiprof.collectives.tune.predict import find_gains
from mpiprof.reports.words import callsite_sentences, finding_sentences

NODES = [0, 0, 0, 0, 1, 1, 1, 1]


def two_nodes() -> Synthetic:
    """Return a trace of 8 ranks on two nodes whose clocks were compared to within 1 µs."""
    synthetic = Synthetic(8, nodes=NODES, offsets=(0, 5 * MS), drifts=(0.0, 0.0))
    synthetic.ended_ns = 1000 * STEP
    for at in (2_000, synthetic.ended_ns):
        synthetic.add_clock(4, 0, at, error=500)
    return synthetic


def shares(statistics: ArrivalStatistics) -> tuple[float, float, float]:
    return statistics.by_rank.value, statistics.by_node.value, statistics.random.value


def test_a_late_rank(tmp_path: Path) -> None:
    late = noise(200, 8, 0.1)
    late[:, 5] += 3
    trace = one_site(tmp_path, Synthetic(8), late)
    statistics = trace.arrival_statistics(0)
    systematic = 9 * 7 / 8 / (9 * 7 / 8 + 7 * 0.01)  # of the variance within instances
    assert statistics.by_rank.value == pytest.approx(systematic, abs=0.002)
    assert statistics.by_rank.low < systematic < statistics.by_rank.high
    assert statistics.by_node.value == 0 and sum(shares(statistics)) == pytest.approx(1)
    first = statistics.ranks.iloc[0]
    assert (first["rank"], first["late_share"], first["last_share"]) == (5, 1, 1)
    assert abs(first["late_ns"] - 3 * MS) < 2 * first["error_ns"]
    assert statistics.outside.value == pytest.approx(1, abs=0.01)  # all exits are equal
    (one,) = trace.findings()
    assert (one.cause, one.rank) == ("rank", 5)
    # Without the cause, the ranks wait for the latest of eight equal ranks.
    waiting = float(trace.callsites["total_wait_ns"].iloc[0])
    assert one.cost_ns == pytest.approx(200 * 7 * 3 * MS - 200 * 7 * 0.143 * MS, rel=0.02)
    assert one.cost_ns < waiting
    assert one.habit.late_ns == pytest.approx(3 * MS, rel=0.02)
    assert (one.first_instance, one.last_instance, one.period) == (0, 199, None)
    printed = finding_sentences.finding_text(trace, one)
    assert printed.startswith("Rank 5 works 3.0")
    assert " between two calls of allreduce at md.py:93 exchange, in each step: " in printed
    assert "This holds in 200 of 200 steps." in printed


def test_a_slow_node(tmp_path: Path) -> None:
    late = noise(200, 8, 0.1) + 2.0 * np.array(NODES)
    trace = one_site(tmp_path, two_nodes(), late)
    statistics = trace.arrival_statistics(0)
    systematic = 8 * 1 / (8 * 1 + 7 * 0.01)
    assert statistics.by_node.value == pytest.approx(systematic, abs=0.002)
    assert statistics.by_rank.value < 0.002
    assert statistics.nodes.iloc[0]["late_ns"] == pytest.approx(2 * MS, rel=0.02)
    (one,) = trace.findings()
    assert (one.cause, one.node, one.ranks) == ("node", "node-1", (4, 5, 6, 7))
    assert one.habit.late_ns == pytest.approx(2 * MS, rel=0.02)
    assert finding_sentences.finding_text(trace, one).startswith("The ranks on n1 work ")


def test_one_late_rank_makes_no_slow_node(tmp_path: Path) -> None:
    late = noise(200, 8, 0.1)
    late[:, 5] += 3
    trace = one_site(tmp_path, two_nodes(), late)
    assert trace.arrival_statistics(0).by_node.value == 0
    assert [(one.cause, one.ranks) for one in trace.findings()] == [("rank", (5,))]


def test_nodes_differ_as_fishers_test_has_it() -> None:
    """Only ranks without outliers, because nodes_differ moves outliers closer first."""
    random, node = np.random.default_rng(5), np.repeat([0, 1, 2], [4, 3, 5])
    found, expected = [], []
    for shift in np.linspace(0, 4, 200):
        values = random.uniform(-1, 1, len(node)) + np.array([0, 0, shift])[node]
        groups = [values[node == number] for number in range(3)]
        median = [np.median(group) for group in groups]
        far = [np.abs(group - at) for group, at in zip(groups, median, strict=True)]
        if all(away.max() < 3 * np.median(away) / 0.6745 for away in far):
            found.append(nodes_differ(values, node, 0.0))
            expected.append(bool(stats.f_oneway(*groups).pvalue < SIGNIFICANT))
    assert found == expected and 20 < sum(found) < len(found) - 20


def test_noise_alone(tmp_path: Path) -> None:
    trace = one_site(tmp_path, two_nodes(), noise(400, 8, 0.5))
    statistics = trace.arrival_statistics(0)
    assert statistics.random.value > 0.98 and statistics.by_rank.low == 0
    (one,) = trace.findings()
    assert (one.cause, one.ranks) == ("noise", ())
    # Waits up to the error of the clocks have no cause.
    assert one.cost_ns == pytest.approx(trace.callsites["total_wait_ns"].iloc[0], rel=1e-3)
    assert "No rank consistently causes the waiting" in finding_sentences.finding_text(trace, one)
    assert len(trace.phases(0)) == 1 and trace.phases(0)["period"].iloc[0] == 0


def test_mixed_components_are_separated(tmp_path: Path) -> None:
    late = noise(300, 8, 0.5) + 2.0 * np.array(NODES)
    late[:, 1] += 4
    trace = one_site(tmp_path, two_nodes(), late)
    statistics = trace.arrival_statistics(0)
    planted = 2.0 * np.array(NODES) + 4.0 * (np.arange(8) == 1)
    planted -= planted.mean()
    by_node = np.array([-1.0] * 4 + [1.0] * 4)
    whole = (planted**2).sum() + 7 * 0.25
    expected = ((planted - by_node) @ planted / whole, by_node @ planted / whole, 7 * 0.25 / whole)
    assert shares(statistics) == pytest.approx(expected, abs=0.03)
    assert statistics.nodes.iloc[0]["late_ns"] == pytest.approx(2 * MS, rel=0.1)
    first, second, third = trace.findings()
    assert (first.cause, first.ranks) == ("rank", (1,))
    assert first.habit.late_ns == pytest.approx(4 * MS, rel=0.05)
    assert (second.cause, second.node, third.cause) == ("node", "node-1", "noise")
    costs = [one.cost_ns for one in trace.findings()]
    assert sum(costs) <= trace.callsites["total_wait_ns"].iloc[0] + 1


def test_a_bound_wider_than_the_differences_decides_nothing(tmp_path: Path) -> None:
    synthetic = Synthetic(8, nodes=NODES, offsets=(0, 5 * MS), drifts=(0.0, 0.0))
    synthetic.add_clock(4, 0, 2_000, error=5 * MS)
    synthetic.add_clock(4, 0, 200 * STEP, error=5 * MS)
    late = noise(100, 8, 0.01)
    late[:, 5] += 0.5
    # Only a bcast, because synchronising operations would bound the clocks.
    trace = one_site(tmp_path, synthetic, np.roll(late, -5, 1), "bcast")
    assert trace.clock_error_ns > 0.5 * MS
    assert [one.cause for one in trace.findings()] in ([], ["clock"])


# Several call sites


def test_inherited_lateness_is_followed_to_where_it_began(tmp_path: Path) -> None:
    trace = steps(tmp_path)
    names = trace.callsites["operation"].tolist()
    assert names == ["bcast", "allreduce", "barrier", "alltoall"]
    statistics = trace.arrival_statistics(1)
    assert statistics.inherited.value == pytest.approx(1, abs=0.01)
    assert statistics.exit_ns.value == pytest.approx(3 * MS, rel=0.02)
    assert statistics.between_ns.value == pytest.approx(0.036 * MS, rel=0.2)
    assert statistics.arrival_ns.value == pytest.approx(3 * MS, rel=0.02)
    assert statistics.before["callsite"].tolist() == [0]
    first = trace.findings()[0]
    assert (first.cause, first.ranks, first.callsites[0]) == ("rank", (5,), 1)
    text = finding_sentences.finding_text(trace, first)
    between = "between alltoall at md.py:97 swap and bcast at md.py:71 spread, in each step"
    assert text.startswith(f"Rank 5 works 3.00 ms longer than the other ranks {between}: ")
    assert first.cost_ns == pytest.approx(60 * 5 * 3 * MS, rel=0.02)
    assert trace.arrival_statistics(0).outside.value == pytest.approx(1, abs=0.01)


@pytest.mark.heavy
@pytest.mark.parametrize("compensated", [0.0, 0.3, 0.9])
def test_shares_of_the_spread_are_shares(tmp_path: Path, compensated: float) -> None:
    """Ranks that leave late then have less work: once "-8 % came in, 108 % arose since then".

    An arrival is -k times the exit before it, plus work with the variance of exits. So k of k + k^2
    + 1 of the arrivals' spread is compensated, and none of it was inherited.
    """
    synthetic = Synthetic(8)
    synthetic.ended_ns = 1000 * STEP
    at = np.arange(400)[:, None] * STEP
    late, work = (noise(400, 8, 0.5, seed) - 5 for seed in (1, 2))
    exits, arrivals = late, work - compensated * late
    left, come = (
        np.rint(at + part * STEP + values * MS).astype(np.int64)
        for part, values in ((0.3, exits), (0.6, arrivals))
    )
    for i in range(len(at)):
        begun, ended = np.full(8, at[i] + 1000), np.full(8, come[i].max() + 1000)
        synthetic.add_collective("reduce", begun, left[i], site="a.py:1:work", root=0)
        synthetic.add_collective("allreduce", come[i], ended, site="a.py:2:step")
    statistics = mpiprof.open(synthetic.write(tmp_path / "t")).arrival_statistics(1)
    parts = [statistics.inherited, statistics.outside, statistics.point_to_point]
    assert sum(part.value for part in parts) == pytest.approx(1)
    for part in (
        *parts,
        statistics.compensated,
        statistics.by_rank,
        statistics.by_node,
        statistics.random,
    ):
        assert 0 <= part.low <= part.value <= part.high <= 1
    k = compensated
    assert statistics.compensated.value == pytest.approx(k / (k + k * k + 1), abs=0.05)
    assert statistics.inherited.value == pytest.approx(0, abs=0.05)
    text = " ".join(callsite_sentences.arrival_sentences(statistics))
    percents = [int(number) for number in re.findall(r"-?\d+(?= %| to|\))", text)]
    assert len(percents) >= 5 and all(0 <= number <= 100 for number in percents)
    assert ("Ranks make up for" in text) == (k > 0)


def test_the_origin_is_determined_from_late_ranks(tmp_path: Path) -> None:
    """On 2 ranks, a barrier releases rank 1 later by 1 us.

    In every 5th instance it sleeps after it.
    """
    synthetic, count = Synthetic(2), 300
    synthetic.ended_ns = count * STEP
    for i in range(count):
        begin = np.full((1, 2), i * STEP)
        synthetic.add_collective(
            "barrier", begin, begin + np.array([MS, MS + 1000]), site="app.py:1:main"
        )
        arrival = begin + 5 * MS + np.array([0, 1000 + 10 * MS * (i % 5 == 2)])
        leave = np.full((1, 2), arrival.max() + 50_000)
        synthetic.add_collective("allreduce", arrival, leave, site="app.py:2:main")
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    one = trace.findings()[0]
    assert (one.cause, one.ranks, one.period) == ("periodic", (1,), 5)
    work = one.habit.work[0]
    assert (work.before["operation"], work.after["operation"]) == ("barrier", "allreduce")
    text = finding_sentences.finding_text(trace, one)
    assert text.startswith("Rank 1 works 10.0 ms longer than the other ranks between barrier ")
    assert (
        "% changes from instance to instance."
        in callsite_sentences.arrival_sentences(trace.arrival_statistics(1))[1]
    )


def test_time_in_messages_is_separate(tmp_path: Path) -> None:
    statistics = steps(tmp_path, outside_ns=3 * MS).arrival_statistics(0)
    assert statistics.point_to_point.value == pytest.approx(1, abs=0.05)
    assert statistics.ranks.iloc[0]["point_to_point_ns"] == 3 * MS


@pytest.mark.parametrize("waits", [True, False])
def test_who_waits_for_a_message_has_no_more_to_do(waits: bool, tmp_path: Path) -> None:
    """Rank 1 works 3 ms longer; ranks 2 and 3 wait for its message, or work as long."""
    synthetic, random = Synthetic(4), np.random.default_rng(7)
    for i in range(40):
        came = 10 * MS * (i + 1) + random.integers(0, MS // 50, 4) + np.array([0, 3, 3, 3]) * MS
        for rank in (2, 3) if waits else ():
            messages(synthetic, rank, 3 * MS)
        synthetic.add_collective(
            "allreduce", came, np.full(4, came.max() + 50_000), site="md.py:9:step"
        )
    synthetic.ended_ns = 420 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    one = trace.findings()[0]
    printed = finding_sentences.finding_text(trace, one)
    assert (one.cause, one.ranks) == (("rank", (1,)) if waits else ("early", (0,)))
    assert ("less than the other ranks" in printed) != waits


@pytest.mark.parametrize(
    ("at_the_call", "printed"),
    [
        (0, " 75 % of that time it is in work.py:9 solve (sampled)."),
        (4, " 50 % of that time it is in work.py:9 solve (sampled)."),
        (8, "Look at what rank 2 does between these calls."),
    ],
)
def test_what_a_late_rank_does_is_named(tmp_path: Path, at_the_call: int, printed: str) -> None:
    """Samples between the calls, by function: 6 of 8 in solve(), most of them at line 9.

    Samples at the line of the call were taken when Python's lock was released there. Their location
    is unknown. If they are as many as the others, the finding names no function.
    """
    synthetic, random = Synthetic(4), np.random.default_rng(9)
    came = np.arange(40)[:, None] * 10 * MS + random.integers(0, MS // 10, (40, 4)) + 10 * MS
    came[:, 2] += 3 * MS
    left = np.repeat(came.max(1, keepdims=True) + 50_000, 4, 1)
    synthetic.add_collective("allreduce", came, left, site="md.py:93:step")
    entered = synthetic.add_site(2, "md.py:93:step")
    places = {"work.py:8:solve": 2, "work.py:9:solve": 4, "work.py:20:load": 2}
    for place, samples in (places | {"md.py:93:step": at_the_call}).items():
        where = {
            "site": synthetic.add_site(2, place),
            "after": entered,
            "before": entered,
            "samples": samples,
            "ns": samples * 10 * MS,
        }
        synthetic.lines[2].append({"rank": 2, "where": where})
    synthetic.ended_ns = 500 * MS
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    text = finding_sentences.finding_text(trace, trace.findings()[0])
    assert text.endswith(printed)


def test_waiting_in_a_smaller_group_is_attributed_to_the_awaited_rank(tmp_path: Path) -> None:
    synthetic, random = Synthetic(4), np.random.default_rng(5)
    synthetic.add_communicator("left", [0, 1])
    synthetic.add_communicator("right", [2, 3])
    now = 10 * MS
    for _ in range(50):
        a = now + MS + random.integers(0, 10_000, 4)
        a[2] += 4 * MS
        out = np.repeat([a[:2].max(), a[2:].max()], 2) + 10_000
        synthetic.add_collective("allreduce", a[:2], out[:2], "left", site="g.py:5:group")
        synthetic.add_collective("allreduce", a[2:], out[2:], "right", site="g.py:5:group")
        b = out + MS + random.integers(0, 10_000, 4)
        b[3] += 20_000
        synthetic.add_collective("allreduce", b, np.full(4, b.max() + 10_000), site="g.py:9:all")
        now = int(b.max()) + 10_000
    synthetic.ended_ns = now + MS
    trace = mpiprof.open(synthetic.write(tmp_path / "groups"))
    lines = [sites[0]["line"] for sites in trace.callsites["sites"]]
    everybody = lines.index(9)
    statistics = trace.arrival_statistics(everybody)
    assert (
        statistics.ranks.iloc[0]["rank"] == 3
    )  # it comes last, but only because it waited for rank 2
    for one in (trace.findings()[0], trace.derive("conclusions", everybody)[0]):
        assert (one.cause, one.ranks) == ("rank", (2,))


# Edges


@pytest.mark.parametrize(("count", "ranks"), [(1, 4), (2, 2), (3, 1)])
def test_few_instances_and_ranks(tmp_path: Path, count: int, ranks: int) -> None:
    late = np.zeros((count, ranks))
    late[:, -1] = 3
    trace = one_site(tmp_path, Synthetic(ranks), late)
    statistics = trace.arrival_statistics(0)
    instances = count if ranks > 1 else 0  # calls of one rank are no instances
    assert statistics.complete_instances == instances and len(trace.phases(0)) == min(instances, 1)
    expected = {1: ["long_work"], 2: ["rank"]}.get(count, [])
    assert [one.cause for one in trace.findings()] == expected
    for one in trace.findings():
        assert "nan" not in finding_sentences.finding_text(trace, one)
    assert "nan" not in " ".join(callsite_sentences.arrival_sentences(statistics))


def test_a_summary_has_no_arrival_statistics(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    for rank in range(2):
        synthetic.add(
            rank, synthetic.add_shape(rank, "allreduce", "world", sent=8), 0, 5 * MS, 10, kind=5
        )
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    assert trace.hot == [] and trace.findings() == []
    with pytest.raises(mpiprof.errors.TraceError, match="summary"):
        trace.arrival_statistics(0)


def test_gains_from_elsewhere_are_findings(tmp_path: Path) -> None:
    late = noise(50, 4, 0.1)
    trace = one_site(tmp_path, Synthetic(4), late)
    good = Gain(0, "ring:block_size=65536", 2e9, 1e8, "simulated")
    findings = find_findings(trace, [good, Gain(0, "pair", 1e6, 1e7, "simulated")])
    assert isinstance(findings[0], Finding) and findings[0].algorithm == "ring:block_size=65536"
    assert [one.cause for one in findings] == ["algorithm", "noise"]
    text = finding_sentences.finding_text(trace, findings[0])
    assert "2.00 s" in text and "run --switch md.py:93=ring:block_size=65536" in text


def test_gains_of_the_simulator(tmp_path: Path) -> None:
    trace = mpiprof.open(tune_traces.one_sender(tmp_path / "t"))
    (gain,) = find_gains(trace, 20)
    assert gain.callsite == 0 and gain.algorithm.startswith("pipelined_ring:block_size=")
    # The linear ring takes 35/8 hops per rank on average beyond the late rank's 0.5 ms. Any
    # pipelined ring takes at least one hop.
    hop, instances = tune_traces.HOP, 20 * tune_traces.RANKS
    now = 35 / 8 * hop - tune_traces.LATE_NS
    assert 0.5 * now < gain.saved_ns / instances < now - hop * 0.9
    assert gain.error_ns < 0.02 * gain.saved_ns
    assert trace.findings([gain])[0].cause == "algorithm"


def test_median_of_the_others() -> None:
    random = np.random.default_rng(7)
    for ranks in (2, 3, 4, 7):
        values = random.integers(0, 5, (ranks, 50)).astype(float)
        expected = [
            [values[i, j] - np.median(np.delete(values[:, j], i)) for j in range(50)]
            for i in range(ranks)
        ]
        assert subtract_median_of_others(values).tolist() == expected
