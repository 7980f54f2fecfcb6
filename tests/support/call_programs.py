"""Writes programs that make the calls of calls.py, in C, Fortran and Python.

A program checks its own results, and exits with 1 if one is wrong. The source line of each call has
its number in a comment: `@7@`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mpiprof.core.generator.collectives import Parameter
from support.collective_calls import ANY, AT_ROOT_ONLY, ROOM, ROOT_RANK, VALUES, Case

# ---------------------------------------------------------------------------------- C

C_HEAD = """#include <mpi.h>
#include <stdio.h>
#include <string.h>
enum {{ ROOM = {room}, ANY = {any} }};
static int S[ROOM], R[ROOM], rank, wrong;
static const int expected[][2][ROOM] = {{
{expected}
}};

static void prepare(int like)
{{
    for (int i = 0; i < ROOM; i++) {{
        S[i] = 100 * rank + i;
        R[i] = like == 1 || (like == 2 && rank == {root}) ? S[i] : -1;
    }}
}}

static void check(int number, const char *name)
{{
    for (int i = 0; i < ROOM; i++)
        if (expected[number][rank][i] != ANY && expected[number][rank][i] != R[i]) {{
            printf("%s on rank %d: R[%d] is %d, not %d\\n", name, rank, i, R[i],
                   expected[number][rank][i]);
            wrong = 1;
        }}
}}

int main(int argc, char **argv)
{{
    MPI_Comm work, graph;
    MPI_Request pending;
    const int all[] = {{0, 1}}, root = {root};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &work);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, all, all, 2, all, all, MPI_INFO_NULL, 0,
                                   &graph);
"""
C_TAIL = """    MPI_Comm_free(&work);
    MPI_Comm_free(&graph);
    MPI_Finalize();
    return wrong;
}
"""
C_FIXED = {"op": "MPI_SUM", "info": "MPI_INFO_NULL", "request": "&pending", "type": "MPI_INT"}


def c_value(case: Case, p: Parameter) -> str:
    if p.kind in ("cbuf", "buf"):
        where = "rank == root" if case.function.operation in AT_ROOT_ONLY else "1"
        place = "recvbuf" if case.function.operation.startswith("scatter") else "sendbuf"
        buffer = "R" if p.name in ("recvbuf", "buffer") else "S"
        return f"{where} ? MPI_IN_PLACE : {buffer}" if case.in_place and p.name == place else buffer
    if p.kind == "comm":
        return case.communicator
    if p.kind == "types":
        return "{MPI_INT, MPI_INT}"
    if p.kind in C_FIXED:
        return C_FIXED[p.kind]
    value = case.value(p)
    return value if isinstance(value, str) else f"{{{', '.join(value)}}}"


def c_program(chosen: Sequence[Case]) -> str:
    """Return the C program that makes these calls."""
    rows = [f"    {{{braced(case.result(0))}, {braced(case.result(1))}}}," for case in chosen]
    lines = [C_HEAD.format(room=ROOM, any=ANY, root=ROOT_RANK, expected="\n".join(rows))]
    for case in chosen:
        f = case.function
        lines += ["    {", f"        prepare({case.starts_in});"]
        for p in f.parameters:
            if p.name != "root":
                lines.append(f"        {p.c(f.large)} = {c_value(case, p)};")
        lines.append(f"        {f.name}({f.arguments()}); /* @{case.number}@ */")
        if f.form == "persistent":
            lines.append("        MPI_Start(&pending);")
        if f.form != "blocking":
            lines.append("        MPI_Wait(&pending, MPI_STATUS_IGNORE);")
        if f.form == "persistent":
            lines.append("        MPI_Request_free(&pending);")
        lines += [f'        check({case.number}, "{f.name}");', "    }"]
    return "\n".join(lines) + "\n" + C_TAIL


def braced(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


# ---------------------------------------------------------------------------------- Fortran

FORTRAN_HEAD = """program calls
{use}
  implicit none
{include}
  integer, parameter :: room = {room}, any = {any}, root = {root}
  integer :: S(room), R(room), rank, ierror, wrong, all(2)
  integer :: sendcount, recvcount, count, sendcounts(2), recvcounts(2)
  integer :: displs(2), sdispls(2), rdispls(2)
  integer(MPI_COUNT_KIND) :: sendcount_l, recvcount_l, count_l, sendcounts_l(2), recvcounts_l(2)
  integer(MPI_ADDRESS_KIND) :: displs_a(2), sdispls_a(2), rdispls_a(2)
  {comm} :: work, graph
  {request} :: pending
  {datatype} :: sendtypes(2), recvtypes(2)
  wrong = 0
  all = (/0, 1/)
  sendtypes = MPI_INTEGER
  recvtypes = MPI_INTEGER
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_dup(MPI_COMM_WORLD, work, ierror)
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, all, MPI_UNWEIGHTED, 2, all, &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierror)
"""
FORTRAN_TAIL = """  call MPI_Comm_free(work, ierror)
  call MPI_Comm_free(graph, ierror)
  call MPI_Finalize(ierror)
  if (wrong /= 0) stop 1
contains
  subroutine prepare(like)
    integer, intent(in) :: like
    integer :: i
    do i = 1, room
      S(i) = 100 * rank + i - 1
      R(i) = -1
      if (like == 1 .or. (like == 2 .and. rank == root)) R(i) = S(i)
    end do
  end subroutine
  subroutine check(name, first, second)
    character(*), intent(in) :: name
    integer, intent(in) :: first(room), second(room)
    integer :: expected(room), i
    expected = first
    if (rank == 1) expected = second
    do i = 1, room
      if (expected(i) /= any .and. expected(i) /= R(i)) then
        print *, name, ' on rank', rank, ': R(', i, ') is', R(i), ', not', expected(i)
        wrong = 1
      end if
    end do
  end subroutine
end program
"""
FORTRAN_KINDS = {
    "mpif.h": {"use": "", "include": "  include 'mpif.h'"},
    "mpi": {"use": "  use mpi", "include": ""},
    "mpi_f08": {"use": "  use mpi_f08", "include": ""},
}
FORTRAN_FIXED = {"op": "MPI_SUM", "info": "MPI_INFO_NULL", "request": "pending"}
FORTRAN_FIXED |= {"type": "MPI_INTEGER"}


def fortran_name(p: Parameter, large: bool) -> str:
    if p.kind == "aint_displs" or (large and p.kind == "displs"):
        return f"{p.name}_a"
    return f"{p.name}_l" if large and p.kind in ("count", "counts") else p.name


def fortran_argument(case: Case, p: Parameter, in_place: bool) -> str:
    if p.kind in ("cbuf", "buf"):
        place = "recvbuf" if case.function.operation.startswith("scatter") else "sendbuf"
        buffer = "R" if p.name in ("recvbuf", "buffer") else "S"
        return "MPI_IN_PLACE" if in_place and p.name == place else buffer
    if p.kind == "comm":
        return case.communicator
    if p.kind in FORTRAN_FIXED:
        return FORTRAN_FIXED[p.kind]
    return p.name if p.name == "root" else fortran_name(p, case.function.large)


def fortran_calls(case: Case) -> list[str]:
    """Return the call, or two calls if only the root passes MPI_IN_PLACE."""
    f = case.function
    name = f.name.removesuffix("_c")

    def call(in_place: bool) -> str:
        words = [fortran_argument(case, p, in_place) for p in f.parameters]
        return f"  call {name}({', '.join([*words, 'ierror'])}) ! @{case.number}@"

    if case.in_place and f.operation in AT_ROOT_ONLY:
        return ["  if (rank == root) then", call(True), "  else", call(False), "  end if"]
    return [call(case.in_place)]


def fortran_program(chosen: Sequence[Case], binding: str, extra: str = "") -> str:
    """Return the Fortran program that makes these calls by mpif.h, mpi or mpi_f08."""
    handles = {"comm": "integer", "request": "integer", "datatype": "integer"}
    if binding == "mpi_f08":
        handles = {n: f"type(MPI_{n.capitalize()})" for n in handles}
    words = FORTRAN_KINDS[binding] | handles
    lines = [FORTRAN_HEAD.format(room=ROOM, any=ANY, root=ROOT_RANK, **words)]
    for case in chosen:
        f = case.function
        lines.append(f"  call prepare({case.starts_in})")
        for p in f.parameters:
            if p.kind in ("count", "counts", "displs", "aint_displs"):
                value = case.value(p)
                text = value if isinstance(value, str) else f"(/{', '.join(value)}/)"
                lines.append(f"  {fortran_name(p, f.large)} = {text}")
        lines += fortran_calls(case)
        if f.form == "persistent":
            lines.append("  call MPI_Start(pending, ierror)")
        if f.form != "blocking":
            lines.append("  call MPI_Wait(pending, MPI_STATUS_IGNORE, ierror)")
        if f.form == "persistent":
            lines.append("  call MPI_Request_free(pending, ierror)")
        results = [f"(/{', '.join(map(str, case.result(rank)))}/)" for rank in (0, 1)]
        lines.append(f"  call check('{f.name}', {', '.join(results)})")
    return "\n".join([*lines, extra]) + FORTRAN_TAIL


# ---------------------------------------------------------------------------------- Python

PYTHON_HEAD = """import sys
from array import array
from mpi4py import MPI

work = MPI.COMM_WORLD.Dup()
graph = MPI.COMM_WORLD.Create_dist_graph_adjacent([0, 1], [0, 1])
rank, root, wrong, T = work.rank, {root}, 0, MPI.INT
S, R = array("i", [0] * {room}), array("i", [0] * {room})


def prepare(like):
    for i in range({room}):
        S[i] = 100 * rank + i
        R[i] = S[i] if like == 1 or (like == 2 and rank == root) else -1


def check(name, *expected):
    global wrong
    if any(e not in ({any}, r) for e, r in zip(expected[rank], R)):
        print(name, "on rank", rank, "leaves", list(R), "not", expected[rank])
        wrong = 1


def main():
"""
PYTHON_TAIL = """

main()
sys.exit(wrong)
"""


def python_side(case: Case, side: str) -> str:
    """Return the buffer specification of the send or the receive side."""
    base = case.function.operation.removeprefix("neighbor_")
    values = VALUES[base]
    buffer = "S" if side == "send" else "R"

    def text(name: str) -> str:
        value = values[name]
        return value if isinstance(value, str) else f"[{', '.join(value)}]"

    if "count" in values:
        return f"[{buffer}, {text('count')}, T]"
    if base.startswith("reduce_scatter"):
        block = base.endswith("block")
        sent, share = ("4", "2") if block else ("3", "rank + 1")
        if side == "send" and block:  # two elements for each process
            return f"[{buffer}, 2, T]"
        return f"[{buffer}, {sent if side == 'send' else share}, T]"
    if f"{side}counts" not in values:
        return f"[{buffer}, {text(f'{side}count')}, T]"
    displs = text("displs" if "displs" in values else f"{side[0]}displs")
    kind = "[T, T]" if base.endswith("w") else "T"
    return f"[{buffer}, ({text(f'{side}counts')}, {displs}), {kind}]"


def python_arguments(case: Case) -> str:
    base = case.function.operation.removeprefix("neighbor_")
    send, receive = python_side(case, "send") if base != "barrier" else "", ""
    if base == "barrier":
        return ""
    receive = python_side(case, "recv")
    if base == "bcast":
        return f"{receive}, root"
    at_root = base in AT_ROOT_ONLY
    if case.in_place:
        placeholder = "MPI.IN_PLACE"
        if base.startswith("scatter"):
            receive = f"{placeholder} if rank == root else {receive}"
        else:
            if base.startswith("reduce_scatter"):  # in place, the receive buffer has the send size
                receive = python_side(case, "send").replace("S", "R", 1)
            send = f"{placeholder} if rank == root else {send}" if at_root else placeholder
    if base in ("gather", "gatherv", "reduce"):
        receive = f"{receive} if rank == root else None"
    if base.startswith("scatter"):
        send = f"{send} if rank == root else None"
    words = [send, receive]
    if base == "reduce_scatter":
        words.append("[1, 2]")
    if "reduce" in base or "scan" in base:
        words.append("MPI.SUM")
    return ", ".join([*words, "root"] if at_root else words)


def python_program(chosen: Sequence[Case]) -> str:
    """Return the mpi4py program that makes these calls, all in the function `main`."""
    lines = [PYTHON_HEAD.format(room=ROOM, any=ANY, root=ROOT_RANK).rstrip("\n")]
    for case in chosen:
        f = case.function
        stem = f.name.removeprefix("MPI_")
        result = "" if f.form == "blocking" else "pending = "
        call = f"{case.communicator}.{stem}({python_arguments(case)})"
        lines += [f"    prepare({case.starts_in})", f"    {result}{call}  # @{case.number}@"]
        if f.form == "persistent":
            lines.append("    pending.Start()")
        if f.form != "blocking":
            lines.append("    pending.Wait()")
        if f.form == "persistent":
            lines.append("    pending.Free()")
        lines.append(f'    check("{stem}", {case.result(0)}, {case.result(1)})')
    return "\n".join(lines) + PYTHON_TAIL
