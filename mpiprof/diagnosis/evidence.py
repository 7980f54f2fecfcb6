"""Evidence of findings: the figures that their sentences state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpiprof.causes.place import Call, Place

CallsiteName = int | tuple[str, int]  # as WaitSite.callsite in finding.py


@dataclass(frozen=True)
class WorkLocation(Place):
    """A place with work of a finding.

    share: of the cost. rank: the one with most of it. code: that this rank executes there, None
    without samples (sampled_code.py).
    """

    share: float = 1.0
    rank: int = -1
    code: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FoundReason:
    """Reason of a delay in its costliest place, None if it is unknown.

    shares: of all reasons that are not 0.
    """

    reason: str | None
    shares: Mapping[str, float]


@dataclass(frozen=True)
class Evidence:
    """Evidence of any finding, and all that a fact has beside its cause.

    work: places, the costliest first. saved_work_ns: work as a rank's mean that the run would lack.
    calls_ns: part of the cost that is in calls, and is not known to be waiting. queue_ns: part of
    it that is waiting for a processor.
    """

    work: tuple[WorkLocation, ...] = ()
    saved_work_ns: float = 0.0
    calls_ns: float = 0.0
    queue_ns: float = 0.0


NO_EVIDENCE = Evidence()


@dataclass(frozen=True)
class HabitEvidence(Evidence):
    """Evidence of a habit (causes/habits/habit.py); times in ns.

    - late_instances: with half of the usual delay, of `instances` steps or repetitions (`unit`).
    - spans: first and last number of each stretch with the habit, () if it holds throughout.
    - onset_ns: since the start of the run, None if it holds from the first column on.
    - stay: least and most columns for which a moving delay stays at a rank.
    - late_by_rank: usual delay of each rank. by_turns: whether hardly two of them are late at once.
    - spared: ranks that are not late, if most are.
    - until: number from which the delay has its last level. course: shape of a gradual change.
    - steps_of: call sites at which the steps end. recorded: first and last number with records.
    - host: of the node. mainly_at: call site with most of the waiting.
    - alone_ns: usual work of the only rank that works there, None if others do, too.
    """

    late_ns: float = 0.0
    late_instances: int = 0
    instances: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    onset_ns: int | None = None
    offsets: tuple[int, ...] = ()
    step: int | None = None
    speed: float | None = None
    reverses: bool = False
    each: bool = False
    stay: tuple[int, int] | None = None
    late_by_rank: tuple[tuple[int, float], ...] = ()
    by_turns: bool = False
    levels: tuple[tuple[int, int, float], ...] = ()
    grows: tuple[float, float] | None = None
    varies: tuple[float, float] | None = None
    course: str | None = None
    until: int | None = None
    unit: str = "step"
    sampled: bool = False
    spared: tuple[int, ...] = ()
    all_ranks: bool = False
    steps_of: tuple[int, ...] = ()
    recorded: tuple[int, int] = (0, 0)
    host: str | None = None
    reason: FoundReason | None = None
    mainly_at: CallsiteName | None = None
    alone_ns: float | None = None


@dataclass(frozen=True)
class RestEvidence(Evidence):
    """Evidence of the waiting that has no sure cause.

    - instances: number of steps. besides: whether there are other findings.
    - missing: records that would show more causes, "messages" or "instances".
    - inside: call of the collective inside which most of it arises. omitted: places with too many
      intervals. blocked: place at which ranks are blocked.
    - common_last: unit and number of the columns in which one rank often works longest. mainly_at:
      call site with most of the waiting.
    """

    instances: int = 0
    besides: bool = False
    missing: str | None = None
    inside: Call | None = None
    omitted: tuple[Place, ...] = ()
    common_last: Mapping[str, Any] | None = None
    mainly_at: CallsiteName | None = None
    blocked: WorkLocation | None = None


@dataclass(frozen=True)
class CallsiteEvidence(Evidence):
    """Evidence of a finding about a call site of collectives that delays do not show.

    size: of the communicator. bytes, worst_imbalance_ns, worst_factor: None if unknown.
    clock_error_ns: of a finding about clocks. error_ns, how, ran: of one about an algorithm, the
    error of the gain, how it is known, and the algorithm that ran.
    """

    instances: int = 0
    size: int = 1
    bytes: float | None = None
    worst_imbalance_ns: float | None = None
    worst_factor: float | None = None
    clock_error_ns: int | None = None
    error_ns: float | None = None
    how: str | None = None
    ran: str | None = None
