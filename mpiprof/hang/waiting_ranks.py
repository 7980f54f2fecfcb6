"""The ranks that wait for dead or finished ranks, in collectives and in message calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence

from mpiprof.hang.blocked_ranks import MessageLink
from mpiprof.hang.blocking_calls import MessageNeed, MessageNeeds
from mpiprof.hang.rank_state import Pending
from mpiprof.hang.verdict import Job
from mpiprof.hang.wait_graph import Link, awaited_missing, has_left, open_calls
from mpiprof.trace.metadata import Key


def find_waiting_ranks(job: Job, awaited: Collection[int]) -> tuple[Link, ...]:
    """Return one link for each rank that waits for a rank of `awaited`, direct waits first.

    A rank that waits for a waiting rank has a link to that rank. In a running job, a receive from
    any rank counts only if all possible senders are among these ranks.
    """
    waits = [wait for p in job.positions if not p.is_unknown for wait in p.waits]
    messages = MessageNeeds(job.trace, waits)
    needs = [need for wait in waits for need in messages.find(wait)]
    return tuple(_WaitSearch(job, needs).find(sorted(awaited)))


class _WaitSearch:
    """Breadth-first search from the awaited ranks to the ranks that wait for them."""

    def __init__(self, job: Job, needs: Sequence[MessageNeed]) -> None:
        self.job = job
        self.long = {instance.key for instance in job.long}
        self.instances: dict[int, list[Pending]] = {}  # by missing rank
        self.visited: set[Key] = set()  # instances all of whose waiting ranks are found
        for instance in job.pending:
            for rank in instance.missing:
                self.instances.setdefault(rank, []).append(instance)
        self.needs: dict[int, list[MessageNeed]] = {}  # by the only awaited rank
        for need in needs:
            self.needs.setdefault(need.waits_for, []).append(need)
        self.wildcards = self.needs.pop(-1, [])

    def find(self, awaited: Sequence[int]) -> list[Link]:
        """Return the links in the order of the search."""
        reached, queue = set(awaited), deque(awaited)
        found: list[Link] = []
        while queue:
            rank = queue.popleft()
            for link in (*self._links_to(rank), *self._wildcard_links(rank, reached)):
                if link.rank not in reached:
                    reached.add(link.rank)
                    queue.append(link.rank)
                    found.append(link)
        return found

    def _links_to(self, awaited: int) -> Iterator[Link]:
        """Yield the links of the ranks that wait for one rank."""
        for instance in self.instances.get(awaited, ()):
            if instance.key in self.visited:
                continue
            is_long = instance.key in self.long
            self.visited.update([instance.key] if is_long else [])
            for rank in instance.arrived:
                position = self.job.positions[rank]
                for call in () if has_left(position) else open_calls(position, instance):
                    if is_long or awaited in awaited_missing(
                        self.job.trace, rank, call, instance, is_long
                    ):
                        yield Link(rank, call, awaited)
        for need in self.needs.get(awaited, ()):
            yield MessageLink(need.rank, need.call, awaited, need)

    def _wildcard_links(self, awaited: int, reached: set[int]) -> Iterator[Link]:
        """Yield the links of receives from any rank whose possible senders cannot send."""
        remaining = []
        for need in self.wildcards:
            if awaited in need.ranks if self.job.ended else reached.issuperset(need.ranks):
                yield MessageLink(need.rank, need.call, awaited, need)
            else:
                remaining.append(need)
        self.wildcards = remaining
