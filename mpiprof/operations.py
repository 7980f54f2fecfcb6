"""The collective operations, and each fact about them once.

The C core's enums and tables are generated from here (core/wrappers.py); the rest of mpiprof
imports it. Needs nothing but Python itself, as it is read when the core is built.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """What is known of an operation by its name.

    parameters: of the blocking form in C; core/collectives.py says how they are read.
    waits: the wait state that it can lead to: who waits for whom (the names are Scalasca's).
      barrier, nxn: nobody leaves before the last has arrived;
      late_root: all wait for the root; early_root: the root waits for all;
      early_scan: each waits for the ranks before it; neighbor: for its neighbours.
    irregular: sizes differ from rank to rank.
    sized: all members know the sizes, so that a choice may depend on them.
    reduces: operands are combined.
    colour: of the palette (svg.py); what occurs together has colours apart.
    """

    parameters: str
    waits: str
    colour: str
    irregular: bool = False
    sized: bool = True
    reduces: bool = False

    @property
    def rooted(self) -> bool:
        """Whether one rank is the root."""
        return self.waits in ("late_root", "early_root")

    @property
    def synchronises(self) -> bool:
        """Whether nobody leaves before the last has arrived."""
        return self.waits in ("barrier", "nxn")


OPERATIONS: dict[str, Operation] = {
    "allgather": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        waits="nxn",
        colour="GREEN",
    ),
    "allgatherv": Operation(
        "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm",
        waits="nxn",
        irregular=True,
        colour="GREEN",
    ),
    "allreduce": Operation(
        "sendbuf recvbuf count datatype op comm",
        waits="nxn",
        reduces=True,
        colour="BLUE",
    ),
    "alltoall": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        waits="nxn",
        colour="ORANGE",
    ),
    "alltoallv": Operation(
        "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm",
        waits="nxn",
        irregular=True,
        sized=False,
        colour="ORANGE",
    ),
    "alltoallw": Operation(
        "sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm",
        waits="nxn",
        irregular=True,
        sized=False,
        colour="ORANGE",
    ),
    "barrier": Operation(
        "comm",
        waits="barrier",
        sized=False,
        colour="GREY",
    ),
    "bcast": Operation(
        "buffer count datatype root comm",
        waits="late_root",
        colour="PINK",
    ),
    "exscan": Operation(
        "sendbuf recvbuf count datatype op comm",
        waits="early_scan",
        reduces=True,
        colour="RED",
    ),
    "gather": Operation(
        "sendbuf sendcount sendtype recvbuf:root recvcount:root recvtype:root root comm",
        waits="early_root",
        colour="OLIVE",
    ),
    "gatherv": Operation(
        "sendbuf sendcount sendtype recvbuf:root "
        "recvcounts:root displs:root recvtype:root root comm",
        waits="early_root",
        irregular=True,
        sized=False,
        colour="OLIVE",
    ),
    "reduce": Operation(
        "sendbuf recvbuf:root count datatype op root comm",
        waits="early_root",
        reduces=True,
        colour="SKY",
    ),
    "reduce_scatter": Operation(
        "sendbuf recvbuf recvcounts datatype op comm",
        waits="nxn",
        irregular=True,
        reduces=True,
        colour="SKY",
    ),
    "reduce_scatter_block": Operation(
        "sendbuf recvbuf recvcount datatype op comm",
        waits="nxn",
        reduces=True,
        colour="SKY",
    ),
    "scan": Operation(
        "sendbuf recvbuf count datatype op comm",
        waits="early_scan",
        reduces=True,
        colour="RED",
    ),
    "scatter": Operation(
        "sendbuf:root sendcount:root sendtype:root recvbuf recvcount recvtype root comm",
        waits="late_root",
        colour="OLIVE",
    ),
    "scatterv": Operation(
        "sendbuf:root sendcounts:root displs:root sendtype:root "
        "recvbuf recvcount recvtype root comm",
        waits="late_root",
        irregular=True,
        sized=False,
        colour="OLIVE",
    ),
    "neighbor_allgather": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        waits="neighbor",
        sized=False,
        colour="GREEN",
    ),
    "neighbor_allgatherv": Operation(
        "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm",
        waits="neighbor",
        irregular=True,
        sized=False,
        colour="GREEN",
    ),
    "neighbor_alltoall": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        waits="neighbor",
        sized=False,
        colour="ORANGE",
    ),
    "neighbor_alltoallv": Operation(
        "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm",
        waits="neighbor",
        irregular=True,
        sized=False,
        colour="ORANGE",
    ),
    "neighbor_alltoallw": Operation(
        "sendbuf sendcounts wsdispls sendtypes recvbuf recvcounts wrdispls recvtypes comm",
        waits="neighbor",
        irregular=True,
        sized=False,
        colour="ORANGE",
    ),
}
