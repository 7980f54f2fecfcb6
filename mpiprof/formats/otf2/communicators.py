"""The communicators of an archive as lines of each member's tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpiprof.formats.otf2.definitions import ArchiveCommunicator, Definitions
from mpiprof.formats.otf2.library import UNDEFINED
from mpiprof.interface.untrusted_text import parse_json
from mpiprof.trace.types import Array, Bool, Int
from mpiprof.trace.writer import make_runs

WORLD = "MPI_COMM_WORLD"
MAX_INLINE_RUNS = 8  # runs of a group; groups with more are written once


class ArchiveCommunicators:
    """All communicators, by their numbers in the archive."""

    def __init__(self, definitions: Definitions, ranks: int, ours: bool) -> None:
        self.ranks, self.ours = ranks, ours
        self.known = definitions.read_communicators()
        self.world = next(
            (n for n, c in self.known.items() if c.groups == (tuple(range(ranks)),)), UNDEFINED - 9
        )
        if self.world not in self.known:
            self.known[self.world] = ArchiveCommunicator(WORLD, (tuple(range(ranks)),), "")
        self._facts: dict[int, dict[str, Any]] = {}
        self._lines: set[tuple[int, int]] = set()

    def recorded_facts(self, number: int) -> dict[str, Any]:
        """Return mpiprof's facts about a communicator; {} in archives of other tools."""
        if number not in self._facts:
            try:
                facts = parse_json(self.known[number].facts) if self.ours else {}
            except ValueError:
                facts = {}
            self._facts[number] = facts if isinstance(facts, dict) else {}
        return self._facts[number]

    def described_by(self, rank: int) -> list[int]:
        """Return the communicators that this rank must describe for all ranks, used or not."""
        return [
            number
            for number, communicator in self.known.items()
            for group in communicator.groups
            if group and group[0] == rank and len(make_runs(list(group))) >= MAX_INLINE_RUNS
        ]

    def find_side(self, number: int, rank: int) -> int:
        """Return the index of the rank's group in an inter-communicator."""
        groups = self.known[number].groups
        return 1 if len(groups) > 1 and rank not in groups[0] else 0

    def group_root(self, number: int, root: int) -> int:
        """Return a root as a rank of its (remote) group."""
        communicator = self.known[number]
        group = communicator.groups[0] if communicator.groups else ()
        return group.index(root) if communicator.world_roots and root in group else root

    def has_member(self, numbers: Array, rank: int) -> Bool:
        """Return whether each communicator is known and has the rank as a member."""
        codes, distinct = pd.factorize(numbers)
        communicators = [self.known.get(number) for number in distinct.tolist()]
        good = [
            c is not None and (not c.groups or any(rank in g for g in c.groups))
            for c in communicators
        ]
        is_member: Bool = np.array(good, np.bool_)[codes]
        return is_member

    def sizes_and_ranks(self, numbers: Array, rank: int) -> tuple[Int, Int]:
        """Return for each communicator the size of the (remote) group, and the rank in its own."""
        members, rank_in_group = np.ones(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
        for number in pd.unique(numbers).tolist():
            groups = self.known[number].groups
            if not groups:
                continue
            side = self.find_side(number, rank)
            chosen = numbers == number
            members[chosen] = len(groups[1 - side] if len(groups) > 1 else groups[0])
            rank_in_group[chosen] = groups[side].index(rank)
        return members, rank_in_group

    def communicator_identity(self, number: int, rank: int) -> str:
        """Return a communicator's identity; a communicator of a single process has its own."""
        facts = self.recorded_facts(number).get("identity")
        if isinstance(facts, str):
            return facts
        alone = 0 if self.known[number].groups else rank + 1
        return f"{number:08x}{alone:08x}"

    def table_lines(self, number: int, rank: int) -> list[dict[str, Any]]:
        """Return the lines of a communicator for a member's tables; [] if already returned."""
        if (number, rank) in self._lines:
            return []
        self._lines.add((number, rank))
        communicator, facts = self.known[number], self.recorded_facts(number)
        origin = "group" if communicator.groups else "self"
        if number == self.world:
            origin = "world"
        lines: list[dict[str, Any]] = []
        line: dict[str, Any] = {
            "communicator": number,
            "identity": self.communicator_identity(number, rank),
            "parent": facts.get("parent"),
            "how": facts.get("how") or origin,
        }
        duplicated = facts.get("like")
        if isinstance(duplicated, int) and duplicated in self.known:
            lines += self.table_lines(duplicated, rank)
            line["like"] = duplicated
        else:
            line |= self._describe_members(number, rank)
        lines.append(line)
        if communicator.name and line["how"] not in ("world", "self") and not facts.get("unnamed"):
            lines.append({"communicator": number, "name": communicator.name})
        return lines

    def _describe_members(self, number: int, rank: int) -> dict[str, Any]:
        groups, facts = self.known[number].groups or ((rank,),), self.recorded_facts(number)
        if facts.get("local"):
            return {"local": True, "inter": False, "size": facts.get("size", 1), "members": None}
        side = self.find_side(number, rank)
        group = groups[side]
        runs = make_runs(list(group))
        # If a group has many runs, only its first member describes it. A group may be empty.
        inline = len(runs) < MAX_INLINE_RUNS or rank == group[0]
        description: dict[str, Any] = {
            "local": False,
            "inter": len(groups) > 1,
            "size": len(group),
            "members": runs if inline else group[0],
        }
        if len(groups) > 1:
            description["remote"] = make_runs(list(groups[1 - side]))
        for name in ("sources", "destinations"):
            neighbours = facts.get(name, {}).get(str(rank))
            if neighbours is not None:
                description[name] = neighbours
        return description
