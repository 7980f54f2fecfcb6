"""The collective operations, with each fact about them in one place.

core/generator/wrappers.py generates the C core's enums and tables from this module, and the rest of
mpiprof imports it. It imports only the standard library, because it is used when the core is built.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """Facts about an operation.

    parameters: of the blocking form in C; core/generator/collectives.py defines their syntax.
    waits: the wait state that the operation can cause (names as in Scalasca):
      barrier, nxn: no rank leaves before the last arrival;
      late_root: all ranks wait for the root; early_root: the root waits for all ranks;
      early_scan: each rank waits for the lower ranks; neighbor: for its neighbours.
    irregular: sizes differ from rank to rank.
    sized: all members know the sizes, so that a choice may depend on them.
    reduces: operands are combined.
    colour: from the palette (interface/svg.py), unlike those of operations that occur with it.
    """

    parameters: str
    waits: str
    colour: str
    irregular: bool = False
    sized: bool = True
    reduces: bool = False

    @property
    def rooted(self) -> bool:
        """True if one rank is the root."""
        return self.waits in ("late_root", "early_root")

    @property
    def synchronises(self) -> bool:
        """True if no rank leaves before the last arrival."""
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
