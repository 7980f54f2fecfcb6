"""Table of the MPI functions that mpiprof wraps; all repetitive code is derived from it.

The collectives are those of mpiprof/operations.py. A parameter's name determines its kind, and so
its type in C and in Fortran. `:root` marks arguments that are significant only at the root
(elsewhere they may be garbage), and `:nonroot` arguments that are not significant at the root. If a
buffer is MPI_IN_PLACE, the other arguments of that buffer are not significant either.

other_functions.py has the other wrapped functions.

Forms of a blocking collective: `MPI_X`, `MPI_Ix` (adds a request), `MPI_X_init` (adds an info and a
request), and the large-count form `_c` of each. 22 rows result in 129 entry points. There are two
exceptions. MPI_Barrier has no large-count form, and MPI_Neighbor_alltoallw always takes MPI_Aint
displacements.
"""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.core.generator.other_functions import (
    COMMUNICATORS,
    COMPLETION,
    FILE_ACCESS,
    FILES,
    HANDLERS,
    LIFECYCLE,
    ONE_SIDED,
    OPERATORS,
    POINT_TO_POINT,
    WINDOWS,
)
from mpiprof.operations import MANAGEMENT_COLLECTIVES, OPERATIONS

COLLECTIVES = {name: operation.parameters for name, operation in OPERATIONS.items()}

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
    "op*": ("MPI_Op *{}", "MPI_Op *{}", _HANDLE),
    "user_function": ("MPI_User_function *{}", "MPI_User_function_c *{}", "void (*{})(void)"),
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
    "user_fn": ("user_fn", "user_function"),
    "out_op": ("op", "op*"),
    "op_pointer": ("op", "op*"),
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
        """Return its declaration in C."""
        return _TYPES[self.kind][1 if large else 0].format(self.name)

    def fortran(self) -> str:
        """Return its declaration in a Fortran wrapper in C, where every parameter is an address."""
        return _TYPES[self.kind][2].format(self.name)


@dataclass(frozen=True)
class Function:
    """One wrapped entry point, e.g. MPI_Iallreduce_c; operation is "" if it has no record."""

    name: str
    parameters: tuple[Parameter, ...]
    family: str
    operation: str = ""
    form: str = "blocking"
    large: bool = False
    level: str = "3"

    def prototype(self) -> str:
        """Return its prototype in C, without the semicolon."""
        declared = ", ".join(p.c(self.large) for p in self.parameters) or "void"
        return f"int {self.name}({declared})"

    def arguments(self) -> str:
        """Return the names of its parameters, as a call passes them on."""
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
    """Return the 129 entry points of the collectives, in the order of the table."""
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
    """Return every wrapped function that is no collective of the table, except MPI_Pcontrol."""
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
        ("operator", OPERATORS),
    ):
        for key, words in table.items():
            stem, _, level = key.partition("@")
            base = stem.rstrip("*")
            functions += [
                Function(
                    f"MPI_{base}{'_c' if large else ''}",
                    _parameters(words),
                    family,
                    base.lower() if base.lower() in MANAGEMENT_COLLECTIVES else "",
                    large=large,
                    level="4c" if large else level or "3",
                )
                for large in ((False, True) if stem.endswith("*") else (False,))
            ]
    return functions


LEVELS = ("3", "4", "4c")


def functions(level: str) -> list[Function]:
    """Return the functions that a library of a level ("3", "4", "4c": large counts) exports."""
    known = LEVELS[: LEVELS.index(level) + 1]
    return [f for f in collective_functions() + other_functions() if f.level in known]
