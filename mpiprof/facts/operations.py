"""The recorded operations, with each fact about them in one place.

core/generator/wrappers.py generates the C core's enums and tables from this module, and the rest of
mpiprof imports it. It imports only the standard library, because it is used when the core is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

AUTO, ROBUST = "auto", "robust"  # modes of `run --switch` in which the recorder selects algorithms
SELECTORS = (AUTO, ROBUST)


class WaitRule(Enum):
    """Rule that states which ranks must arrive before a rank may leave, whatever the algorithm.

    `awaited_ranks` evaluates it, and `earliest_exit` in core/selection/online/arrival.c repeats it
    for the recorder; tests/core/test_wait_rules.py compares the two. Columns have the name of
    `state` (as in Scalasca), and reports contain `sentence`.
    """

    ALL_FOR_ALL = ("nxn", "all others wait for the last")
    ALL_FOR_ROOT = ("late_root", "those who receive wait for the root only")
    ROOT_FOR_ALL = ("early_root", "only the root waits, for its last sender")
    RANK_FOR_LOWER = ("early_scan", "ranks wait for those below them")
    RANK_FOR_SOURCES = ("neighbor", "ranks wait for their neighbours")
    # The standard permits the library to synchronise all members, and libraries differ.
    UNSPECIFIED = ("gathering", "all others wait for the last")

    @property
    def state(self) -> str:
        """Wait state that the rule leads to."""
        return self.value[0]

    @property
    def sentence(self) -> str:
        """Sentence on who waits, without capital and full stop."""
        return self.value[1]

    @property
    def rooted(self) -> bool:
        """True if one rank is the root."""
        return self in (WaitRule.ALL_FOR_ROOT, WaitRule.ROOT_FOR_ALL)

    @property
    def is_for_last(self) -> bool:
        """True if all ranks wait for the last one to arrive, where any rank waits."""
        return self in (WaitRule.ALL_FOR_ALL, WaitRule.UNSPECIFIED)


# Wait states in the order of their columns. Barriers have a state of their own.
WAIT_STATES = {"barrier": WaitRule.ALL_FOR_ALL, **{rule.state: rule for rule in WaitRule}}


def awaited_ranks(
    rule: WaitRule, rank: int, sizes: tuple[int, int], root: int = -1, sources: Sequence[int] = ()
) -> Sequence[int]:
    """Return the ranks that must arrive before a rank may leave (MPI 4.1, Chapter 6).

    sizes: of both groups of an inter-communicator, otherwise (size, 0). Ranks of the second group
    follow those of the first. root: -1 if unknown. sources: ranks that the rank receives from in a
    process topology. The result may contain the rank itself. If the rule is UNSPECIFIED, the ranks
    need not have arrived.
    """
    first, second = sizes
    partners = range(first)  # an inter-communicator moves data between the groups only
    if second and rank < first:
        partners = range(first, first + second)
    if rule.is_for_last:
        return partners
    if rule is WaitRule.ALL_FOR_ROOT:
        return [root] if root in partners else []
    if rule is WaitRule.ROOT_FOR_ALL:
        return partners if rank == root else []
    if rule is WaitRule.RANK_FOR_LOWER:
        return range(rank)
    return sources


@dataclass(frozen=True)
class Operation:
    """Facts about an operation.

    parameters: of the blocking form in C; core/generator/collectives.py defines their syntax.
    wait_rule: who waits for whom.
    irregular: sizes differ from rank to rank.
    sized: all members know the sizes, so that a choice may depend on them.
    reduces: operands are combined.
    """

    parameters: str
    wait_rule: WaitRule
    irregular: bool = False
    sized: bool = True
    reduces: bool = False

    @property
    def rooted(self) -> bool:
        """True if one rank is the root."""
        return self.wait_rule.rooted

    @property
    def synchronises(self) -> bool:
        """True if no rank leaves before the last arrival."""
        return self.wait_rule is WaitRule.ALL_FOR_ALL


OPERATIONS: dict[str, Operation] = {
    "allgather": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm", wait_rule=WaitRule.ALL_FOR_ALL
    ),
    "allgatherv": Operation(
        "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm",
        wait_rule=WaitRule.ALL_FOR_ALL,
        irregular=True,
    ),
    "allreduce": Operation(
        "sendbuf recvbuf count datatype op comm", wait_rule=WaitRule.ALL_FOR_ALL, reduces=True
    ),
    "alltoall": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm", wait_rule=WaitRule.ALL_FOR_ALL
    ),
    "alltoallv": Operation(
        "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm",
        wait_rule=WaitRule.ALL_FOR_ALL,
        irregular=True,
        sized=False,
    ),
    "alltoallw": Operation(
        "sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm",
        wait_rule=WaitRule.ALL_FOR_ALL,
        irregular=True,
        sized=False,
    ),
    "barrier": Operation("comm", wait_rule=WaitRule.ALL_FOR_ALL, sized=False),
    "bcast": Operation("buffer count datatype root comm", wait_rule=WaitRule.ALL_FOR_ROOT),
    "exscan": Operation(
        "sendbuf recvbuf count datatype op comm", wait_rule=WaitRule.RANK_FOR_LOWER, reduces=True
    ),
    "gather": Operation(
        "sendbuf sendcount sendtype recvbuf:root recvcount:root recvtype:root root comm",
        wait_rule=WaitRule.ROOT_FOR_ALL,
    ),
    "gatherv": Operation(
        "sendbuf sendcount sendtype recvbuf:root "
        "recvcounts:root displs:root recvtype:root root comm",
        wait_rule=WaitRule.ROOT_FOR_ALL,
        irregular=True,
        sized=False,
    ),
    "reduce": Operation(
        "sendbuf recvbuf:root count datatype op root comm",
        wait_rule=WaitRule.ROOT_FOR_ALL,
        reduces=True,
    ),
    "reduce_scatter": Operation(
        "sendbuf recvbuf recvcounts datatype op comm",
        wait_rule=WaitRule.ALL_FOR_ALL,
        irregular=True,
        reduces=True,
    ),
    "reduce_scatter_block": Operation(
        "sendbuf recvbuf recvcount datatype op comm", wait_rule=WaitRule.ALL_FOR_ALL, reduces=True
    ),
    "scan": Operation(
        "sendbuf recvbuf count datatype op comm", wait_rule=WaitRule.RANK_FOR_LOWER, reduces=True
    ),
    "scatter": Operation(
        "sendbuf:root sendcount:root sendtype:root recvbuf recvcount recvtype root comm",
        wait_rule=WaitRule.ALL_FOR_ROOT,
    ),
    "scatterv": Operation(
        "sendbuf:root sendcounts:root displs:root sendtype:root "
        "recvbuf recvcount recvtype root comm",
        wait_rule=WaitRule.ALL_FOR_ROOT,
        irregular=True,
        sized=False,
    ),
    "neighbor_allgather": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        wait_rule=WaitRule.RANK_FOR_SOURCES,
        sized=False,
    ),
    "neighbor_allgatherv": Operation(
        "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm",
        wait_rule=WaitRule.RANK_FOR_SOURCES,
        irregular=True,
        sized=False,
    ),
    "neighbor_alltoall": Operation(
        "sendbuf sendcount sendtype recvbuf recvcount recvtype comm",
        wait_rule=WaitRule.RANK_FOR_SOURCES,
        sized=False,
    ),
    "neighbor_alltoallv": Operation(
        "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm",
        wait_rule=WaitRule.RANK_FOR_SOURCES,
        irregular=True,
        sized=False,
    ),
    "neighbor_alltoallw": Operation(
        "sendbuf sendcounts wsdispls sendtypes recvbuf recvcounts wrdispls recvtypes comm",
        wait_rule=WaitRule.RANK_FOR_SOURCES,
        irregular=True,
        sized=False,
    ),
}

# Calls of all members that move no user data: creation of communicators, calls on windows and
# files, MPI_Finalize. Their wait rule is UNSPECIFIED. The other functions of these families are
# LOCAL_OPERATIONS, because not all members call them or they only start. For MPI_Comm_free, no rank
# waits in either library.
MANAGEMENT_COLLECTIVES = (
    *("comm_dup", "comm_dup_with_info", "comm_split", "comm_split_type", "comm_create"),
    *("cart_create", "graph_create", "dist_graph_create", "dist_graph_create_adjacent", "cart_sub"),
    *("intercomm_create", "intercomm_merge", "comm_spawn", "comm_spawn_multiple"),
    *("comm_connect", "comm_accept", "comm_disconnect"),
    *("win_create", "win_allocate", "win_allocate_shared", "win_create_dynamic"),
    *("win_fence", "win_free"),
    *("file_open", "file_close", "file_set_view", "file_set_size", "file_preallocate"),
    *("file_set_info", "file_set_atomicity", "file_sync", "file_seek_shared"),
    *("file_read_all", "file_write_all", "file_read_at_all", "file_write_at_all"),
    *("file_read_ordered", "file_write_ordered"),
    *("file_read_all_begin", "file_read_all_end", "file_write_all_begin", "file_write_all_end"),
    *("file_read_at_all_begin", "file_read_at_all_end"),
    *("file_write_at_all_begin", "file_write_at_all_end"),
    *("file_read_ordered_begin", "file_read_ordered_end"),
    *("file_write_ordered_begin", "file_write_ordered_end"),
    "finalize",
)

COMPLETION_OPERATIONS = (  # calls on requests
    *("wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"),
    *("request_get_status", "request_get_status_all", "request_get_status_any"),
    *("request_get_status_some", "start", "startall", "request_free", "cancel"),
)
# Calls that return at once and report whether a message or a request is complete; a program polls
# them (core/record/poll.c).
TEST_OPERATIONS = (
    *("test", "testall", "testany", "testsome", "request_get_status", "request_get_status_all"),
    *("request_get_status_any", "request_get_status_some"),
    *("iprobe", "improbe", "win_test", "parrived"),
)
# Calls on messages, which are recorded by call site and peer (core/record/message.c).
MESSAGE_OPERATIONS = (
    *("send", "bsend", "ssend", "rsend", "recv", "sendrecv", "sendrecv_replace"),
    *("probe", "iprobe", "mprobe", "improbe", "mrecv"),
    *("isend", "ibsend", "issend", "irsend", "irecv", "imrecv", "isendrecv", "isendrecv_replace"),
    *("send_init", "bsend_init", "ssend_init", "rsend_init", "recv_init"),
    *("psend_init", "precv_init"),
    *COMPLETION_OPERATIONS,
)

ONE_SIDED_OPERATIONS = (
    *("put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"),
    *("rput", "rget", "raccumulate", "rget_accumulate"),
    *("win_lock", "win_lock_all", "win_unlock", "win_unlock_all"),
    *("win_flush", "win_flush_all", "win_flush_local", "win_flush_local_all", "win_sync"),
    *("win_post", "win_start", "win_complete", "win_wait", "win_test"),
    *("win_attach", "win_detach", "win_set_info"),
)
FILE_OPERATIONS = (
    *("file_read", "file_write", "file_read_at", "file_write_at"),
    *("file_read_shared", "file_write_shared"),
    *("file_iread", "file_iwrite", "file_iread_at", "file_iwrite_at"),
    *("file_iread_shared", "file_iwrite_shared", "file_iread_all", "file_iwrite_all"),
    *("file_iread_at_all", "file_iwrite_at_all", "file_delete"),
)
PARTITION_OPERATIONS = ("pready", "pready_range", "pready_list", "parrived")
# Calls of one rank that have neither a sequence number nor messages, which are recorded by call
# site.
LOCAL_OPERATIONS = (
    *(*PARTITION_OPERATIONS, *ONE_SIDED_OPERATIONS, *FILE_OPERATIONS),
    *("comm_idup", "comm_idup_with_info", "comm_create_group", "comm_create_from_group"),
    *("intercomm_create_from_groups", "comm_join", "comm_free", "comm_set_info"),
    *("open_port", "close_port", "publish_name", "lookup_name", "unpublish_name"),
    *("session_get_num_psets", "session_get_nth_pset", "alloc_mem", "free_mem"),
    *("buffer_attach", "buffer_detach", "buffer_flush", "buffer_iflush"),
    *("comm_attach_buffer", "comm_detach_buffer", "comm_flush_buffer", "comm_iflush_buffer"),
    *("session_attach_buffer", "session_detach_buffer"),
    *("session_flush_buffer", "session_iflush_buffer"),
)


def call_class(operation: str) -> str:
    """Return the class of a call: collective, point_to_point, completion, one_sided, files, other.

    completion: calls on requests. other: LOCAL_OPERATIONS of no other class.
    """
    classes = {
        "completion": COMPLETION_OPERATIONS,
        "point_to_point": (*MESSAGE_OPERATIONS, *PARTITION_OPERATIONS),
        "one_sided": ONE_SIDED_OPERATIONS,
        "files": FILE_OPERATIONS,
        "other": LOCAL_OPERATIONS,
    }
    return next((name for name, members in classes.items() if operation in members), "collective")


def function_name(operation: str) -> str:
    """Return the name of an operation's MPI function: MPI_Win_lock for win_lock."""
    return f"MPI_{operation.capitalize()}"


def base_operation(operation: str) -> str:
    """Return the blocking collective of a name: allreduce for iallreduce and allreduce_init."""
    name = operation.removesuffix("_init")
    return name[1:] if name.startswith("i") and name[1:] in OPERATIONS else name


def wait_state(operation: str) -> str | None:
    """Return the wait state of an operation (a blocking collective), or None if it is unknown."""
    if operation in MANAGEMENT_COLLECTIVES:
        return WaitRule.UNSPECIFIED.state
    known = OPERATIONS.get(operation)
    if known is not None and known.synchronises and operation == "barrier":
        return operation
    return None if known is None else known.wait_rule.state


def operations_in(state: str) -> str:
    """Return the operations of a wait state, as text."""
    if WAIT_STATES[state] is WaitRule.UNSPECIFIED:
        return "calls that make a communicator, or on a window or file"
    return ", ".join(name for name in OPERATIONS if wait_state(name) == state)
