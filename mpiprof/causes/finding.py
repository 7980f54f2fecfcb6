"""One finding: a fault of a run as data, with its cost and evidence. Reports put it into words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mpiprof.causes.cause import Cause, Removal
from mpiprof.causes.habits.habit import DelayPattern
from mpiprof.causes.place import Call, Place
from mpiprof.trace.trace import Trace

MAX_CERTAINTY = 0.999
NEGLIGIBLE_SHARE = 0.01  # share of all ranks' time below which waiting is negligible
MIN_CERTAINTY = 0.5  # minimum certainty for a cause to be called certain
MIN_CAUSE_SHARE = 0.5  # of the waiting at a call site, from which a finding is its cause
MIN_PARTIAL_SHARE = 0.1  # of the waiting at a call site, from which a finding is one of its causes

NOT_BLAMED = (
    "noise",
    "clock",
    "algorithm",
    "barrier",
    "oversubscription",
    "serial_turns",
    "wavefront",
    "none",
)  # causes without late ranks

# Causes of findings, by their names in the JSON output.
CAUSES = {
    "rank": "the same ranks are late",
    "early": "some ranks have less to do",
    "periodic": "ranks are late again and again, at even distances",
    "moving": "lateness goes from rank to rank in a pattern",
    "gradient": "lateness grows along the ranks",
    "inside": "lateness is made inside a call",
    "node": "the ranks of a node are late",
    "noise": "no rank in particular is late",
    "algorithm": "another algorithm would be faster",
    "barrier": "the run would end earlier without a barrier",
    "clock": "the clocks can't tell who is late",
    "off_processor": "a rank was off the processor once, for long",
    "repeated_stops": "a rank was off the processor again and again",
    "long_work": "the work of a rank took far longer than usual once",
    "long_call": "a call took far longer than usual once",
    "oversubscription": "ranks wait for processors",
    "processor_quota": "a quota stops ranks",
    "serial_section": "one rank works while the others wait",
    "serial_turns": "ranks work one at a time while the others wait",
    "slow_link": "messages between some ranks or nodes take longer than others",
    "larger_messages": "messages between two ranks are larger than others",
    "polling": "a rank finds messages late, because it pauses between its polls",
    "wavefront": "ranks wait in turn, as in a sweep or a pipeline",
    "unequal_groups": "few ranks work while the others wait",
    "none": "nothing is to be gained",
}
CallsiteName = int | tuple[str, int]  # as WaitSite.callsite

MIN_INSIDE_SHARE = 0.5  # of a delay's cost inside calls, from which it is no work


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

    @property
    def is_inside(self) -> bool:
        """Return whether the time is inside calls, and so no work."""
        return sum(place.share for place in self.work if place.inside) >= MIN_INSIDE_SHARE


NO_EVIDENCE = Evidence()


@dataclass(frozen=True)
class HabitEvidence(Evidence, DelayPattern):
    """Evidence of a habit; times in ns.

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

    late_instances: int = 0
    instances: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    onset_ns: int | None = None
    stay: tuple[int, int] | None = None
    late_by_rank: tuple[tuple[int, float], ...] = ()
    by_turns: bool = False
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


@dataclass(frozen=True)
class WaitSite:
    """A call site at which a finding causes waiting.

    callsite: number of a call site of collectives, or operation and site_id of one of messages.
    share: of the waiting at this call site.
    """

    callsite: CallsiteName
    wait_ns: float
    share: float


@dataclass(frozen=True)
class Finding:
    """One fault and its cost to all ranks together over the run.

    - cause: an entry of CAUSES. share: cost over the run time of all ranks.
    - saved_ns: time by which the run would end earlier without the fault, at least 0.
    - callsites: call sites of collectives concerned, the costliest first. ranks: ranks concerned,
      the latest first. waits_at: all call sites at which a delay causes waiting, in this order.
    - period: number of instances between occurrences.
    - first_instance, last_instance: of the first call site, or None if instances do not matter.
    - certainty: 0 to 1, that the finding is not by chance. 0 if no rank is blamed with certainty.
    - evidence: the figures that its sentences state.
    - fact: the event or the structure that the finding states, or None.
    - removal: the time that the run would lack without the fault; None if no replay shows that.
    """

    cause: str
    cost_ns: int
    share: float
    callsites: tuple[int, ...]
    ranks: tuple[int, ...] = ()
    node: str | None = None
    algorithm: str | None = None
    period: int | None = None
    first_instance: int | None = None
    last_instance: int | None = None
    certainty: float = MAX_CERTAINTY
    saved_ns: float = 0.0
    evidence: Evidence = NO_EVIDENCE
    waits_at: tuple[WaitSite, ...] = ()
    fact: Cause | None = None
    removal: Removal | None = field(default=None, compare=False, repr=False)

    @property
    def is_delay(self) -> bool:
        """Return whether the finding comes from delays (delay_findings.py)."""
        return not isinstance(self.evidence, CallsiteEvidence)

    @property
    def is_first(self) -> bool:
        """Return whether the finding is stated before all others."""
        return self.fact is not None and self.fact.is_first

    @property
    def weight(self) -> float:
        """The factor of the saving in the order of causes."""
        return 1.0 if self.fact is None else self.fact.weight

    @property
    def waiting_ns(self) -> float:
        """The part of the cost in which ranks wait for each other."""
        return max(self.cost_ns - self.evidence.calls_ns - self.evidence.queue_ns, 0.0)

    @property
    def waiting_share(self) -> float:
        """The share of this part in the run time of all ranks."""
        return self.share * self.waiting_ns / max(self.cost_ns, 1)

    @property
    def is_waiting(self) -> bool:
        """Return whether most of the cost is waiting for other ranks."""
        return self.waiting_ns >= self.cost_ns / 2

    @property
    def habit(self) -> HabitEvidence:
        """The evidence of a habit."""
        assert isinstance(self.evidence, HabitEvidence)
        return self.evidence

    @property
    def rest(self) -> RestEvidence:
        """The evidence of waiting without a sure cause."""
        assert isinstance(self.evidence, RestEvidence)
        return self.evidence

    @property
    def at_callsite(self) -> CallsiteEvidence:
        """The evidence of a finding that delays do not show."""
        assert isinstance(self.evidence, CallsiteEvidence)
        return self.evidence

    @property
    def main_callsite(self) -> CallsiteName | None:
        """The call site with most of the waiting: a number, or operation and site of messages."""
        if self.waits_at:
            return self.waits_at[0].callsite
        return self.callsites[0] if self.callsites else None

    def share_at(self, callsite: CallsiteName) -> float:
        """Return the share of the waiting at a call site that the finding causes, 0 if unknown."""
        return next((at.share for at in self.waits_at if at.callsite == callsite), 0.0)

    def find_wait_ns(self, callsite: CallsiteName) -> float:
        """Return the waiting at a call site that the finding causes, 0 if it is unknown."""
        return next((at.wait_ns for at in self.waits_at if at.callsite == callsite), 0.0)

    @property
    def rank(self) -> int | None:
        """The latest rank, or None if the finding concerns no ranks."""
        return self.ranks[0] if self.ranks else None


def make_finding(trace: Trace, cause: str, cost_ns: float, **fields: Any) -> Finding:
    """Return a finding with its share of the run time of all ranks.

    fields: of Finding. The call sites are by default those of collectives in waits_at.
    """
    waits_at: Sequence[WaitSite] = fields.get("waits_at", ())
    callsites = tuple(at.callsite for at in waits_at if isinstance(at.callsite, int))
    share = cost_ns / max(trace.process_time_ns, 1)
    return Finding(cause, round(cost_ns), share, **{"callsites": callsites, **fields})


def is_blamed(finding: Finding) -> bool:
    """Return whether a finding blames ranks with certainty, so that they get the accent."""
    certain = finding.certainty >= MIN_CERTAINTY
    return bool(finding.ranks) and certain and finding.cause not in NOT_BLAMED


def names_late_ranks(finding: Finding) -> bool:
    """Return whether a finding blames ranks that work longer; early ranks have less to do."""
    return is_blamed(finding) and finding.cause != "early"


def find_causes_at(
    findings: Sequence[Finding], callsite: CallsiteName, min_share: float = MIN_CAUSE_SHARE
) -> list[Finding]:
    """Return the findings that blame ranks for the waiting at a call site, the costliest first.

    Each causes at least a share of the waiting there, or most of its own waiting is there.
    """
    causes = [
        finding
        for finding in findings
        if is_blamed(finding)
        and (finding.share_at(callsite) >= min_share or finding.main_callsite == callsite)
    ]
    return sorted(causes, key=lambda finding: -finding.share_at(callsite))
