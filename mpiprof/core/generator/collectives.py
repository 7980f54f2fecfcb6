"""Table of the MPI functions that mpiprof wraps; all repetitive code is derived from it.

The collectives are those of facts/operations.py. A parameter's name determines its kind, and so
its type in C and in Fortran (_KINDS). `:root` marks arguments that are significant only at the root
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

from mpiprof.core.generator.other_functions import FAMILIES
from mpiprof.facts.operations import (
    LOCAL_OPERATIONS,
    MANAGEMENT_COLLECTIVES,
    MESSAGE_OPERATIONS,
    OPERATIONS,
)

RECORDED = (*MANAGEMENT_COLLECTIVES, *MESSAGE_OPERATIONS, *LOCAL_OPERATIONS)
COLLECTIVES = {name: operation.parameters for name, operation in OPERATIONS.items()}


@dataclass(frozen=True)
class Kind:
    """Types of a parameter in C and Fortran; {} is its name.

    parameters: words of the tables with this kind, each with its name in the prototype after "=" if
    the names differ. large: C type in the large-count form, if it differs.
    """

    c: str
    fortran: str
    parameters: str = ""
    large: str = ""


# Releases of the MPI standard that libraries implement. Some implement MPI 4 without the functions
# with large counts ("4c").
LEVELS = ("3", "4", "4c", "4.1")

_ADDRESS, _HANDLE, _TEXT = "void *{}", "MPI_Fint *{}", "char *{}"
_INTS = (
    "dims periods index edges sources degrees destinations weights sourceweights destweights "
    "remain_dims maxprocs_array=array_of_maxprocs partition_list=array_of_partitions"
)
_HANDLER = "MPI_Comm_errhandler_function *{}"
_KINDS = {
    "count": Kind("int {}", _ADDRESS, "attached_size=size", "MPI_Count {}"),
    "large_count": Kind("MPI_Count {}", _ADDRESS, "partition_count=count"),
    "counts": Kind("const int {}[]", _ADDRESS, "sendcounts recvcounts", "const MPI_Count {}[]"),
    "displs": Kind("const int {}[]", _ADDRESS, "sdispls rdispls displs", "const MPI_Aint {}[]"),
    "aint_displs": Kind("const MPI_Aint {}[]", _ADDRESS, "wsdispls=sdispls wrdispls=rdispls"),
    "cbuf": Kind(
        "const void *{}", _ADDRESS, "sendbuf cbuf=buf origin_addr compare_addr const_address=base"
    ),
    "buf": Kind(
        "void *{}",
        _ADDRESS,
        "recvbuf buffer buf get_addr=origin_addr result_addr base_address=base",
    ),
    "type": Kind("MPI_Datatype {}", _HANDLE, "sendtype recvtype filetype"),
    "types": Kind("const MPI_Datatype {}[]", _HANDLE, "sendtypes recvtypes"),
    "op": Kind("MPI_Op {}", _HANDLE, "op"),
    "op*": Kind("MPI_Op *{}", _HANDLE, "out_op=op op_pointer=op"),
    "user_function": Kind(
        "MPI_User_function *{}", "void (*{})(void)", "user_fn", "MPI_User_function_c *{}"
    ),
    "comm": Kind("MPI_Comm {}", _HANDLE, "comm peer_comm"),
    "comm*": Kind("MPI_Comm *{}", _HANDLE, "comm_pointer=comm out_comm=newcomm"),
    "group": Kind("MPI_Group {}", _HANDLE, "group remote_group"),
    "info": Kind("MPI_Info {}", _HANDLE, "info"),
    "infos": Kind("const MPI_Info {}[]", _HANDLE, "infos=array_of_info"),
    "errhandler": Kind("MPI_Errhandler {}", _HANDLE, "errhandler"),
    "errhandler*": Kind("MPI_Errhandler *{}", _HANDLE, "out_errhandler=errhandler"),
    "handler_function": Kind(_HANDLER, _HANDLER, "comm_errhandler_fn"),
    "win": Kind("MPI_Win {}", _HANDLE, "win"),
    "win*": Kind("MPI_Win *{}", _HANDLE, "win_pointer=win out_win=win"),
    "file": Kind("MPI_File {}", _HANDLE, "fh"),
    "file*": Kind("MPI_File *{}", _HANDLE, "file_pointer=fh out_file=fh"),
    "offset": Kind("MPI_Offset {}", _ADDRESS, "offset"),
    "aint": Kind("MPI_Aint {}", _ADDRESS, "size target_disp"),
    "unit": Kind("int {}", _ADDRESS, "disp_unit", "MPI_Aint {}"),
    "address": Kind("void *{}", _ADDRESS, "baseptr"),
    "session": Kind("MPI_Session {}", _HANDLE, "session_value=session"),
    "session*": Kind("MPI_Session *{}", _HANDLE, "session session_pointer=session"),
    "request": Kind("MPI_Request *{}", _HANDLE, "request out_request=request"),
    "request_value": Kind("MPI_Request {}", _HANDLE, "request_value=request"),
    "requests": Kind("MPI_Request {}[]", _HANDLE, "requests"),
    "const_requests": Kind("const MPI_Request {}[]", _HANDLE, "const_requests=requests"),
    "message": Kind("MPI_Message *{}", _HANDLE, "message"),
    "status": Kind("MPI_Status *{}", _ADDRESS, "status statuses"),
    "int": Kind("int {}", _HANDLE, "count_int=count spawn_count=count incount atomicity=flag"),
    "int*": Kind(
        "int *{}",
        _HANDLE,
        "out_index=index outcount flag argc provided pset_count=npset_names pset_length=pset_len",
    ),
    "size*": Kind("int *{}", _ADDRESS, "detached_size=size", "MPI_Count *{}"),
    "pointer": Kind("void *{}", _ADDRESS, "detached_buffer=buffer_addr"),
    "ints": Kind("const int {}[]", _HANDLE, _INTS),
    "out_ints": Kind("int {}[]", _HANDLE, "indices errcodes"),
    "string": Kind(
        "const char *{}",
        _TEXT,
        "stringtag port_name command comm_name filename datarep service_name",
    ),
    "out_string": Kind("char *{}", _TEXT, "out_port=port_name out_pset=pset_name"),
    "strings": Kind("char *{}[]", _TEXT, "argv commands"),
    "strings*": Kind("char **{}[]", _TEXT, "argvs"),
    "argv_pointer": Kind("char ***{}", _ADDRESS, "argv_pointer=argv"),
}
_KIND_OF = {
    parameter: (name or parameter, kind)
    for kind, row in _KINDS.items()
    for parameter, _, name in (word.partition("=") for word in row.parameters.split())
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a wrapped function; `where` is "", "root" or "nonroot"."""

    name: str
    kind: str
    where: str = ""

    def c(self, large: bool) -> str:
        """Return its declaration in C."""
        kind = _KINDS[self.kind]
        return ((large and kind.large) or kind.c).format(self.name)

    def fortran(self) -> str:
        """Return its declaration in a Fortran wrapper in C, where every parameter is an address."""
        return _KINDS[self.kind].fortran.format(self.name)


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

    def declarations(self) -> str:
        """Return the declarations of its parameters in C."""
        return ", ".join(p.c(self.large) for p in self.parameters) or "void"

    def prototype(self) -> str:
        """Return its prototype in C, without the semicolon."""
        return f"int {self.name}({self.declarations()})"

    def arguments(self) -> str:
        """Return the names of its parameters, as a call passes them on."""
        return ", ".join(p.name for p in self.parameters)


def _parameter(word: str) -> Parameter:
    base, _, where = word.partition(":")
    suffixes = {"count": "count", "datatype": "type"}
    kind = next((kind for suffix, kind in suffixes.items() if base.endswith(suffix)), "int")
    return Parameter(*_KIND_OF.get(base, (base, kind)), where)


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
    for family, table in FAMILIES.items():
        for key, words in table.items():
            stem, _, release = key.partition("@")
            level = release or LEVELS[0]
            base = stem.rstrip("*")
            operation = base.lower() if base.lower() in RECORDED else ""
            parameters = _parameters(words)
            functions.append(Function(f"MPI_{base}", parameters, family, operation, level=level))
            if stem.endswith("*"):
                name = f"MPI_{base}_c"
                level = max(level, "4c", key=LEVELS.index)
                functions.append(
                    Function(name, parameters, family, operation, large=True, level=level)
                )
    return functions


def functions(level: str) -> list[Function]:
    """Return the functions that a library of a level exports."""
    known = LEVELS[: LEVELS.index(level) + 1]
    return [f for f in collective_functions() + other_functions() if f.level in known]
