"""Messages of one algorithm in space and time, for figures that illustrate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpiprof.collectives import catalogue
from mpiprof.collectives.machine import DEFAULT, Machine
from mpiprof.collectives.papers.harness.figures import Panels, SpaceTime
from mpiprof.collectives.papers.harness.study import Row
from mpiprof.collectives.papers.reports import machines
from mpiprof.collectives.papers.reports.exhibits import Content, Results
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.simulate import simulate


def trace_schedule(
    panel: str,
    operation: str,
    name: str,
    problem: Problem,
    machine: Machine = DEFAULT,
    nodes: Sequence[int] = (),
    calls: int = 1,  # each process enters the next call when it leaves the previous one
) -> list[Row]:
    """Return a row for each message, and for each process a row with only its end."""
    inter = problem.remote_size > 0
    algorithm = catalogue.find(operation, name, intercommunicator=inter)
    rows: list[Row] = []
    finish: Sequence[float] = ()
    for _ in range(calls):
        timing = simulate(algorithm, problem, machine, finish, nodes, trace=True)
        finish = timing.finish.tolist()
        rows += [
            {"panel": panel, "process": m.source, "target": m.target, "start": m.start}
            | {"end": m.end, "bytes": m.bytes}
            for m in timing.messages
        ]
    return rows + [
        {"panel": panel, "process": process, "finish": end} for process, end in enumerate(finish)
    ]


def trace_examples(_: bool, examples: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the messages of examples that are data: the arguments of `trace_schedule`."""
    rows: list[Row] = []
    for example in examples:
        fields: dict[str, Any] = dict(example["problem"])
        fields |= {name: tuple(v) for name, v in fields.items() if isinstance(v, list)}
        problem, machine = Problem(**fields), vars(machines)[example.get("machine", "PER_BYTE")]
        names = (example["panel"], example["operation"], example["algorithm"])
        calls = example.get("calls", 1)
        rows += trace_schedule(*names, problem, machine, problem.nodes, calls)
    return rows


def show_schedules(
    title: str, rows: Sequence[Row], columns: int = 1, *, receives: bool = False
) -> Content:
    """Return the diagrams of all panels, with or without the times in which a process receives."""
    diagrams = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        chosen = [row for row in rows if row["panel"] == panel]
        sides = ("process", "target") if receives else ("process",)
        sends = [(r[side], r["start"], r["end"]) for side in sides for r in chosen if "start" in r]
        ends = [row["finish"] for row in chosen if "finish" in row]
        diagrams.append(SpaceTime(panel, sends, ends))
    figure = diagrams[0] if len(diagrams) == 1 else Panels(title, diagrams, columns)
    return Content([figure])


def show_example(results: Results, panel: str) -> Content:
    """Return the diagram of one of the examples."""
    return show_schedules("", results.select("examples", panel=panel))
