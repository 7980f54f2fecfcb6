"""Modelled times of an instance's messages, for instances that ran a schedule of mpiprof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mpiprof.account.problem_size import make_problem
from mpiprof.account.shape_names import is_native
from mpiprof.collectives.machine import DEFAULT, machine_of_table, scale_machine
from mpiprof.collectives.problem_spec import find_algorithm, set_parameters
from mpiprof.collectives.schedule import Schedule
from mpiprof.collectives.simulate import Timing, simulate
from mpiprof.collectives.variant import Variant
from mpiprof.errors import MpiprofError
from mpiprof.trace.types import Array, Float

from .timeline.segments import COMPLETION, OPEN
from .timeline.window import Timeline

MAX_MEMBERS = 256
MAX_MESSAGES = 20_000
MAX_ROUNDS = 4096
MAX_BYTES = 1 << 44
HALVINGS = 12  # of the scale: a resolution of 1 in 4096


class NotModelledError(Exception):
    """Reason, as text, why the messages of an instance cannot be shown."""


def model_messages(timeline: Timeline, number: int) -> dict[str, Any]:
    """Return the messages [source rank, target rank, start, end, bytes, round] of an instance.

    Times are in ns after the start of the timeline, simulated (collectives/simulate.py) under the
    recorded arrivals. `end` is the time at which the last rank ends in the model. `scale` is the
    factor applied to the machine's times. It is below 1 if messages would otherwise lie outside the
    recorded calls of their two ranks. Raises NotModelledError if the messages cannot be modelled.
    """
    segments, ranks = timeline.events.read_members(number)
    calls = (segments["flags"] & COMPLETION) == 0
    segments, ranks = segments[calls], ranks[calls]
    row = timeline.events.read_instances(number, number + 1)[0]
    communicator = timeline.trace.tables.communicators[int(row["communicator"])]
    shapes = [timeline.trace.tables.shapes[i] for i in segments["shape"].tolist()]
    names = {s.algorithm for s in shapes}
    name = names.pop() if len(names) == 1 else ""
    if not name or is_native(name):
        raise NotModelledError("it ran on an algorithm of the library, which is unknown")
    if len(np.unique(ranks)) != len(communicator.ranks) or len(ranks) != len(communicator.ranks):
        raise NotModelledError("not all of its members are in the trace")
    if len(ranks) > MAX_MEMBERS:
        raise NotModelledError(f"it has more than {MAX_MEMBERS} members")
    if (segments["flags"] & OPEN).any():
        raise NotModelledError("it has not ended")
    position = {rank: i for i, rank in enumerate(ranks.tolist())}
    order = [position[rank] for rank in communicator.ranks.tolist()]
    arrivals = segments["enter"][order].astype(np.float64)
    exits = segments["exit"][order].astype(np.float64)
    base = float(arrivals.min())
    sent = np.array([shapes[i].sent for i in order], np.int64)
    received = np.array([shapes[i].received for i in order], np.int64)
    groups = [len(group) for group in communicator.groups]
    sizes = (groups[0], groups[1] if communicator.is_inter else 0)
    root = communicator.find_column(max(s.root for s in shapes))
    try:
        model = _make_model(timeline, shapes[0].operation, name, sizes, root, sent, received)
        scale, timing = fit_scale(model, arrivals - base, exits - base)
    except MpiprofError as error:
        raise NotModelledError(str(error)) from None
    members = communicator.ranks.tolist()
    shift = base - timeline.events.begin_ns
    return {
        "number": number,
        "algorithm": name,
        "scale": scale,
        "end": float(timing.finish.max()) + shift,
        "messages": [
            [members[m.source], members[m.target], m.start + shift, m.end + shift, m.bytes, m.round]
            for m in timing.messages
        ],
    }


InstanceModel = Callable[[Float, float], Timing]


def fit_scale(model: InstanceModel, arrivals: Float, exits: Float) -> tuple[float, Timing]:
    """Return the largest scale up to 1 at which all messages lie within their ranks' calls.

    model: a function of arrivals and scale of the machine's times. Raises NotModelledError if no
    scale fits, because a rank left before the ranks that forward its data had arrived.
    """
    modelled = model(arrivals, 1.0)
    if _lies_within(modelled, exits):
        return 1.0, modelled
    low, best = 0.0, model(arrivals, 0.0)
    if not _lies_within(best, exits):
        raise NotModelledError("ranks left before the model can have their messages there")
    high = 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        modelled = model(arrivals, middle)
        if _lies_within(modelled, exits):
            low, best = middle, modelled
        else:
            high = middle
    return low, best


def _lies_within(timing: Timing, exits: Float) -> bool:
    return all(m.end <= min(exits[m.source], exits[m.target]) for m in timing.messages)


def _make_model(
    timeline: Timeline,
    operation: str,
    name: str,
    sizes: tuple[int, int],
    root: int,
    sent: Array,
    received: Array,
) -> InstanceModel:
    """Return the model of an instance; raise NotModelledError if the instance is too large."""
    variant = Variant.parse(name)
    try:
        machine = machine_of_table(timeline.trace.machine, "the trace")
    except MpiprofError:
        machine = DEFAULT
    chosen = find_algorithm(operation, variant.name, groups=bool(sizes[1]))
    problem = make_problem(operation, sizes, root, sent, received)
    problem = set_parameters(chosen, problem, dict(variant.parameters))
    if max(sum(problem.counts), sum(problem.remote_counts), problem.bytes) > MAX_BYTES:
        raise NotModelledError("its bytes exceed the limit of the model")
    problem = replace(problem, alpha=machine.alpha, beta=machine.beta)
    with Schedule(chosen, problem, 0) as schedule:
        rounds = schedule.rounds
    if rounds > MAX_ROUNDS or rounds * sum(sizes) > 4 * MAX_MESSAGES:
        raise NotModelledError("its schedule has too many messages to draw")
    node_names = list(dict.fromkeys(timeline.trace.node_ids.values()))
    nodes = [0] * sum(sizes) if len(node_names) < 2 else None

    def run(arrivals: Float, scale: float) -> Timing:
        simulated = simulate(
            chosen, problem, scale_machine(machine, scale), arrivals, nodes or (), trace=True
        )
        if len(simulated.messages) > MAX_MESSAGES:
            raise NotModelledError("its schedule has too many messages to draw")
        return simulated

    return run
