"""Makes every call that a replay makes, with roots and odd sizes, and checks the received data."""

from dataclasses import replace

from mpiprof.collectives.papers.harness.calls import CALL_MAKERS, check, import_mpi
from mpiprof.collectives.papers.harness.case import Case
from mpiprof.collectives.schedule import Problem

comm = import_mpi().COMM_WORLD
p = comm.size
counts = tuple(8 * (i + 1) if i != 1 else 0 for i in range(p))
rows = tuple(tuple(i + 2 * j for j in range(p)) for i in range(p))
sized = Problem(p, 24, root=1, unit=8)
for operation in CALL_MAKERS:
    problem = sized
    if operation in ("allgatherv", "gatherv", "scatterv", "reduce_scatter"):
        problem = replace(sized, bytes=0, counts=counts)
    if operation == "alltoallv":
        problem = Problem(p, rows=rows)
    for unit in (8, 4, 2, 1):
        case = Case({}, operation, "native", replace(problem, unit=unit))
        call = CALL_MAKERS[operation](case, comm)
        call.run()
        check(case, call)
if comm.rank == 0:
    print("right:", len(CALL_MAKERS))
