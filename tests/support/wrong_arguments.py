"""Writes a C program that calls every collective with garbage and with wrong arguments.

Each case writes its rank, name, error class and a checksum of the receive buffer to
said-<rank>.txt. So a bare and a recorded run can be compared line by line: launchers mix up the
lines of ranks, and MPICH's error codes differ from run to run. Runs on 3 ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mpiprof.core.generator.collectives import Function, Parameter, collective_functions

ROOTED = ("bcast", "gather", "gatherv", "reduce", "scatter", "scatterv")
SCATTERS = ("scatter", "scatterv")

HEAD = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#define GARBAGE ((void *)0x5a5a5a5a5a5a5a58)
#ifdef OPEN_MPI
#define GARBAGE_TYPE ((MPI_Datatype)GARBAGE)
#define GARBAGE_OP ((MPI_Op)GARBAGE)
#else
#define GARBAGE_TYPE ((MPI_Datatype)0x5a5a5a5a)
#define GARBAGE_OP ((MPI_Op)0x5a5a5a5a)
#endif
enum { MOST = 16, ROOM = 4096 };
static int in[ROOM], out[ROOM], rank;
static int counts[MOST], bad_counts[MOST], displs[MOST], byte_displs[MOST];
static MPI_Count large_counts[MOST], bad_large_counts[MOST];
static MPI_Aint large_displs[MOST], large_byte_displs[MOST];
static MPI_Datatype types[MOST], bad_types[MOST];
static MPI_Comm plain, ring, inter;

static void prepare(void)
{
    for (int i = 0; i < ROOM; i++)
        in[i] = 1000 * rank + i, out[i] = i;
}

static void say(const char *name, int error)
{
    int kind = 0;
    long sum = 0;

    MPI_Error_class(error, &kind);
    for (int i = 0; i < ROOM; i++)
        sum += (long)out[i] * (i + 1);
    printf("%d %s class %d sum %ld\\n", rank, name, kind, sum);
}

static int blocking(int error, MPI_Request *request)
{
    (void)request;
    return error;
}

static int nonblocking(int error, MPI_Request *request)
{
    return error != MPI_SUCCESS ? error : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int persistent(int error, MPI_Request *request)
{
    if (error != MPI_SUCCESS)
        return error;
    error = MPI_Start(request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(request, MPI_STATUS_IGNORE);
    MPI_Request_free(request);
    return error;
}

static void set_up(void)
{
    int size, whole = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &whole, 0, &ring);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 2 ? 0 : 2, 7, &inter);
    MPI_Comm_free(&half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    for (int i = 0; i < MOST; i++) {
        counts[i] = 2, bad_counts[i] = -1, displs[i] = 2 * i, byte_displs[i] = 8 * i;
        large_counts[i] = 2, bad_large_counts[i] = -1;
        large_displs[i] = 2 * i, large_byte_displs[i] = 8 * i;
        types[i] = MPI_INT, bad_types[i] = MPI_DATATYPE_NULL;
    }
}
"""

MAIN = """
int main(int argc, char **argv)
{
    char name[20];

    MPI_Init(&argc, &argv);
    set_up();
    snprintf(name, sizeof name, "said-%d.txt", rank);
    if (freopen(name, "w", stdout) == NULL)
        return 1;
#define RUN(number) case_##number();
    CASES
    MPI_Finalize();
    return 0;
}
"""


@dataclass(frozen=True)
class Case:
    """One call: the ranks that make it ("all" or "root"), and its replaced arguments."""

    name: str
    function: Function
    changes: Mapping[str, str]
    who: str = "1"


def right_value(function: Function, parameter: Parameter) -> str:
    """Return an argument of the correct call, which exchanges two ints with each process."""
    kind = parameter.kind
    large = "large_" if function.large else ""
    aint = "large_" if function.large or kind == "aint_displs" else ""
    in_bytes = "byte_" if function.operation.endswith("alltoallw") else ""
    return {
        "cbuf": "in",
        "buf": "in" if parameter.name == "buffer" else "out",
        "count": "2",
        "counts": f"{large}counts",
        "displs": f"{aint}{in_bytes}displs",
        "aint_displs": "large_byte_displs",
        "type": "MPI_INT",
        "types": "types",
        "op": "MPI_SUM",
        "comm": "ring" if function.operation.startswith("neighbor") else "plain",
        "info": "MPI_INFO_NULL",
        "request": "&request",
        "int": "1",
    }[kind]


def garbage(parameter: Parameter) -> str:
    """Return a value that must not be read."""
    return {"count": "-77", "type": "GARBAGE_TYPE", "op": "GARBAGE_OP"}.get(
        parameter.kind, "GARBAGE"
    )


def conditional(condition: str, value: str, otherwise: str) -> str:
    """Return a C conditional expression."""
    return f"{condition} ? {value} : {otherwise}"


def of_buffer(function: Function, side: str) -> list[Parameter]:
    """Return the parameters that describe one buffer: send or recv."""
    ours = {f"{side}{rest}" for rest in ("count", "counts", "type", "types")}
    ours |= {f"{side[0]}displs"}
    if function.operation in ("gatherv", "allgatherv", "neighbor_allgatherv") and side == "recv":
        ours.add("displs")
    if function.operation == "scatterv" and side == "send":
        ours.add("displs")
    return [p for p in function.parameters if p.name in ours]


def off_the_root(function: Function) -> Iterator[Case]:
    """Yield a case with garbage in root-only arguments on the other ranks."""
    changes = {
        p.name: conditional("rank == 1", right_value(function, p), garbage(p))
        for p in function.parameters
        if p.where == "root"
    }
    yield Case("off the root", function, changes)


def in_place(function: Function) -> Iterator[Case]:
    """Yield a case with MPI_IN_PLACE, and garbage in the arguments of that buffer."""
    if function.operation.startswith("neighbor") or function.operation in ("barrier", "bcast"):
        return
    buffer = "recvbuf" if function.operation in SCATTERS else "sendbuf"
    at_root = "rank == 1" if function.operation in ROOTED else "1"
    side = buffer.removesuffix("buf")
    changes = {
        p.name: conditional(at_root, garbage(p), right_value(function, p))
        for p in of_buffer(function, side)
        if function.operation not in ("reduce_scatter", "reduce_scatter_block")
    }
    right = "in" if buffer == "sendbuf" else "out"
    changes[buffer] = conditional(at_root, "MPI_IN_PLACE", right)
    for p in function.parameters:
        if p.where == "root":
            there = changes.get(p.name, right_value(function, p))
            changes[p.name] = conditional("rank == 1", right_value(function, p), garbage(p))
            if buffer == p.name or p in of_buffer(function, side):
                changes[p.name] = there
    yield Case("in place", function, changes)


def between_groups(function: Function) -> Iterator[Case]:
    """Yield a case on two groups: rank 0 is the root, rank 1 passes PROC_NULL, rank 2 is remote."""
    if function.operation not in ROOTED:
        return
    changes = {"comm": "inter", "root": "rank == 0 ? MPI_ROOT : rank == 1 ? MPI_PROC_NULL : 0"}
    roots, members = of_buffer(function, "recv"), of_buffer(function, "send")
    if function.operation in SCATTERS:
        roots, members = members, roots
    names = {p.name for p in roots}, {p.name for p in members}
    for p in function.parameters:
        if p.kind in ("comm", "int", "info", "request"):
            continue
        if function.operation == "bcast" and p.kind != "buf":
            continue  # both MPIs check count and type even if no data is sent
        at = "rank != 1"
        if p.name in names[0] or p.where == "root":
            at = "rank == 0"
        elif p.name in names[1] or (p.name in ("sendbuf", "recvbuf") and p.where == ""):
            at = "rank == 2"
        changes[p.name] = conditional(at, right_value(function, p), garbage(p))
    yield Case("between groups", function, changes)


def wrong_values(function: Function, parameter: Parameter, mpich: bool) -> list[str]:
    """Return values of one argument that a library must refuse."""
    large = "large_" if function.large else ""
    values = {
        "count": ["-1"],
        "counts": [f"bad_{large}counts"],
        "type": ["MPI_DATATYPE_NULL"],
        "types": ["bad_types"],
        "op": ["MPI_OP_NULL"],
        "comm": ["MPI_COMM_NULL"],
        "int": ["-5", "1000"],
    }.get(parameter.kind, [])
    reduces = any(p.kind == "op" for p in function.parameters)
    if mpich and reduces and parameter.kind in ("type", "count"):
        return []  # MPICH itself does not survive these
    if mpich:  # Open MPI's handles are pointers, which it does not check
        values = values + {
            "type": ["GARBAGE_TYPE"],
            "op": ["GARBAGE_OP"],
            "comm": ["0x5a5a5a5a"],
        }.get(parameter.kind, [])
    return values


def wrong(function: Function, mpich: bool) -> Iterator[Case]:
    """Yield cases with one wrong argument; root-only arguments are wrong at the root only."""
    for p in function.parameters:
        for value in wrong_values(function, p, mpich):
            who = "rank == 1" if p.where == "root" else "1"
            yield Case(f"{p.name} = {value}", function, {p.name: value}, who)


def aliased(function: Function, mpich: bool) -> Iterator[Case]:
    """Yield a case with one buffer for both sides; in a rooted operation only the root calls.

    Open MPI checks only two operations for this; in the other operations it would overwrite data.
    """
    operation = function.operation
    if operation.startswith("neighbor") or operation in ("barrier", "bcast"):
        return
    if not mpich and (operation not in ("reduce", "allreduce") or function.form != "blocking"):
        return
    who = "rank == 1" if operation in ROOTED else "1"
    changes = {"sendbuf": "out + 2 * rank" if "gather" in operation else "out"}
    if operation in SCATTERS:
        changes = {"recvbuf": "in + 2"}
    yield Case("one buffer", function, changes, who)


def beyond_openmpi(case: Case) -> bool:
    """Return whether Open MPI 5 itself accepts the case, crashes or hangs in it."""
    operation = case.function.operation
    if case.name == "in place" and operation == "alltoall":
        return case.function.form != "blocking"
    return (case.name == "between groups" and operation == "reduce") or (
        (case.name, operation)
        in (
            ("comm = MPI_COMM_NULL", "allgather"),
            ("comm = MPI_COMM_NULL", "neighbor_allgather"),
            ("sendcount = -1", "scatter"),
            ("sendtype = MPI_DATATYPE_NULL", "scatter"),
        )
    )


def cases(mpich: bool) -> Iterator[Case]:
    """Yield all cases; the right call comes first and last."""
    for function in collective_functions():
        if function.large and not mpich:
            continue
        each = [Case("right", function, {}), *off_the_root(function), *in_place(function)]
        each += [*between_groups(function), *wrong(function, mpich)]
        each += aliased(function, mpich)
        each.append(Case("right again", function, {}))
        yield from (case for case in each if mpich or not beyond_openmpi(case))


def source(chosen: list[Case]) -> str:
    """Return the program's text."""
    parts = [HEAD]
    for number, case in enumerate(chosen):
        arguments = ", ".join(
            case.changes.get(p.name) or right_value(case.function, p)
            for p in case.function.parameters
        )
        call = f"{case.function.name}({arguments})"
        parts.append(
            f"static void case_{number}(void)\n{{\n"
            "    MPI_Request request = MPI_REQUEST_NULL;\n    (void)request;\n    prepare();\n"
            f"    if ({case.who})\n"
            f'        say("{case.function.name}, {case.name}", '
            f"{case.function.form}({call}, &request));\n}}\n"
        )
    runs = " ".join(f"RUN({number})" for number in range(len(chosen)))
    return "\n".join([*parts, MAIN.replace("CASES", runs)])
