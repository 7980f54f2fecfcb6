"""C code of a wrapper before and after the native routine, for C and Fortran."""

from __future__ import annotations

import re

from mpiprof.core.generator.collectives import Function
from mpiprof.core.generator.local_bodies import gathered_lines, local_lines
from mpiprof.core.generator.poll_bodies import poll_lines
from mpiprof.core.generator.symbol_tables import has, operation_name

# parameter -> the member of `struct arguments` with its address
ROLES = {
    "sendcount": "send.count",
    "recvcount": "recv.count",
    "count": "send.count",
    "sendcounts": "send.counts",
    "recvcounts": "recv.counts",
    "sendtype": "send.type",
    "recvtype": "recv.type",
    "datatype": "send.type",
    "sendtypes": "send.types",
    "recvtypes": "recv.types",
    "sdispls": "send.displs",
    "rdispls": "recv.displs",
    "op": "op",
}


# For a call that creates a communicator: arguments that the library checks before its first
# message, by the members of `struct creation_arguments` (refusal.c).
CHECKED = (
    *("root", "local_leader", "color", "ndims", "dims", "nnodes", "index", "edges"),
    *("n", "sources", "degrees", "destinations", "indegree", "outdegree"),
)


def argument_lines(function: Function, fortran: bool) -> list[str]:
    """Return the initialiser of `struct arguments`: addresses of the call's arguments."""
    lines = ["const struct arguments a = {"]
    for parameter in function.parameters:
        name = parameter.name
        if name in ("sendbuf", "recvbuf"):
            lines.append(f"    .{name} = {name},")
        elif name == "buffer":
            lines.append("    .sendbuf = buffer,")
        elif name == "displs":
            side = "send" if function.operation == "scatterv" else "recv"
            lines.append(f"    .{side}.displs = displs,")
        elif name in ROLES:
            arrays = ("counts", "types", "displs", "aint_displs")
            address = name if fortran or parameter.kind in arrays else f"&{name}"
            lines.append(f"    .{ROLES[name]} = {address},")
    large = function.large or has(function, "large_count")
    lines.append(f"    .large = {str(large).lower()},")
    lines.append(f"    .fortran = {str(fortran).lower()},")
    return [*lines, "};"]


def native_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the call of the native routine; a blocking collective may run an algorithm instead.

    If the library was set to one of its algorithms, the call may run on one of mpiprof's
    communicators.
    """
    if function.form != "blocking":
        return [call]
    error, result = ("ierror", "*ierror") if fortran else ("&error", "error")
    substitute = f"library_algorithm_{'fortran' if fortran else 'comm'}(&call, comm)"
    elsewhere = re.sub(r"\bcomm\b", substitute, call)
    return [
        f"if (!recorder.switching || !select_run(&call, &a, {error})) {{",
        f"    {elsewhere}",
        "    if (call.library_algorithm != NULL)",
        f"        {result} = library_algorithm_end(&call, {result});",
        "}",
    ]


def end_lines(function: Function, fortran: bool) -> list[str]:
    """Return the lines after the native routine of a collective."""
    error = "*ierror" if fortran else "error"
    body = ["call_arguments_accepted(&call, &a);"]
    if function.form != "blocking":
        handle = "request_f2c(*request)" if fortran else "*request"
        body.append(f"request_add(&call, {handle});")
    return [
        f"if (call_end(&call, {error})) {{",
        *[f"    {line}" for line in body],
        "}",
        "call_leave(&call);",
    ]


def completion_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of Wait, Test and similar calls: observed and completed requests."""
    error = "*ierror" if fortran else "error"
    star = "*" if fortran else ""
    names = [p.name for p in function.parameters]
    count = next((f"{star}{name}" for name in ("count", "incount") if name in names), "1")
    array = "requests" if has(function, "requests") else "request"
    if function.name == "MPI_Request_get_status" and not fortran:
        array = "&request"
    statuses = next((p.name for p in function.parameters if p.kind == "status"), None)
    is_fortran = str(fortran).lower()
    readable = f"status_readable({statuses}, {is_fortran})" if statuses else "NULL"
    first = [
        "struct request_space space;",
        "struct request_completion watch;",
        f"request_completion_begin(&watch, &space, OP_{function.operation}, {count}, {array},",
        f"                         {readable}, {'address' if fortran else 'CALLER()'},",
        f"                         {is_fortran});",
    ]
    stem = function.name.removeprefix("MPI_")
    base = "1" if fortran else "0"
    # If the library refuses the call, flag may be no address.
    done = f"{error} == MPI_SUCCESS && *flag != 0"
    if stem in ("Start", "Startall"):
        last = f"request_completion_start(&watch, {error});"
    elif stem == "Cancel":
        last = f"request_completion_cancel(&watch, {error});"
    elif stem == "Request_free":
        last = f"request_completion_free(&watch, {error});"
    elif stem.startswith("Request_get_status"):
        last = f"request_completion_seen(&watch, {seen_arguments(function, error, done, base)});"
    elif stem in ("Wait", "Waitall"):
        last = f"request_completion_all(&watch, {error}, true);"
    elif stem in ("Test", "Testall"):
        last = f"request_completion_all(&watch, {error}, {done});"
    elif stem in ("Waitany", "Testany"):
        flag = done if stem == "Testany" else "true"
        last = f"request_completion_one(&watch, {error}, {flag}, index, {base});"
    else:
        last = f"request_completion_some(&watch, {error}, outcount, indices, {base});"
    if statuses == "status":
        first.append(
            f"void *const filled = request_completion_status(&watch, status, {is_fortran});"
        )
        call = re.sub(r"\bstatus\b", "filled", call)
    return [*first, call, last]


def seen_arguments(function: Function, error: str, done: str, base: str) -> str:
    """Return the arguments for the requests that a Request_get_status has found complete."""
    if has(function, "outcount"):  # MPI_UNDEFINED is negative: no request is active
        some = f"{error} == MPI_SUCCESS ? *outcount : 0"
        return f"{error}, {error} == MPI_SUCCESS && *outcount != 0, {some}, indices, {base}"
    if has(function, "index"):
        return f"{error}, {done}, 1, index, {base}"
    return f"{error}, {done}, watch.count, NULL, 0"


def message_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of a call that sends, receives or probes messages."""
    error, star = ("*ierror", "*") if fortran else ("error", "")
    names = [p.name for p in function.parameters]

    def value(*choices: str) -> str:
        return next((f"{star}{name}" for name in choices if name in names), "")

    comm = value("comm")
    if comm and fortran:
        comm = f"comm_f2c({comm})"
    arguments = argument_lines(function, fortran)[1:-1]
    buffers = [line for line in arguments if not line.lstrip().startswith((".sendbuf", ".recvbuf"))]
    if "source" in names and "dest" not in names:
        buffers = [line.replace(".send.", ".recv.") for line in buffers]
    sent = (
        f"{{{value('dest')}, {value('sendtag', 'tag')}}}" if "dest" in names else "{NO_MESSAGE, 0}"
    )
    received = (
        f"{{{value('source')}, {value('recvtag', 'tag')}}}"
        if "source" in names
        else "{NO_MESSAGE, 0}"
    )
    lines = [
        "const struct message_arguments a = {",
        *buffers,
        f"    .comm = {comm or 'COMM_NONE'},",
        f"    .sent = {sent},",
        f"    .received = {received},",
        *([f"    .partitions = {star}partitions,"] if "partitions" in names else []),
        "};",
        "struct message_call m;",
        f"message_begin(&m, OP_{function.operation}, &a, {'address' if fortran else 'CALLER()'});",
    ]
    if "request" in names:
        request = "*request" if not fortran else "request_f2c(*request)"
        failed = f"{error} != MPI_SUCCESS ? MPI_REQUEST_NULL : {request}"
        return [*lines, call, f"message_posted(&m, {error}, &a, {failed});"]
    if "status" not in names:
        return [*lines, call, f"message_end(&m, {error}, &a, NULL, true);"]
    matched = f"{error} == MPI_SUCCESS && *flag != 0" if "flag" in names else "true"
    is_fortran = str(fortran).lower()
    return [
        *lines,
        f"void *const filled = message_status(&m, status, {is_fortran});",
        re.sub(r"\bstatus\b", "filled", call),
        f"message_end(&m, {error}, &a, status_readable(filled, {is_fortran}), {matched});",
    ]


def handle_of(function: Function, fortran: bool) -> tuple[str, str]:
    """Return the communicator, window or file that a call names, and the one that it creates."""
    handle = next((p for p in function.parameters if p.kind in ("comm", "win", "file")), None)
    created = next((p for p in function.parameters if p.kind in ("comm*", "win*", "file*")), None)
    values = []
    for parameter in (handle, created):
        kind = "" if parameter is None else parameter.kind.rstrip("*")
        pointer = "*" if parameter is not None and (fortran or "*" in parameter.kind) else ""
        value = "" if parameter is None else f"{pointer}{parameter.name}"
        values.append(f"{kind}_f2c({value})" if fortran and value else value)
    return values[0], values[1]


def communicator_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines that create, name and free communicators."""
    error = "*ierror" if fortran else "error"
    stem = function.name.removeprefix("MPI_")
    if stem in ("Comm_free", "Comm_disconnect"):
        comm = "comm_f2c(*comm)" if fortran else "comm != NULL ? *comm : COMM_NONE"
        entry = "management_collective_order(freeing.comm)"
        return [
            "struct freeing freeing;",
            f"comm_free_begin(&freeing, {comm});",
            *gathered_lines(function, fortran, call, entry),
            f"comm_free_end(&freeing, {error});",
        ]
    comm, created = handle_of(function, fortran)
    if stem == "Comm_set_name":
        return [call, f"comm_name_changed({comm}, {error});"]
    how = stem.lower().removeprefix("comm_")
    parent = comm or "COMM_NONE"
    tag = ("*tag" if fortran else "tag") if has(function, "tag") else "0"
    counted = "false" if stem == "Comm_create_group" or parent == "COMM_NONE" else "true"
    text = "stringtag" if has(function, "stringtag") else "NULL"
    length = "(int)stringtag_length" if fortran and text != "NULL" else "-1"
    entry = "management_collective_creation_order(&creation)"
    run = gathered_lines(function, fortran, call, entry)
    handle = "request_f2c(*request)" if fortran else "*request"
    pending = []
    if has(function, "request"):
        pending = [f"if ({error} == MPI_SUCCESS)", f"    request_add_creation({handle});"]
    if how.startswith("spawn"):
        run += spawn_lines(function, fortran)
    return [
        "struct creation creation = {",
        f'    .how = "{how}",',
        f"    .tag = {tag},",
        f"    .text = {text},",
        f"    .text_length = {length},",
        *given_lines(function, fortran),
        "};",
        f"comm_creation_begin(&creation, {parent}, {counted});",
        *run,
        f"if (comm_creation_end(&creation, {error}))",
        f"    comm_register(&creation, {created});",
        *pending,
    ]


def given_lines(function: Function, fortran: bool) -> list[str]:
    """Return the members of `struct creation_arguments`: addresses of the call's arguments."""
    lines = []
    for parameter in function.parameters:
        name = parameter.name
        if name in CHECKED:
            address = name if fortran or parameter.kind == "ints" else f"&{name}"
            lines.append(f"    .given.{name} = {address},")
        elif name == "group" and not fortran:
            lines.append("    .given.group = &group,")
        elif name == "newcomm" and not fortran:
            lines.append("    .given.result_is_null = newcomm == NULL,")
    return lines


def spawn_lines(function: Function, fortran: bool) -> list[str]:
    """Return the remark on spawned processes; only a single command in C is inspected."""
    command = "NULL, NULL" if fortran or "multiple" in function.name else "command, argv"
    root = "*root" if fortran else "root"
    error = "*ierror" if fortran else "error"
    return [f"if ({error} == MPI_SUCCESS)", f"    spawn_report(&creation, {root}, {command});"]


def handle_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of calls on windows and files, which all members make."""
    error = "*ierror" if fortran else "error"
    table = f"&window_file_comm_{function.family}s"
    known, created = handle_of(function, fortran)
    if known.startswith(("comm", "*comm")):
        how = function.operation.partition("_")[0]
        return [
            f'struct creation creation = {{.how = "{how}"}};',
            f"window_file_comm_creation_begin(&creation, {known});",
            *gathered_lines(
                function, fortran, call, "management_collective_creation_order(&creation)"
            ),
            f"if (comm_creation_end(&creation, {error}))",
            f"    window_file_comm_register({table}, map_key({created}), &creation);",
        ]
    if known:
        entry = f"management_collective_order(map_get({table}, map_key({known})))"
        return gathered_lines(function, fortran, call, entry)
    name = created if fortran else f"{created[1:]} != NULL ? {created} : {created[1:].upper()}_NONE"
    return [
        f"struct communicator *const freed = window_file_comm_unlink({table}, map_key({name}));",
        *gathered_lines(function, fortran, call, "management_collective_order(freed)"),
        f"window_file_comm_freed({table}, map_key({name}), freed, {error});",
    ]


def operator_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines that track the program's reductions; a handle is read before it is freed."""
    error = "*ierror" if fortran else "error"
    value = "op_f2c(*op)" if fortran else "*op"
    if function.name != "MPI_Op_free":
        return [call, f"if ({error} == MPI_SUCCESS)", f"    operator_set_known({value}, true);"]
    operator = value if fortran else "op != NULL ? *op : MPI_OP_NULL"
    return [
        f"const MPI_Op freed = {operator};",
        call,
        f"if ({error} == MPI_SUCCESS && freed != MPI_OP_NULL)",
        "    operator_set_known(freed, false);",
    ]


INIT_LINES = [
    "lifecycle_initialising(WRAPPED_LEVEL);",
    "mpmd_mark();",
    "{call}",
    "lifecycle_initialised({error});",
]
LIFECYCLE_LINES = {
    "MPI_Init": INIT_LINES,
    "MPI_Init_thread": INIT_LINES,
    "MPI_Finalize": [
        "struct management_collective g;",
        "lifecycle_finalising(&g, {address});",
        "{call}",
        "lifecycle_finalised(&g, {error});",
    ],
    "MPI_Abort": ["lifecycle_aborting({address});", "{call}"],
    "MPI_Session_init": [
        "lifecycle_initialising(WRAPPED_LEVEL);",
        "{call}",
        "lifecycle_session({error}, {session});",
    ],
    "MPI_Session_finalize": ["lifecycle_session_ending();", "{call}"],
}


def body_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Return the lines of a wrapper between the lookup of the native routine and the return."""
    error = "*ierror" if fortran else "error"
    if function.family == "collective":
        comm = "comm_f2c(*comm)" if fortran else "comm"
        address = "address" if fortran else "CALLER()"
        root = ("*root" if fortran else "root") if has(function, "root") else "ROOT_NONE"
        stem = operation_name(function.operation, function.form)
        bypass = [f"    {call}", "    return;"] if fortran else ["    return " + call[8:]]
        return [
            "struct call call;",
            f"if (!call_begin(&call, OP_{stem}, {comm}, {root}, {address})) {{",
            *bypass,
            "}",
            *argument_lines(function, fortran),
            "call_arguments_entered(&call, &a);",
            *native_lines(function, fortran, call),
            *end_lines(function, fortran),
        ]
    if function.family == "point_to_point":
        return poll_lines(function, fortran, call, message_lines(function, fortran, call))
    if function.family in ("partitions", "one_sided", "files", "other"):
        return poll_lines(function, fortran, call, local_lines(function, fortran, call))
    if function.family == "completion":
        return poll_lines(function, fortran, call, completion_lines(function, fortran, call))
    if function.family == "communicator":
        return communicator_lines(function, fortran, call)
    if function.family == "handler":
        return ["comm_errhandler_fn = error_handler_wrapper(comm_errhandler_fn);", call]
    if function.family == "operator":
        return operator_lines(function, fortran, call)
    if function.family in ("window", "file"):
        return handle_lines(function, fortran, call)
    session = "session_f2c(*session)" if fortran else "*session"
    address = "address" if fortran else "CALLER()"
    return [
        line.format(call=call, error=error, session=session, address=address)
        for line in LIFECYCLE_LINES[function.name]
    ]
