"""The functions of MPI that mpiprof wraps, as a table; everything repetitive is derived from it.

The collectives are those of mpiprof/operations.py; a parameter's name tells its kind and so its
type in C and in Fortran. `:root` marks what only the root gives (elsewhere it may be garbage),
`:nonroot` what the root does not give. With MPI_IN_PLACE in place of a buffer the arguments of that
buffer are not significant either.

The tables here hold what is wrapped beside: what only adds to a rank's times, and what all
members of a communicator, a window or a file call: that is recorded as a collective is.

Forms of a blocking collective: `MPI_X`, `MPI_Ix` (adds a request), `MPI_X_init` (adds an info and
a request), and of each the large-count form `_c`: 22 rows make 129 entry points. Two exceptions:
MPI_Barrier has no large-count form; MPI_Neighbor_alltoallw always takes MPI_Aint displacements.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.operations import OPERATIONS

COLLECTIVES = {name: operation.parameters for name, operation in OPERATIONS.items()}

# Only the time of these is added up, by family. `*` marks a large-count form.
POINT_TO_POINT: dict[str, str] = {
    "Send*": "cbuf count datatype dest tag comm",
    "Bsend*": "cbuf count datatype dest tag comm",
    "Ssend*": "cbuf count datatype dest tag comm",
    "Rsend*": "cbuf count datatype dest tag comm",
    "Recv*": "buf count datatype source tag comm status",
    "Sendrecv*": "sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source "
    "recvtag comm status",
    "Sendrecv_replace*": "buf count datatype dest sendtag source recvtag comm status",
    "Probe": "source tag comm status",
    "Mprobe": "source tag comm message status",
    "Mrecv*": "buf count datatype message status",
}

_RMA = "origin_addr origin_count origin_datatype"
_TARGET = "target_rank target_disp target_count target_datatype"
ONE_SIDED: dict[str, str] = {
    "Put*": f"{_RMA} {_TARGET} win",
    "Get*": f"get_addr origin_count origin_datatype {_TARGET} win",
    "Accumulate*": f"{_RMA} {_TARGET} op win",
    "Get_accumulate*": f"{_RMA} result_addr result_count result_datatype {_TARGET} op win",
    "Fetch_and_op": "origin_addr result_addr datatype target_rank target_disp op win",
    "Compare_and_swap": "origin_addr compare_addr result_addr datatype target_rank target_disp win",
    "Rput*": f"{_RMA} {_TARGET} win out_request",
    "Rget*": f"get_addr origin_count origin_datatype {_TARGET} win out_request",
    "Raccumulate*": f"{_RMA} {_TARGET} op win out_request",
    "Rget_accumulate*": f"{_RMA} result_addr result_count result_datatype {_TARGET} op win "
    "out_request",
    "Win_lock": "lock_type rank assert win",
    "Win_lock_all": "assert win",
    "Win_unlock": "rank win",
    "Win_unlock_all": "win",
    "Win_flush": "rank win",
    "Win_flush_all": "win",
    "Win_flush_local": "rank win",
    "Win_flush_local_all": "win",
    "Win_sync": "win",
    "Win_post": "group assert win",
    "Win_start": "group assert win",
    "Win_complete": "win",
    "Win_wait": "win",
    "Win_test": "win flag",
}

_READ, _WRITE = "buf count datatype", "cbuf count datatype"
FILE_ACCESS: dict[str, str] = {  # by one process alone, or only begun
    "File_read*": f"fh {_READ} status",
    "File_write*": f"fh {_WRITE} status",
    "File_read_at*": f"fh offset {_READ} status",
    "File_write_at*": f"fh offset {_WRITE} status",
    "File_read_shared*": f"fh {_READ} status",
    "File_write_shared*": f"fh {_WRITE} status",
    "File_iread*": f"fh {_READ} out_request",
    "File_iwrite*": f"fh {_WRITE} out_request",
    "File_iread_at*": f"fh offset {_READ} out_request",
    "File_iwrite_at*": f"fh offset {_WRITE} out_request",
    "File_iread_shared*": f"fh {_READ} out_request",
    "File_iwrite_shared*": f"fh {_WRITE} out_request",
    "File_iread_all*": f"fh {_READ} out_request",
    "File_iwrite_all*": f"fh {_WRITE} out_request",
    "File_iread_at_all*": f"fh offset {_READ} out_request",
    "File_iwrite_at_all*": f"fh offset {_WRITE} out_request",
    "File_delete": "filename info",
}

# Recorded as calls that all members make, but never switched: no data of ours is in them. A window
# or file that a call makes (`out_win`, `out_file`) counts its own calls from then on (handles.c).
WINDOWS: dict[str, str] = {
    "Win_create*": "buf size disp_unit info comm out_win",
    "Win_allocate*": "size disp_unit info comm baseptr out_win",
    "Win_allocate_shared*": "size disp_unit info comm baseptr out_win",
    "Win_create_dynamic": "info comm out_win",
    "Win_fence": "assert win",
    "Win_free": "win_pointer",
}
FILES: dict[str, str] = {
    "File_open": "comm filename amode info out_file",
    "File_close": "file_pointer",
    "File_set_view": "fh offset datatype filetype datarep info",
    "File_set_size": "fh offset",
    "File_preallocate": "fh offset",
    "File_set_info": "fh info",
    "File_set_atomicity": "fh atomicity",
    "File_sync": "fh",
    "File_seek_shared": "fh offset whence",
    "File_read_all*": f"fh {_READ} status",
    "File_write_all*": f"fh {_WRITE} status",
    "File_read_at_all*": f"fh offset {_READ} status",
    "File_write_at_all*": f"fh offset {_WRITE} status",
    "File_read_ordered*": f"fh {_READ} status",
    "File_write_ordered*": f"fh {_WRITE} status",
    "File_read_all_begin*": f"fh {_READ}",
    "File_read_all_end": "fh buf status",
    "File_write_all_begin*": f"fh {_WRITE}",
    "File_write_all_end": "fh cbuf status",
    "File_read_at_all_begin*": f"fh offset {_READ}",
    "File_read_at_all_end": "fh buf status",
    "File_write_at_all_begin*": f"fh offset {_WRITE}",
    "File_write_at_all_end": "fh cbuf status",
    "File_read_ordered_begin*": f"fh {_READ}",
    "File_read_ordered_end": "fh buf status",
    "File_write_ordered_begin*": f"fh {_WRITE}",
    "File_write_ordered_end": "fh cbuf status",
}

# Functions with a hook of their own in request.c, comm.c or pmpi.c. `out_comm` is a communicator
# that the call makes; what follows `@` is the first release of the standard that has it.
COMPLETION: dict[str, str] = {
    "Wait": "request status",
    "Waitall": "count_int requests statuses",
    "Waitany": "count_int requests out_index status",
    "Waitsome": "incount requests outcount indices statuses",
    "Test": "request flag status",
    "Testall": "count_int requests flag statuses",
    "Testany": "count_int requests out_index flag status",
    "Testsome": "incount requests outcount indices statuses",
    "Request_get_status": "request_value flag status",
    "Start": "request",
    "Startall": "count_int requests",
    "Request_free": "request",
}

COMMUNICATORS: dict[str, str] = {
    "Comm_dup": "comm out_comm",
    "Comm_dup_with_info": "comm info out_comm",
    "Comm_idup": "comm out_comm out_request",
    "Comm_idup_with_info@4": "comm info out_comm out_request",
    "Comm_split": "comm color key out_comm",
    "Comm_split_type": "comm split_type key info out_comm",
    "Comm_create": "comm group out_comm",
    "Comm_create_group": "comm group tag out_comm",
    "Comm_create_from_group@4": "group stringtag info errhandler out_comm",
    "Cart_create": "comm ndims dims periods reorder out_comm",
    "Graph_create": "comm nnodes index edges reorder out_comm",
    "Dist_graph_create": "comm n sources degrees destinations weights info reorder out_comm",
    "Dist_graph_create_adjacent": "comm indegree sources sourceweights outdegree destinations "
    "destweights info reorder out_comm",
    "Cart_sub": "comm remain_dims out_comm",
    "Intercomm_create": "comm local_leader peer_comm remote_leader tag out_comm",
    "Intercomm_create_from_groups@4": "group local_leader remote_group remote_leader stringtag "
    "info errhandler out_comm",
    "Intercomm_merge": "comm high out_comm",
    "Comm_spawn": "command argv maxprocs info root comm out_comm errcodes",
    "Comm_spawn_multiple": "spawn_count commands argvs maxprocs_array infos root comm out_comm "
    "errcodes",
    "Comm_connect": "port_name info root comm out_comm",
    "Comm_accept": "port_name info root comm out_comm",
    "Comm_join": "fd out_comm",
    "Comm_get_parent": "out_comm",
    "Comm_free": "comm_pointer",
    "Comm_disconnect": "comm_pointer",
    "Comm_set_name": "comm comm_name",
}

RECORDED = ("communicator", "window", "file")
# Of the communicators' functions, those that not all members of a communicator call, or that only
# begin: they have no record. Nor has Comm_free, for which nobody waits in either library.
UNRECORDED = {
    *("Comm_idup", "Comm_idup_with_info", "Comm_create_group", "Comm_create_from_group"),
    *("Intercomm_create_from_groups", "Comm_join", "Comm_get_parent", "Comm_set_name", "Comm_free"),
}

LIFECYCLE: dict[str, str] = {
    "Init": "argc argv_pointer",
    "Init_thread": "argc argv_pointer required provided",
    "Finalize": "",
    "Abort": "comm errorcode",
    "Session_init@4": "info errhandler session",
    "Session_finalize@4": "session_pointer",
}  # and MPI_Pcontrol, which is variadic and written by hand

# What makes error handlers: a function of ours is asked before the program's (handler.c).
HANDLERS: dict[str, str] = {
    "Comm_create_errhandler": "comm_errhandler_fn out_errhandler",
}

# kind -> (C type, C type of the large-count form, Fortran type); {} is the parameter's name.
_HANDLE = "MPI_Fint *{}"
_TYPES: dict[str, tuple[str, str, str]] = {
    "count": ("int {}", "MPI_Count {}", "void *{}"),
    "counts": ("const int {}[]", "const MPI_Count {}[]", "void *{}"),
    "displs": ("const int {}[]", "const MPI_Aint {}[]", "void *{}"),
    "aint_displs": ("const MPI_Aint {}[]", "const MPI_Aint {}[]", "void *{}"),
    "cbuf": ("const void *{}", "const void *{}", "void *{}"),
    "buf": ("void *{}", "void *{}", "void *{}"),
    "type": ("MPI_Datatype {}", "MPI_Datatype {}", _HANDLE),
    "types": ("const MPI_Datatype {}[]", "const MPI_Datatype {}[]", _HANDLE),
    "op": ("MPI_Op {}", "MPI_Op {}", _HANDLE),
    "comm": ("MPI_Comm {}", "MPI_Comm {}", _HANDLE),
    "comm*": ("MPI_Comm *{}", "MPI_Comm *{}", _HANDLE),
    "group": ("MPI_Group {}", "MPI_Group {}", _HANDLE),
    "info": ("MPI_Info {}", "MPI_Info {}", _HANDLE),
    "infos": ("const MPI_Info {}[]", "const MPI_Info {}[]", _HANDLE),
    "errhandler": ("MPI_Errhandler {}", "MPI_Errhandler {}", _HANDLE),
    "errhandler*": ("MPI_Errhandler *{}", "MPI_Errhandler *{}", _HANDLE),
    "handler_function": (
        "MPI_Comm_errhandler_function *{}",
        "MPI_Comm_errhandler_function *{}",
        "MPI_Comm_errhandler_function *{}",
    ),
    "win": ("MPI_Win {}", "MPI_Win {}", _HANDLE),
    "win*": ("MPI_Win *{}", "MPI_Win *{}", _HANDLE),
    "file": ("MPI_File {}", "MPI_File {}", _HANDLE),
    "file*": ("MPI_File *{}", "MPI_File *{}", _HANDLE),
    "offset": ("MPI_Offset {}", "MPI_Offset {}", "void *{}"),
    "aint": ("MPI_Aint {}", "MPI_Aint {}", "void *{}"),
    "unit": ("int {}", "MPI_Aint {}", "void *{}"),
    "address": ("void *{}", "void *{}", "void *{}"),
    "session*": ("MPI_Session *{}", "MPI_Session *{}", _HANDLE),
    "request": ("MPI_Request *{}", "MPI_Request *{}", _HANDLE),
    "request_value": ("MPI_Request {}", "MPI_Request {}", _HANDLE),
    "requests": ("MPI_Request {}[]", "MPI_Request {}[]", _HANDLE),
    "message": ("MPI_Message *{}", "MPI_Message *{}", _HANDLE),
    "status": ("MPI_Status *{}", "MPI_Status *{}", "void *{}"),
    "statuses": ("MPI_Status *{}", "MPI_Status *{}", "void *{}"),
    "int": ("int {}", "int {}", "MPI_Fint *{}"),
    "int*": ("int *{}", "int *{}", "MPI_Fint *{}"),
    "ints": ("const int {}[]", "const int {}[]", "MPI_Fint *{}"),
    "out_ints": ("int {}[]", "int {}[]", "MPI_Fint *{}"),
    "string": ("const char *{}", "const char *{}", "char *{}"),
    "strings": ("char *{}[]", "char *{}[]", "char *{}"),
    "strings*": ("char **{}[]", "char **{}[]", "char *{}"),
    "argv_pointer": ("char ***{}", "char ***{}", "void *{}"),
}

# parameter -> (name in the prototype, kind)
_NAMES: dict[str, tuple[str, str]] = {
    "sendbuf": ("sendbuf", "cbuf"),
    "recvbuf": ("recvbuf", "buf"),
    "buffer": ("buffer", "buf"),
    "cbuf": ("buf", "cbuf"),
    "buf": ("buf", "buf"),
    "sdispls": ("sdispls", "displs"),
    "rdispls": ("rdispls", "displs"),
    "displs": ("displs", "displs"),
    "wsdispls": ("sdispls", "aint_displs"),
    "wrdispls": ("rdispls", "aint_displs"),
    "op": ("op", "op"),
    "comm": ("comm", "comm"),
    "peer_comm": ("peer_comm", "comm"),
    "comm_pointer": ("comm", "comm*"),
    "out_comm": ("newcomm", "comm*"),
    "group": ("group", "group"),
    "remote_group": ("remote_group", "group"),
    "info": ("info", "info"),
    "infos": ("array_of_info", "infos"),
    "errhandler": ("errhandler", "errhandler"),
    "out_errhandler": ("errhandler", "errhandler*"),
    "comm_errhandler_fn": ("comm_errhandler_fn", "handler_function"),
    "session": ("session", "session*"),
    "session_pointer": ("session", "session*"),
    "request": ("request", "request"),
    "out_request": ("request", "request"),
    "request_value": ("request", "request_value"),
    "requests": ("requests", "requests"),
    "message": ("message", "message"),
    "status": ("status", "status"),
    "statuses": ("statuses", "statuses"),
    "count_int": ("count", "int"),
    "out_index": ("index", "int*"),
    "outcount": ("outcount", "int*"),
    "indices": ("indices", "out_ints"),
    "flag": ("flag", "int*"),
    "dims": ("dims", "ints"),
    "periods": ("periods", "ints"),
    "index": ("index", "ints"),
    "edges": ("edges", "ints"),
    "sources": ("sources", "ints"),
    "degrees": ("degrees", "ints"),
    "destinations": ("destinations", "ints"),
    "weights": ("weights", "ints"),
    "sourceweights": ("sourceweights", "ints"),
    "destweights": ("destweights", "ints"),
    "remain_dims": ("remain_dims", "ints"),
    "maxprocs_array": ("array_of_maxprocs", "ints"),
    "errcodes": ("errcodes", "out_ints"),
    "spawn_count": ("count", "int"),
    "stringtag": ("stringtag", "string"),
    "port_name": ("port_name", "string"),
    "command": ("command", "string"),
    "comm_name": ("comm_name", "string"),
    "argv": ("argv", "strings"),
    "commands": ("commands", "strings"),
    "argvs": ("argvs", "strings*"),
    "argc": ("argc", "int*"),
    "argv_pointer": ("argv", "argv_pointer"),
    "provided": ("provided", "int*"),
    "win": ("win", "win"),
    "win_pointer": ("win", "win*"),
    "out_win": ("win", "win*"),
    "baseptr": ("baseptr", "address"),
    "size": ("size", "aint"),
    "disp_unit": ("disp_unit", "unit"),
    "fh": ("fh", "file"),
    "file_pointer": ("fh", "file*"),
    "out_file": ("fh", "file*"),
    "offset": ("offset", "offset"),
    "filename": ("filename", "string"),
    "datarep": ("datarep", "string"),
    "filetype": ("filetype", "type"),
    "atomicity": ("flag", "int"),
    "origin_addr": ("origin_addr", "cbuf"),
    "compare_addr": ("compare_addr", "cbuf"),
    "get_addr": ("origin_addr", "buf"),
    "result_addr": ("result_addr", "buf"),
    "target_disp": ("target_disp", "aint"),
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a wrapped function; `where` is "", "root" or "nonroot"."""

    name: str
    kind: str
    where: str = ""

    def c(self, large: bool) -> str:
        """Its declaration in C."""
        return _TYPES[self.kind][1 if large else 0].format(self.name)

    def fortran(self) -> str:
        """Its declaration in a Fortran wrapper written in C: everything is an address."""
        return _TYPES[self.kind][2].format(self.name)


@dataclass(frozen=True)
class Function:
    """One wrapped entry point, e.g. MPI_Iallreduce_c; without an operation it has no record."""

    name: str
    parameters: tuple[Parameter, ...]
    family: str
    operation: str = ""
    form: str = "blocking"
    large: bool = False
    level: str = "3"

    def prototype(self) -> str:
        """Its prototype in C, without the semicolon."""
        declared = ", ".join(p.c(self.large) for p in self.parameters) or "void"
        return f"int {self.name}({declared})"

    def arguments(self) -> str:
        """The names of its parameters, as a call passes them on."""
        return ", ".join(p.name for p in self.parameters)


def _parameter(word: str) -> Parameter:
    base, _, where = word.partition(":")
    if base in _NAMES:
        name, kind = _NAMES[base]
    elif base.endswith("count") and base != "incount":
        name, kind = base, "count"
    elif base in ("sendcounts", "recvcounts"):
        name, kind = base, "counts"
    elif base.endswith("datatype") or base in ("sendtype", "recvtype"):
        name, kind = base, "type"
    elif base in ("sendtypes", "recvtypes"):
        name, kind = base, "types"
    else:
        name, kind = base, "int"
    return Parameter(name, kind, where)


def _parameters(words: str) -> tuple[Parameter, ...]:
    return tuple(_parameter(word) for word in words.split())


def collective_functions() -> list[Function]:
    """The 129 entry points of the collectives, in the order of the table."""
    functions = []
    for operation, words in COLLECTIVES.items():
        for form, prefix, suffix, extra in (
            ("blocking", "", "", ""),
            ("nonblocking", "I", "", " out_request"),
            ("persistent", "", "_init", " info out_request"),
        ):
            stem = f"{prefix}{operation}" if prefix else operation.capitalize()
            name = f"MPI_{stem}{suffix}"
            functions += [
                Function(
                    name + ("_c" if large else ""),
                    _parameters(words + extra),
                    "collective",
                    operation,
                    form,
                    large,
                    "4c" if large else "4" if form == "persistent" else "3",
                )
                for large in (False, True)
                if not (large and operation == "barrier")
            ]
    return functions


def other_functions() -> list[Function]:
    """Every wrapped function that is not a collective of the table, MPI_Pcontrol apart."""
    functions = []
    for family, table in (
        ("point_to_point", POINT_TO_POINT),
        ("one_sided", ONE_SIDED),
        ("files", FILE_ACCESS),
        ("completion", COMPLETION),
        ("communicator", COMMUNICATORS),
        ("window", WINDOWS),
        ("file", FILES),
        ("lifecycle", LIFECYCLE),
        ("handler", HANDLERS),
    ):
        for key, words in table.items():
            stem, _, level = key.partition("@")
            base = stem.rstrip("*")
            recorded = (family in RECORDED and base not in UNRECORDED) or base == "Finalize"
            functions += [
                Function(
                    f"MPI_{base}{'_c' if large else ''}",
                    _parameters(words),
                    family,
                    base.lower() if recorded else "",
                    large=large,
                    level="4c" if large else level or "3",
                )
                for large in ((False, True) if stem.endswith("*") else (False,))
            ]
    return functions


def gatherings() -> list[str]:
    """The operations that are recorded and never switched, in the order of the tables."""
    return list(dict.fromkeys(f.operation for f in other_functions() if f.operation))


LEVELS = ("3", "4", "4c")


def functions(level: str) -> list[Function]:
    """What a library of this level of the standard exports ("3", "4", "4c": with large counts)."""
    known = LEVELS[: LEVELS.index(level) + 1]
    return [f for f in collective_functions() + other_functions() if f.level in known]
