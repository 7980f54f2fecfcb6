"""Writes the wrappers of one library into the build folder: natives.h, wrappers.c and fortran.c.

    python -m mpiprof.core.wrappers ABI LEVEL FOLDER

All that is repetitive about some 300 entry points is derived from `collectives.py`: each wrapper
takes note of the call (`call_begin`), lets the native routine run with the very same arguments, and
hands their addresses on (`call_end`), so that C and Fortran share one reading of them.

Fortran: Open MPI's library calls PMPI_* directly, so its Fortran names are wrapped in full; so does
MPICH's f08 layer for all that takes no choice buffer. The rest of MPICH's Fortran calls the C
names, which are wrapped already: there the wrappers of the collectives only note who called (the
frame wanted is the caller of the Fortran layer).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mpiprof.core.collectives import (
    COLLECTIVES,
    LEVELS,
    Function,
    Parameter,
    functions,
    gatherings,
)
from mpiprof.operations import OPERATIONS, Operation

# What the wrappers call.
HEADERS = (
    *("base/fortran", "life/lifecycle", "life/parts"),
    *("record/comm", "record/gather", "record/handler", "record/handles", "record/outside"),
    *("record/request", "record/spawn", "record/watch", "switch/select"),
)
FORMS = ("blocking", "nonblocking", "persistent")
# parameter -> the member of `struct arguments` that holds its address
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


def operation_index(function: Function) -> int:
    """The number of an operation in one of its three forms, e.g. of iallreduce."""
    return 3 * list(COLLECTIVES).index(function.operation) + FORMS.index(function.form)


def operation_name(operation: str, form: str) -> str:
    """MPI's name in lower case: allreduce, iallreduce, allreduce_init."""
    prefix = "i" if form == "nonblocking" else ""
    return f"{prefix}{operation}{'_init' if form == 'persistent' else ''}"


def has_buffer(function: Function) -> bool:
    """Whether it takes a choice buffer, which MPICH's f08 layer gives a descriptor."""
    return any(p.kind in ("cbuf", "buf") for p in function.parameters)


def full_names(function: Function, abi: str) -> list[str]:
    """The Fortran entry points that are wrapped in full."""
    stem = function.name.lower()
    if abi == "openmpi":
        # Open MPI 5 names the large-count form of the f08 layer mpi_x_c_f08_.
        if function.large:
            return [f"{stem}_f08_"]
        # What gives an address back has a form for type(c_ptr) in the mpi module.
        pointer = [f"{stem}_cptr_"] if has(function, "address") else []
        return [f"{stem}_", f"{stem}_f08_", *pointer]
    if abi == "mpich" and not has_buffer(function):
        return [f"{stem.removesuffix('_c')}_f08_large_" if function.large else f"{stem}_f08_"]
    return []


def thin_names(function: Function, abi: str) -> list[str]:
    """The Fortran entry points that only note their caller, as they call a wrapped C name."""
    stem = function.name.lower()
    if abi != "mpich" or not function.operation:
        return []
    if function.large:
        return [f"{stem.removesuffix('_c')}_f08ts_large_"] if has_buffer(function) else []
    return [f"{stem}_", f"{stem}_f08ts_"] if has_buffer(function) else [f"{stem}_"]


def aliases(name: str) -> list[str]:
    """How other Fortran compilers spell mpi_x_: with two underscores, with none, in capitals."""
    return [f"{name}_", name[:-1], name[:-1].upper()] if name.count("_f08") == 0 else []


# ---------------------------------------------------------------------------------- natives.h

# A wait state -> who may leave when: enum semantics of base/operation.h.
SEMANTICS = {
    "barrier": "SYNCHRONISES",
    "nxn": "SYNCHRONISES",
    "late_root": "FROM_ROOT",
    "early_root": "TO_ROOT",
    "early_scan": "SCANS",
    "neighbor": "OTHERWISE",
}


def facts(fact: Callable[[Operation], str], macro: str, otherwise: str = "0") -> list[str]:
    """The lines of a macro with a fact about each blocking collective.

    `otherwise` is said of the other forms: they wait for nobody where they are called, and are not
    switched.
    """
    found = [[fact(operation), otherwise, otherwise] for operation in OPERATIONS.values()]
    return [f"#define {macro} \\", *(f"    {word}, \\" for words in found for word in words), ""]


def natives_header(abi: str) -> str:
    """The list of native routines and the names of the operations.

    Those of the last level: what is compiled with it serves the libraries of all levels.
    """
    names = ["MPI_Pcontrol"]
    for function in functions(LEVELS[-1]):
        names.append(function.name)
        names += full_names(function, abi) + thin_names(function, abi)
    lines = ["/* written by wrappers.py */", "#pragma once", "enum native {"]
    lines += [f"    NATIVE_{name}," for name in names]
    lines += ["    NATIVE_COUNT", "};", "#define NATIVE_NAMES \\"]
    lines += [f'    "{name}", \\' for name in names]
    lines += ["", "enum operation {"]
    for operation in COLLECTIVES:
        lines += [f"    OP_{operation_name(operation, form)}," for form in FORMS]
    lines += [f"    OP_{operation}," for operation in gatherings()]
    lines += ["    OP_COUNT,", f"    OP_COLLECTIVES = OP_{gatherings()[0]}", "};"]
    lines += facts(lambda o: SEMANTICS[o.waits], "OPERATION_SEMANTICS", otherwise="OTHERWISE")
    lines += facts(lambda o: str(int(o.reduces)), "OPERATION_REDUCES")
    lines += facts(lambda o: str(int(o.sized)), "OPERATION_SIZED")
    lines += ["#define OPERATION_NAMES \\"]
    for operation in COLLECTIVES:
        lines += [f'    "{operation_name(operation, form)}", \\' for form in FORMS]
    lines += [f'    "{operation}", \\' for operation in gatherings()]
    return "\n".join(lines) + "\n\n"


# ---------------------------------------------------------------------------------- shared parts


def has(function: Function, kind_or_name: str) -> bool:
    return any(kind_or_name in (p.name, p.kind) for p in function.parameters)


def root_value(function: Function, fortran: bool) -> str:
    if not has(function, "root"):
        return "ROOT_NONE"
    return "*root" if fortran else "root"


def argument_lines(function: Function, fortran: bool) -> list[str]:
    """The initialiser of `struct arguments`: addresses of what a call was given."""
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
    lines.append(f"    .large = {str(function.large).lower()},")
    lines.append(f"    .fortran = {str(fortran).lower()},")
    return [*lines, "};"]


def native_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """The native routine, or for a blocking collective what runs in its place."""
    if function.form != "blocking":
        return [call]
    error = "ierror" if fortran else "&error"
    return [f"if (!recorder.switching || !select_run(&call, &a, {error}))", f"    {call}"]


def end_lines(function: Function, fortran: bool) -> list[str]:
    """What follows the native routine of a collective."""
    error = "*ierror" if fortran else "error"
    body = ["call_traffic(&call, &a);"]
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
    """Wait, Test and their like: which requests are watched, and which of them are complete."""
    error = "*ierror" if fortran else "error"
    star = "*" if fortran else ""
    which = {"count": "count", "incount": "incount"}
    count = next((f"{star}{which[p.name]}" for p in function.parameters if p.name in which), "1")
    array = "requests" if has(function, "requests") else "request"
    if function.name == "MPI_Request_get_status" and not fortran:
        array = "&request"
    first = f"watch_begin(&watch, {count}, {array}, {str(fortran).lower()});"
    stem = function.name.removeprefix("MPI_")
    base = "1" if fortran else "0"
    done = f"{error} == MPI_SUCCESS && *flag != 0"  # what the library refuses may be no address
    if stem in ("Start", "Startall"):
        last = f"watch_start(&watch, {error});"
    elif stem == "Request_free":
        last = f"watch_free(&watch, {error});"
    elif stem == "Request_get_status":
        last = f"watch_seen(&watch, {error}, {done});"
    elif stem in ("Wait", "Waitall"):
        last = f"watch_all(&watch, {error}, true);"
    elif stem in ("Test", "Testall"):
        last = f"watch_all(&watch, {error}, {done});"
    elif stem in ("Waitany", "Testany"):
        flag = done if stem == "Testany" else "true"
        last = f"watch_one(&watch, {error}, {flag}, index, {base});"
    else:
        last = f"watch_some(&watch, {error}, outcount, indices, {base});"
    return ["struct watch watch;", first, call, last]


def gathered_lines(function: Function, fortran: bool, call: str, entry: str) -> list[str]:
    """A call that is recorded on an entry, and what it would else add to."""
    error = "*ierror" if fortran else "error"
    address = "address" if fortran else "CALLER()"
    spent = {"window": "ONE_SIDED", "file": "FILES"}.get(function.family, "NOTHING")
    return [
        "struct gathering g;",
        f"gathering_begin(&g, OP_{function.operation}, {entry}, {address});",
        call,
        f"gathering_end(&g, {error}, SPENT_{spent});",
    ]


def handle_of(function: Function, fortran: bool) -> tuple[str, str]:
    """What a call names: a communicator, window or file; and what it makes."""
    given = next((p for p in function.parameters if p.kind in ("comm", "win", "file")), None)
    made = next((p for p in function.parameters if p.kind in ("comm*", "win*", "file*")), None)
    values = []
    for parameter in (given, made):
        kind = "" if parameter is None else parameter.kind.rstrip("*")
        pointer = "*" if parameter is not None and (fortran or "*" in parameter.kind) else ""
        value = "" if parameter is None else f"{pointer}{parameter.name}"
        values.append(f"{kind}_f2c({value})" if fortran and value else value)
    return values[0], values[1]


def communicator_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Creation, naming and freeing of communicators."""
    error = "*ierror" if fortran else "error"
    stem = function.name.removeprefix("MPI_")
    if stem in ("Comm_free", "Comm_disconnect"):
        comm = "comm_f2c(*comm)" if fortran else "comm != NULL ? *comm : COMM_NONE"
        run = (
            gathered_lines(function, fortran, call, "gathering_of(freeing.comm)")
            if function.operation
            else [call]
        )
        return [
            "struct freeing freeing;",
            f"comm_freeing(&freeing, {comm});",
            *run,
            f"comm_freed(&freeing, {error});",
        ]
    comm, made = handle_of(function, fortran)
    if stem == "Comm_set_name":
        return [call, f"comm_named({comm}, {error});"]
    how = stem.lower().removeprefix("comm_")
    parent = comm or "COMM_NONE"
    tag = ("*tag" if fortran else "tag") if has(function, "tag") else "0"
    counted = "false" if stem == "Comm_create_group" or parent == "COMM_NONE" else "true"
    text = "stringtag" if has(function, "stringtag") else "NULL"
    length = "(int)stringtag_length" if fortran and text != "NULL" else "-1"
    run = [call]
    if function.operation:
        run = gathered_lines(function, fortran, call, "gathering_making(&creation)")
    if how.startswith("spawn"):
        run += spawn_lines(function, fortran)
    return [
        "struct creation creation = {",
        f'    .how = "{how}",',
        f"    .tag = {tag},",
        f"    .text = {text},",
        f"    .text_length = {length},",
        "};",
        f"comm_making(&creation, {parent}, {counted});",
        *run,
        f"if (comm_made(&creation, {error}))",
        f"    comm_register(&creation, {made});",
    ]


def spawn_lines(function: Function, fortran: bool) -> list[str]:
    """What is said of processes that the program starts; one command of C is looked at."""
    command = "NULL, NULL" if fortran or "multiple" in function.name else "command, argv"
    root = "*root" if fortran else "root"
    error = "*ierror" if fortran else "error"
    return [
        f"if ({error} == MPI_SUCCESS)",
        f"    spawn_remark(&creation, {root}, {command});",
    ]


def handle_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """Calls on windows and files, by all who have them."""
    error = "*ierror" if fortran else "error"
    kind = function.family
    known, made = handle_of(function, fortran)
    if known.startswith(("comm", "*comm")):
        how = function.operation.partition("_")[0]
        return [
            f'struct creation creation = {{.how = "{how}"}};',
            f"handle_making(&creation, {known});",
            *gathered_lines(function, fortran, call, "gathering_making(&creation)"),
            f"if (comm_made(&creation, {error}))",
            f"    handle_{kind}_register(&creation, {made});",
        ]
    if known:
        entry = f"gathering_of(handle_{kind}_find({known}))"
        return gathered_lines(function, fortran, call, entry)
    name = made if fortran else f"{made[1:]} != NULL ? {made} : {made[1:].upper()}_NONE"
    return [
        f"struct communicator *const freed = handle_{kind}_unlink({name});",
        *gathered_lines(function, fortran, call, "gathering_of(freed)"),
        f"handle_{kind}_freed(freed, {error}, {name});",
    ]


INIT_LINES = [
    "lifecycle_initialising(WRAPPED_LEVEL);",
    "parts_mark();",
    "{call}",
    "lifecycle_initialised({error});",
]
LIFECYCLE_LINES = {
    "MPI_Init": INIT_LINES,
    "MPI_Init_thread": INIT_LINES,
    "MPI_Finalize": [
        "struct gathering g;",
        "lifecycle_finalising(&g, {address});",
        "{call}",
        "lifecycle_finalised(&g, {error});",
    ],
    "MPI_Abort": ["lifecycle_aborting();", "{call}"],
    "MPI_Session_init": [
        "lifecycle_initialising(WRAPPED_LEVEL);",
        "{call}",
        "lifecycle_session({error}, {session});",
    ],
    "MPI_Session_finalize": ["lifecycle_session_ending();", "{call}"],
}


def body_lines(function: Function, fortran: bool, call: str) -> list[str]:
    """The lines of a wrapper between finding the native routine and returning."""
    error = "*ierror" if fortran else "error"
    if function.family == "collective":
        comm = "comm_f2c(*comm)" if fortran else "comm"
        address = "address" if fortran else "CALLER()"
        root = root_value(function, fortran)
        stem = operation_name(function.operation, function.form)
        bypass = [f"    {call}", "    return;"] if fortran else ["    return " + call[8:]]
        return [
            "struct call call;",
            f"if (!call_begin(&call, OP_{stem}, {comm}, {root}, {address})) {{",
            *bypass,
            "}",
            *argument_lines(function, fortran),
            *native_lines(function, fortran, call),
            *end_lines(function, fortran),
        ]
    if function.family in ("point_to_point", "one_sided", "files"):
        end = f"outside_end(since, SPENT_{function.family.upper()});"
        return ["const int64_t since = outside_begin();", call, end]
    if function.family == "completion":
        return completion_lines(function, fortran, call)
    if function.family == "communicator":
        return communicator_lines(function, fortran, call)
    if function.family == "handler":
        return ["comm_errhandler_fn = handler_stand_in(comm_errhandler_fn);", call]
    if function.family in ("window", "file"):
        return handle_lines(function, fortran, call)
    session = "session_f2c(*session)" if fortran else "*session"
    address = "address" if fortran else "CALLER()"
    return [
        line.format(call=call, error=error, session=session, address=address)
        for line in LIFECYCLE_LINES[function.name]
    ]


# ---------------------------------------------------------------------------------- C


def c_wrapper(function: Function) -> str:
    """One exported MPI_* function."""
    declared = ", ".join(p.c(function.large) for p in function.parameters) or "void"
    call = f"error = native({function.arguments()});"
    lines = [f"PUBLIC {function.prototype()}", "{"]
    lines += [
        f"    int (*const native)({declared}) =",
        f"        (int (*)({declared}))native_get(NATIVE_{function.name});",
        "    int error;",
        "",
        "    if (native == NULL)",
        "        return MPI_ERR_UNSUPPORTED_OPERATION;",
    ]
    lines += [f"    {line}" for line in body_lines(function, False, call)]
    return "\n".join([*lines, "    return error;", "}", ""])


def head(level: str) -> str:
    """What both files of wrappers begin with."""
    lines = ["/* written by wrappers.py */", *[f'#include "{name}.h"' for name in HEADERS]]
    return "\n".join([*lines, f'#define WRAPPED_LEVEL "{level}"', ""])


def c_source(level: str) -> str:
    """wrappers.c: the C entry points."""
    return "\n".join([head(level), *[c_wrapper(f) for f in functions(level)]])


# ---------------------------------------------------------------------------------- Fortran


def hidden_lengths(function: Function) -> list[str]:
    """The lengths of strings that Fortran compilers append to the arguments."""
    return [
        f"{p.name}_length"
        for p in function.parameters
        if p.kind in ("string", "strings", "strings*")
    ]


def fortran_parameters(function: Function) -> tuple[str, str]:
    """Declaration and passing on of a Fortran wrapper's parameters."""
    # Fortran has no argc and argv.
    kept: list[Parameter] = [
        p for p in function.parameters if p.kind != "argv_pointer" and p.name != "argc"
    ]
    lengths = hidden_lengths(function)
    declared = [p.fortran() for p in kept] + ["MPI_Fint *ierror"]
    declared += [f"size_t {name}" for name in lengths]
    return ", ".join(declared), ", ".join([p.name for p in kept] + ["ierror"] + lengths)


def fortran_full(function: Function, abi: str) -> str:
    """One body for a function, and its names."""
    declared, passed = fortran_parameters(function)
    stem = function.name.lower()
    lines = [
        f"static void fortran_{stem}(void (*native)({declared}),",
        f"                           const void *address, {declared})",
        "{",
        "    MPI_Fint ignored = MPI_SUCCESS; /* f08 programs may leave ierror out */",
        "",
        "    (void)address;",
        "    if (ierror == NULL)",
        "        ierror = &ignored;",
        "    if (native == NULL) {",
        "        *ierror = MPI_ERR_UNSUPPORTED_OPERATION;",
        "        return;",
        "    }",
        *[f"    {line}" for line in body_lines(function, True, f"native({passed});")],
        "}",
        "",
    ]
    for name in full_names(function, abi):
        lines += [
            f"PUBLIC void {name}({declared})",
            "{",
            f"    fortran_{stem}((void (*)({declared}))native_get(NATIVE_{name}),",
            f"                   CALLER(), {passed});",
            "}",
        ]
        lines += [
            f'PUBLIC void {alias}({declared}) __attribute__((alias("{name}")));'
            for alias in aliases(name)
        ]
        lines.append("")
    return "\n".join(lines)


def fortran_thin(function: Function) -> str:
    """MPICH: note the caller, then let the Fortran layer run; it calls the wrapped C name."""
    arguments = [f"a{i}" for i in range(len(function.parameters) + 1)]
    lengths = hidden_lengths(function)
    declared = ", ".join([f"void *{a}" for a in arguments] + [f"size_t {n}" for n in lengths])
    arguments += lengths
    lines = []
    for name in thin_names(function, "mpich"):
        lines += [
            f"PUBLIC void {name}({declared})",
            "{",
            f"    void (*const native)({declared}) =",
            f"        (void (*)({declared}))native_get(NATIVE_{name});",
            "    const void *const outer = caller_enter(CALLER());",
            "",
            "    if (native != NULL)",
            f"        native({', '.join(arguments)});",
            "    caller_leave(outer);",
            "}",
        ]
        lines += [
            f'PUBLIC void {alias}({declared}) __attribute__((alias("{name}")));'
            for alias in aliases(name)
        ]
        lines.append("")
    return "\n".join(lines)


def fortran_source(abi: str, level: str) -> str:
    """fortran.c: the Fortran entry points."""
    parts = [head(level)]
    parts += [fortran_full(f, abi) for f in functions(level) if full_names(f, abi)]
    parts += [fortran_thin(f) for f in functions(level) if thin_names(f, abi)]
    return "\n".join(parts)


def main(abi: str, level: str, folder: str) -> None:
    """Write the three files."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    (out / "natives.h").write_text(natives_header(abi))
    (out / "wrappers.c").write_text(c_source(level))
    (out / "fortran.c").write_text(fortran_source(abi, level))


if __name__ == "__main__":
    main(*sys.argv[1:])
