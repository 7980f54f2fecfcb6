"""Faulty programs made by `faults.c` and `message_faults.c`, with the correct verdict on each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
MESSAGE_SOURCE = Path(__file__).with_name("message_faults.c")
ROOTED = ("bcast", "reduce", "gather", "scatter")
REDUCING = ("reduce", "allreduce", "scan", "reduce_scatter_block")
SIZED = (*ROOTED, "allreduce", "allgather", "alltoall", "scan", "reduce_scatter_block")
SYNCHRONISING = ("barrier", "allreduce", "allgather", "alltoall")
# kind -> the class that is right, and the operations that show it.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "operation": ("operation", (*SIZED, "barrier")),
    "root": ("root", ROOTED),
    "count": ("count", SIZED),
    "type": ("type", SIZED),
    "reduction": ("reduction", REDUCING),
    "order": ("order", SYNCHRONISING),
    "leave": ("missing", SYNCHRONISING),
    "skip": ("missing", SYNCHRONISING),
    "extra": ("missing", SYNCHRONISING),
    "sleep": ("missing", SYNCHRONISING),
    "compute": ("stalled", SYNCHRONISING),
    "receive": ("point_to_point", SYNCHRONISING),
    "wait": ("point_to_point", SYNCHRONISING),
    "deadlock": ("point_to_point", ("barrier",)),
    "segv": ("dead", SYNCHRONISING),
    "kill": ("dead", SYNCHRONISING),
    "term": ("dead", SYNCHRONISING),
    "abort": ("dead", SYNCHRONISING),
}
# Kinds of message_faults.c -> the right class, and the ranks after the rank `odd` that the verdict
# names.
MESSAGE_KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "sends": ("point_to_point", (0, 1)),
    "tag": ("point_to_point", (0,)),
    "communicator": ("point_to_point", (0,)),
    "missing_send": ("point_to_point", (0,)),
    "missing_receive": ("point_to_point", (0,)),
    "receives": ("point_to_point", (0, 1, 2)),
    "ended": ("missing", (1,)),
    "any_source": ("point_to_point", (0,)),
    "waitall": ("point_to_point", (0,)),
    "destination": ("point_to_point", (1,)),
    "probe": ("point_to_point", (0,)),
    "computing": ("stalled", (1,)),
    "files": ("stalled", (1,)),
    "chain": ("missing", (2,)),
    "slow_messages": ("none", ()),
}


@dataclass(frozen=True)
class Case:
    """One job. odd: the faulty rank. count: elements of a block."""

    kind: str
    operation: str
    ranks: int
    odd: int
    count: int = 16
    form: int = 0

    @property
    def words(self) -> list[str]:
        """Return the arguments of the program."""
        return [self.kind, self.operation, *map(str, (self.odd, self.count, self.form))]

    @property
    def source(self) -> Path:
        """Return the source of the program."""
        return MESSAGE_SOURCE if self.kind in MESSAGE_KINDS else SOURCE

    @property
    def right(self) -> tuple[str, list[int]]:
        """Return the correct class and ranks."""
        if self.kind == "none":
            return "none", []
        if self.kind in MESSAGE_KINDS:
            kind, offsets = MESSAGE_KINDS[self.kind]
            return kind, sorted((self.odd + offset) % self.ranks for offset in offsets)
        kind = KINDS[self.kind][0]
        disagree = kind in ("operation", "root", "count", "type", "reduction", "order")
        if self.kind == "deadlock" or (disagree and self.ranks == 2):
            return kind, list(range(self.ranks))
        return kind, [self.odd]


def cases(number: int, seed: int, most_ranks: int = 8) -> list[Case]:
    """Return `number` cases of all kinds in turn, with a sound program after every fifth."""
    chance = random.Random(seed)
    case_list: list[Case] = []
    kinds = [*KINDS, *MESSAGE_KINDS]
    while len(case_list) < number:
        if len(case_list) % 6 == 5:
            case_list.append(Case("none", "allreduce", chance.randint(2, most_ranks), 0))
            continue
        kind = kinds[(len(case_list) - len(case_list) // 6) % len(kinds)]
        in_messages = kind in MESSAGE_KINDS
        ranks = chance.randint(3 if kind == "extra" or in_messages else 2, most_ranks)
        # The root keeps its own ways: it is a rank like any other, but the size is as others give.
        odd = chance.randrange(ranks)
        if in_messages:
            case_list.append(Case(kind, "barrier", ranks, odd))
            continue
        case_list.append(
            Case(
                kind,
                chance.choice(KINDS[kind][1]),
                ranks,
                odd,
                chance.choice((1, 16, 4096, 1 << 15)),
                chance.choice((0, 0, 1)) if KINDS[kind][0] not in ("order", "missing") else 0,
            )
        )
    return case_list
