"""Communicators of all ranks' tables, each once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mpiprof.trace.metadata import Communicator, Tables
from mpiprof.trace.types import Int
from mpiprof.trace.validation import check_integer, check_list, check_text

GROUP = "group"  # origin of the group in MPI_Win_post and MPI_Win_start


@dataclass(frozen=True)
class Groups:
    """The rank's group, ascending, and all groups in an order that is equal on both sides."""

    rank_group: Int
    ordered_groups: tuple[Int, ...]
    number: int  # the same for equal groups


class Communicators:
    """Finds the index of a communicator among all ranks'; lists: members by (identity, rank)."""

    def __init__(
        self, tables: Tables, limit: int, lists: dict[tuple[Any, int], list[Any] | int | None]
    ) -> None:
        self.tables, self.limit, self.lists = tables, limit, lists
        self.known: dict[tuple[Any, ...], int] = {}
        self.of_row: dict[tuple[int, int], int] = {}  # (rank, local number)
        self.groups: dict[str, Groups] = {}
        self.numbers: dict[tuple[bytes, ...], int] = {}  # by the content of the groups
        self.groups_of: list[Groups] = []  # of each communicator

    def __call__(self, rank: int, row: dict[str, Any]) -> int:
        """Return the index for a line of a rank's tables; ValueError if the line is invalid."""
        identity = check_text(row["identity"])
        if "like" in row:
            return self._index_of_window(rank, row)
        if row.get("how") == GROUP:
            return self._index_of_group(rank, row)
        inter = row.get("inter") is True
        members = self._resolve_runs(identity, row.get("members"))
        remote = self._resolve_runs(identity, row.get("remote"))
        local = row.get("local") is True or members is None or (inter and remote is None)
        size = check_integer(row.get("size", 0), 0, 1 << 31)
        if local:
            of = self._make_groups([np.array([rank], np.int64)])
        else:
            of = self._find_groups(members, remote if inter else None)
            if inter:
                size = sum(map(len, of.ordered_groups))
            elif len(of.rank_group) != size:
                raise ValueError("the size differs from the number of members")
            position = int(np.searchsorted(of.rank_group, rank))
            if rank not in of.rank_group[position : position + 1]:
                raise ValueError("the rank is not a member of its own group")
        index = self._find_index(rank, row, of, size, local, inter)
        if not inter:
            for name in ("sources", "destinations"):
                if isinstance(row.get(name), list):
                    neighbours = self._read_neighbours(row[name], of.ordered_groups[0])
                    getattr(self.tables, name)[index, rank] = neighbours
        return index

    def _index_of_window(self, rank: int, row: dict[str, Any]) -> int:
        """Return the index of a window, a file or their parent, with the members of another row."""
        like = self.tables.communicators[self.of_row[rank, check_integer(row["like"])]]
        of = self.groups_of[like.index]
        index = self._find_index(rank, row, of, like.size, like.is_local, like.is_inter)
        self.tables.duplicates[index] = like.index
        return index

    def _index_of_group(self, rank: int, row: dict[str, Any]) -> int:
        """Return the index of the group of an epoch on a window, which may lack the rank."""
        of = self._find_groups(row.get("members"), None)
        size = check_integer(row.get("size", 0), 0, self.limit)
        if len(of.rank_group) != size:
            raise ValueError("the size differs from the number of members")
        return self._find_index(rank, row, of, size, row.get("local") is True, inter=False)

    def _find_index(
        self, rank: int, row: dict[str, Any], of: Groups, size: int, local: bool, inter: bool
    ) -> int:
        identity, groups = row["identity"], of.ordered_groups
        key = (identity, rank if local else -1, inter, of.number)
        if key not in self.known:
            index = self.known[key] = len(self.tables.communicators)
            origin, parent = check_text(row.get("how", "unknown")), row.get("parent")
            parent = parent if isinstance(parent, str) else None
            ranks = np.concatenate(groups)
            self.tables.communicators.append(
                Communicator(index, identity, groups, ranks, size, local, inter, origin, parent)
            )
            self.groups_of.append(of)
        index = self.known[key]
        self.of_row[rank, check_integer(row["communicator"], 0)] = index
        return index

    def _resolve_runs(self, identity: str, runs: Any) -> Any:
        """Return runs as they are, or as the named rank lists them; None if it lists none."""
        if type(runs) is not int:
            return runs
        listed = self.lists.get((identity, runs))  # only the first member lists irregular members
        return listed if isinstance(listed, list) else None

    def _find_groups(self, members: Any, remote: Any) -> Groups:
        """Return the groups of some runs, built once for all ranks; remote is None if intra."""
        key = repr((members, remote))
        if key not in self.groups:
            sides = [self._expand_runs(runs) for runs in (members, remote) if runs is not None]
            ranks = np.concatenate(sides)
            if len(np.unique(ranks)) != len(ranks):
                raise ValueError("a rank appears twice among the members")
            self.groups[key] = self._make_groups(sides)
        return self.groups[key]

    def _make_groups(self, sides: list[Int]) -> Groups:
        """Return groups from the rank's own side, and the other side of an inter-communicator."""
        groups = tuple(sorted(sides, key=lambda group: group.tolist()))
        content = tuple(group.tobytes() for group in groups)
        number = self.numbers.setdefault(content, len(self.numbers))
        return Groups(np.sort(sides[0]), groups, number)

    def _expand_runs(self, runs: Any) -> Int:
        parts, count = [], 0
        for run in check_list(runs, partial(check_list, check=check_integer)):
            if len(run) != 3 or not run[2]:
                raise ValueError("a range of members without a step")
            first, last, step = run
            check_integer(first, 0, self.limit - 1)
            check_integer(last, 0, self.limit - 1)
            parts.append(np.arange(first, last + (1 if step > 0 else -1), step, dtype=np.int64))
            count += len(parts[-1])
            if count > self.limit:
                raise ValueError("more members than ranks")
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    @staticmethod
    def _read_neighbours(listed: list[Any], members: Int) -> Int:
        inside = [check_integer(r) for r in listed if isinstance(r, int) and 0 <= r < len(members)]
        return members[np.array(inside, np.int64)]  # MPI_PROC_NULL is no neighbour
