"""Writes and reads OTF2 archives by OTF2's Python interface: in the form of Score-P, and events."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import otf2
from otf2.enums import GroupType, LocationGroupType, Paradigm, RegionRole

NO_ROOT = 0xFFFFFFFF


class Archive:
    """An archive as Score-P writes it, by OTF2's Python interface."""

    def __init__(self, folder: Path, ranks: int, resolution: int = 1_000_000_000) -> None:
        self.anchor = folder / "traces.otf2"
        self.writer = otf2.writer.Writer(str(folder), timer_resolution=resolution)
        self.writer.creator = "Score-P 8.4"
        self.known = self.writer.definitions
        machine = self.known.system_tree_node("cluster", class_name="machine")
        self.locations = []
        for rank in range(ranks):
            node = self.known.system_tree_node(f"n{rank // 2}", "node", parent=machine)
            process = self.known.location_group(
                f"MPI Rank {rank}", LocationGroupType.PROCESS, system_tree_parent=node
            )
            self.locations.append(self.known.location("Master thread", group=process))
        self.known.group("", GroupType.COMM_LOCATIONS, Paradigm.MPI, members=self.locations)
        self.world = self.communicator("MPI_COMM_WORLD", list(range(ranks)))
        self.main = self.known.region(
            "solve", source_file="/src/solve.c", begin_line_number=12, end_line_number=90
        )

    def communicator(self, name: str, ranks: list[int]) -> Any:
        """Define a communicator."""
        members = [self.locations[rank] for rank in ranks]
        group = self.known.group(name, GroupType.COMM_GROUP, Paradigm.MPI, members=members)
        return self.known.comm(name, group)

    def region(self, name: str, role: Any = RegionRole.FUNCTION) -> Any:
        """Define an MPI function."""
        return self.known.region(name, region_role=role, paradigm=Paradigm.MPI)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def events(self, rank: int) -> Any:
        """Return the writer of a rank's events."""
        return self.writer.event_writer_from_location(self.locations[rank])

    def collective(self, rank: int, name: str, begin: int, end: int, *record: Any) -> None:
        """Write a call; record: operation, root, bytes sent and received, communicator."""
        events, region = self.events(rank), self.region(name)
        events.enter(begin, region)
        if record:
            operation, root, sent, received, *comm = record
            events.mpi_collective_begin(begin)
            events.mpi_collective_end(
                end, operation, comm[0] if comm else self.world, root, sent, received
            )
        events.leave(end, region)


def read_events(anchor: Path) -> list[tuple[int, Any]]:
    """Return the rank of each event and the event."""
    with otf2.reader.open(str(anchor)) as archive:
        return [(location.group._ref, event) for location, event in archive.events]


def sizes_in_order(anchor: Path) -> tuple[dict[Any, list[int]], dict[Any, list[int]]]:
    """Return the bytes of sent and of received messages, in the order in which MPI matches them.

    The keys are sender, receiver, communicator and tag, as ranks of MPI_COMM_WORLD.
    """
    sent: dict[Any, list[int]] = defaultdict(list)
    received: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    posted: dict[Any, int] = {}
    for at, (rank, event) in enumerate(read_events(anchor)):
        kind = type(event).__name__
        if kind in ("MpiSend", "MpiIsend"):
            key = (rank, event.receiver, event.communicator._ref, event.msg_tag)
            sent[key].append(event.msg_length)
        elif kind == "MpiIrecvRequest":
            posted[rank, event.request_id] = at
        elif kind in ("MpiRecv", "MpiIrecv"):
            order = posted[rank, event.request_id] if kind == "MpiIrecv" else at
            key = (event.sender, rank, event.communicator._ref, event.msg_tag)
            received[key].append((order, event.msg_length))
    return sent, {key: [size for _, size in sorted(of)] for key, of in received.items()}
