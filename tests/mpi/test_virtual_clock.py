"""With virtual clocks and imposed delays, the report is exact to the nanosecond.

The cases have every blocking collective, its nonblocking form with Wait and with Test, and its
persistent form. They run on the world, the same ranks in reverse order, an inter-communicator and a
graph. Delays are one late rank, a linear and a random pattern. The expected values are computed
here from the imposed delays alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
from support.mpis import wheel_mpi
from support.virtual_clock import build, record
from support.virtual_clock_model import (
    ALL,
    BASE_NS,
    OPERATIONS,
    STATES,
    Instance,
    Simulation,
    make_plan,
)

from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES
from mpiprof.trace import Trace


@dataclass(frozen=True)
class Case:
    """An MPI, a number of ranks, and the clocks of the emulated nodes (offset:gain)."""

    mpi: str
    ranks: int
    nodes: str = ""

    def __str__(self) -> str:
        emulated = ", 2 nodes" if self.nodes else ""
        return f"{self.mpi}, {self.ranks} ranks{emulated}"


CASES = [
    Case("openmpi", 3),
    Case("openmpi", 4),
    Case("openmpi", 4, "5000000000:12000,-3000000000:-9000"),
    Case("mpich", 2),
]


@dataclass(frozen=True)
class Run:
    """A recorded run and its expected instances, in the order of each communicator."""

    trace: Trace
    instances: pd.DataFrame
    expected: dict[str, list[Instance]]
    tolerance_ns: int


def on_joint_clock(instance: Instance, nodes: str) -> Instance:
    """Return an instance as the clock of the first emulated node shows it."""
    if not nodes:
        return instance
    offset, gain = map(int, nodes.split(",")[0].split(":"))

    def moved(times: list[int]) -> list[int]:
        return [t + offset + (t - BASE_NS) * gain // 10**9 for t in times]

    return replace(
        instance,
        arrival=moved(instance.arrival),
        begin=moved(instance.begin),
        finish=moved(instance.finish),
    )


@pytest.fixture(scope="module", params=CASES, ids=str)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    case: Case = request.param
    folder: Path = tmp_path_factory.mktemp("known")
    plan = make_plan(case.ranks)
    (folder / "plan").write_text("".join(line.text() + "\n" for line in plan))
    clocks = {"VIRTUAL_CLOCK": "virtual", "VIRTUAL_BASE": str(BASE_NS)}
    if case.nodes:
        clocks["VIRTUAL_NODES"] = case.nodes
    program = build(wheel_mpi(case.mpi), folder, "virtual_clock_delays")
    trace = record(wheel_mpi(case.mpi), case.ranks, program, [str(folder / "plan")], clocks)
    simulation = Simulation(case.ranks)
    for line in plan:
        simulation.run(line)
    expected: dict[str, list[Instance]] = {}
    for instance in simulation.found:
        known = expected.setdefault(instance.communicator, [])
        known.append(on_joint_clock(instance, case.nodes))
    tolerance = trace.clock_error_ns + 1 if case.nodes else 0
    instances = trace.instances
    # test_management_collectives.py tests the others.
    planned = instances[~instances["operation"].isin(MANAGEMENT_COLLECTIVES)]
    return Run(trace, planned, expected, tolerance)


def reported(run: Run) -> Iterator[tuple[pd.Series, Instance]]:
    """Yield each instance as reported and as expected."""
    names = {
        run.trace.tables.communicators[index].identity: name
        for index, name in run.trace.tables.names.items()
    }
    table = run.instances.assign(
        name=[names.get(identity, "w") for identity in run.instances["communicator"]]
    )
    for name, expected in run.expected.items():
        mine = table[table["name"] == name].sort_values(["sequence", "start"], kind="stable")
        assert len(mine) == len(expected)
        for (_, found), wanted in zip(mine.iterrows(), expected, strict=True):
            yield found, wanted


def test_the_trace_is_whole(recorded: Run) -> None:
    assert recorded.trace.is_complete, recorded.trace.problems
    assert recorded.instances["complete"].all()
    assert recorded.tolerance_ns < 100


def values_of(wanted: Instance, base: str) -> Iterator[tuple[str, float, int]]:
    """Yield columns of `instances`, expected values, and how many clock errors may add up."""
    ranks = len(wanted.arrival)
    yield "first_arrival_ns", min(wanted.arrival), 1
    yield "last_arrival_ns", max(wanted.arrival), 1
    yield "average_imbalance_ns", wanted.average, 1
    yield "worst_imbalance_ns", wanted.worst, 1
    yield "mean_elapsed_ns", sum(wanted.elapsed) / ranks, 1
    yield "last_exit_ns", max(wanted.finish), 1
    yield "wait_ns", wanted.wait, ranks
    state = "barrier" if base == "barrier" else wanted.kind
    for name in STATES:
        yield f"wait_{name}_ns", wanted.wait if name == state else 0, ranks
    yield "completion_skew_ns", wanted.skew if wanted.kind == ALL else 0, 2 * ranks
    message_time = 10_000 + wanted.message  # message time in bench.synthetic.MACHINE
    yield "message_bytes", wanted.message, 0
    yield "message_time_ns", message_time, 0
    yield "worst_factor", wanted.worst / message_time, 1
    yield "average_factor", wanted.average / message_time, 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_instance(operation: str, recorded: Run) -> None:
    names = (operation, f"i{operation}", f"{operation}_init")
    near, count = recorded.tolerance_ns, 0
    for found, wanted in reported(recorded):
        assert found["operation"] == wanted.operation
        if wanted.operation not in names:
            continue
        count += 1
        assert (found["start"] > 0) == wanted.started, wanted
        if wanted.worst > near:
            assert found["last_rank"] == wanted.last_rank, wanted
        for column, value, errors in values_of(wanted, operation):
            # Plus a thousandth of a nanosecond, because a mean over ranks is a floating-point
            # number.
            room = errors * near + 1e-3
            assert found[column] == pytest.approx(value, rel=0, abs=room), (column, wanted)
    assert count > 0


def test_every_call_site(recorded: Run) -> None:
    """Means over instances, the rank that is late most often, and the total of each wait state."""
    groups: dict[tuple[str, bool], list[Instance]] = {}
    for expected in recorded.expected.values():
        for instance in expected:
            # The two operations of the pair have separate call sites.
            groups.setdefault((instance.operation, instance.started), []).append(instance)
    near = recorded.tolerance_ns
    table = recorded.trace.callsites
    single = 0
    for (operation, started), group in groups.items():
        chosen = table[(table["operation"] == operation) & (table["started"] == started)]
        assert chosen["instances"].sum() == len(group)
        if len(chosen) > 1:  # the two operations of the pair
            continue
        single += 1
        found, ranks = chosen.iloc[0], len(group[0].arrival)
        for column, values in (
            ("worst_imbalance_ns", [i.worst for i in group]),
            ("average_imbalance_ns", [i.average for i in group]),
            ("mean_elapsed_ns", [sum(i.elapsed) / ranks for i in group]),
            ("wait_ns", [i.wait for i in group]),
        ):
            mean = sum(values) / len(values)
            assert found[column] == pytest.approx(mean, rel=1e-12, abs=ranks * near + 1e-3), column
        total = sum(i.wait for i in group)
        assert found["total_wait_ns"] == pytest.approx(total, rel=0, abs=len(group) * ranks * near)
        late = Counter(i.last_rank for i in group if i.worst > recorded.trace.clock_error_ns)
        if late:
            rank, times = max(late.items(), key=lambda item: (item[1], -item[0]))
            assert (found["latest_rank"], found["latest_share"]) == (rank, times / len(group))
    assert single == len(groups) - 6  # less the pair's: two each of nonblocking, init, started
