"""Bodies of the wrappers of calls without messages: management collectives, and local calls."""

from __future__ import annotations

from mpiprof.core.generator.collectives import Function
from mpiprof.facts.operations import LOCAL_OPERATIONS

# Class of the time in the calls of a family; that of the other families is OTHER.
TIME_CLASSES = {
    "partitions": "POINT_TO_POINT",
    "one_sided": "ONE_SIDED",
    "window": "ONE_SIDED",
    "files": "FILES",
    "file": "FILES",
}
# Operations that begin or end an epoch of a window, and may let another rank continue.
EPOCHS = (
    *("win_lock", "win_lock_all", "win_unlock", "win_unlock_all"),
    *("win_complete", "win_wait"),
)
TARGETS = ("target_rank", "rank")


def local_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of a call of one rank without messages.

    It is recorded on its window or file with its target and bytes, if it has these.
    """
    address = "address" if fortran else "CALLER()"
    spent = TIME_CLASSES.get(function.family, "OTHER")
    begin = f"OP_{function.operation}, SPENT_{spent}"
    handle = _object_key(function, fortran)
    if not handle:
        return [
            "struct message_call m;",
            f"local_call_begin_alone(&m, {begin}, {address});",
            call,
            _end_line(function, fortran, handle),
        ]
    return [
        *_argument_lines(function, fortran, handle),
        "struct message_call m;",
        f"local_call_begin(&m, {begin}, &a, {address});",
        call,
        _end_line(function, fortran, handle),
    ]


def _object_key(function: Function, fortran: bool) -> str:
    """Return the key of the window or file of a call, "" if it has none."""
    for p in function.parameters:
        if p.kind in ("win", "file"):
            return f"map_key({p.kind}_f2c(*{p.name}))" if fortran else f"map_key({p.name})"
    return ""


def _argument_lines(function: Function, fortran: bool, handle: str) -> list[str]:
    """Return the initialiser of `struct message_arguments`: target, and addresses of buffers."""
    names = [p.name for p in function.parameters]
    target = next((name for name in TARGETS if name in names), "")
    value = f"*{target}" if fortran and target else target or "NO_MESSAGE"
    sent, received = _buffers(function, fortran)
    return [
        "const struct message_arguments a = {",
        "    .comm = COMM_NONE,",
        f"    .object = {handle},",
        f"    .sent = {{{value}, 0}},",
        "    .received = {NO_MESSAGE, 0},",
        *([f"    .send = {sent},"] if sent else []),
        *([f"    .recv = {received},"] if received else []),
        f"    .large = {str(function.large).lower()},",
        f"    .fortran = {str(fortran).lower()},",
        *_lock_lines(function, fortran),
        "};",
    ]


def _buffers(function: Function, fortran: bool) -> tuple[str, str]:
    """Return the addresses of count and datatype of the sent and of the received data, or ""."""
    names = [p.name for p in function.parameters]

    def pair(count: str, datatype: str) -> str:
        sign = "" if fortran else "&"
        return f"{{{sign}{count}, {sign}{datatype}}}"

    stem = function.operation.removeprefix("file_").removeprefix("i")
    if function.family == "files":
        both = pair("count", "datatype") if "count" in names else ""
        return ("", both) if stem.startswith("read") else (both, "")
    if "result_addr" in names:  # an operation that returns the former value
        one = "{&local_call_one, " + ("" if fortran else "&") + "datatype}"
        given = pair("target_count", "target_datatype") if "target_count" in names else one
        result = pair("result_count", "result_datatype") if "result_count" in names else one
        if "op" in names:  # MPI_NO_OP only reads
            operator = "op_f2c(*op)" if fortran else "op"
            given = f"local_call_operand({operator}, (struct message_buffer){given})"
        return given, result
    if "origin_addr" not in names:
        return "", ""
    buffer = pair("origin_count", "origin_datatype")
    return ("", buffer) if stem in ("get", "rget") else (buffer, "")


def _lock_lines(function: Function, fortran: bool) -> list[str]:
    """Return the initialiser of the type of a lock."""
    if function.operation == "win_lock":
        lock_type = "*lock_type" if fortran else "lock_type"
        return [f"    .lock = local_call_lock_type({lock_type}),"]
    return ["    .lock = LOCK_SHARED,"] if function.operation == "win_lock_all" else []


def _end_line(function: Function, fortran: bool, handle: str) -> str:
    """Return the line after the native routine."""
    error = "*ierror" if fortran else "error"
    if function.operation in ("win_post", "win_start"):
        group = "group_f2c(*group)" if fortran else "group"
        failed = f"{error} != MPI_SUCCESS ? MPI_GROUP_NULL : {group}"
        return f"local_call_end_group(&m, {error}, {handle}, {failed});"
    if function.operation in EPOCHS:
        return f"local_call_end_epoch(&m, {error});"
    if function.operation.startswith("pready"):
        request = "request_f2c(*request)" if fortran else "request"
        return f"local_call_end_ready(&m, {error}, {request});"
    arguments = "&a" if handle else "NULL"
    if function.operation in ("win_test", "parrived"):
        is_true = f"{error} == MPI_SUCCESS && *flag != 0"
        return f"local_call_end_test(&m, {error}, {arguments}, {is_true});"
    return f"local_call_end(&m, {error}, {arguments});"


def gathered_lines(function: Function, fortran: bool, call: str, entry: str) -> list[str]:
    """Return the lines of a call that is recorded on an entry, or by call site only.

    A function without an operation is only called.
    """
    if not function.operation:
        return [call]
    if function.operation in LOCAL_OPERATIONS:
        return local_lines(function, fortran, call)
    error = "*ierror" if fortran else "error"
    address = "address" if fortran else "CALLER()"
    spent = TIME_CLASSES.get(function.family, "OTHER")
    return [
        "struct management_collective g;",
        f"management_collective_begin(&g, OP_{function.operation}, {entry}, SPENT_{spent}, "
        f"{address});",
        call,
        f"management_collective_end(&g, {error});",
    ]
