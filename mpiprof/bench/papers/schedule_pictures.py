"""Messages of one algorithm in space and time, for figures that illustrate it."""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.bench.harness.figures import Panels, SpaceTime
from mpiprof.bench.harness.study import Row
from mpiprof.bench.papers.exhibits import Content
from mpiprof.model import catalogue
from mpiprof.model.machine import DEFAULT, Machine
from mpiprof.model.schedule import Problem
from mpiprof.model.simulate import simulate


def trace_schedule(
    panel: str,
    operation: str,
    name: str,
    problem: Problem,
    machine: Machine = DEFAULT,
    nodes: Sequence[int] = (),
) -> list[Row]:
    """Return a row for each message, and for each process a row with only its end."""
    inter = problem.remote_size > 0
    algorithm = catalogue.find(operation, name, intercommunicator=inter)
    timing = simulate(algorithm, problem, machine, nodes=nodes, trace=True)
    messages: list[Row] = [
        {"panel": panel, "process": m.source, "target": m.target, "start": m.start, "end": m.end}
        | {"bytes": m.bytes}
        for m in timing.messages
    ]
    return messages + [
        {"panel": panel, "process": process, "finish": end}
        for process, end in enumerate(timing.finish.tolist())
    ]


def show_schedules(title: str, rows: Sequence[Row], columns: int = 1) -> Content:
    """Return the diagrams of all panels."""
    diagrams = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        mine = [row for row in rows if row["panel"] == panel]
        sends = [(r["process"], r["start"], r["end"]) for r in mine if "start" in r]
        ends = [row["finish"] for row in mine if "finish" in row]
        diagrams.append(SpaceTime(panel, sends, ends))
    figure = diagrams[0] if len(diagrams) == 1 else Panels(title, diagrams, columns)
    return Content([figure])
