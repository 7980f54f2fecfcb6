"""A second preloaded tool that measures every MPI call, made from the MPI's own mpi.h.

It is an independent reference for the ledger: it lies between mpiprof and the library, has no code
in common with mpiprof, and writes the begin and end of each call to one file per process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpiprof.trace.types import Array
from support.compilation import BUILT, compiled, digest
from support.jobs import run
from support.mpis import Mpi

CALL = np.dtype(
    [
        *(("enter_ns", "<i8"), ("exit_ns", "<i8")),
        *(("function", "<u4"), ("task", "<u4"), ("error", "<i8")),
    ]
)
CAPACITY = 1 << 20
MOST_TEXTS = 4  # of a function's arguments
# Ends of the names of Fortran functions that call PMPI_*. The others call MPI_*.
FORTRAN_ENDINGS = {"mpich": ("_f08_",), "openmpi": ("_", "_f08_")}
RUNTIME = """\
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct call { int64_t enter_ns, exit_ns; uint32_t function, task; int64_t error; };
static struct call *calls;
static atomic_uint used;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *next_function(const char *name)
{
    static const char *const libraries[] = {"libmpi.so.12", "libmpich.so.12", "libmpi.so.40"};
    void *found = dlsym(RTLD_NEXT, name);
    for (unsigned i = 0; found == NULL && i < 3; i++) {
        void *const library = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
        found = library != NULL ? dlsym(library, name) : NULL;
    }
    return found;
}

static void open_file(void)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/calls-%d", getenv("CALL_CLOCK"), (int)getpid());
    const int file = open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, CAPACITY * (off_t)sizeof *calls) != 0)
        abort();
    calls = mmap(NULL, CAPACITY * sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

static void note_call(unsigned function, int64_t enter_ns, int error)
{
    const int64_t exit_ns = now_ns();
    const unsigned i = calls != NULL ? atomic_fetch_add(&used, 1) : CAPACITY;
    if (i < CAPACITY)
        calls[i] = (struct call){enter_ns, exit_ns, function, (uint32_t)syscall(SYS_gettid), error};
}
"""
WRAPPER = """
{result}
{{
    static __typeof__(P{name}) *next;
    if (next == NULL)
        next = (__typeof__(P{name}) *)next_function("P{name}");
    const int64_t enter_ns = now_ns();
    const int returned_error = next({arguments});
    {note}
    return returned_error;
}}
"""
# All arguments are addresses, the last is that of the error, which mpi_f08 may omit. Lengths of
# texts follow.
FORTRAN_WRAPPER = """
void {symbol}({parameters})
{{
    static void (*next)({parameters});
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "{symbol}");
    const int64_t enter_ns = now_ns();
    next({arguments});
    const int returned_error = a{last} != NULL ? *(int *)a{last} : 0;
    {note}
}}
"""
PROTOTYPE = re.compile(r"\bint\s+(MPI_\w+)\s*\(([^;{]*?)\)\s*(?:__attribute__[^;]*)?;", re.S)
LOCAL_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")


@dataclass(frozen=True)
class CallClock:
    """The library, and the names of its functions by number."""

    library: Path
    functions: list[str]

    def read(self, folder: Path, pid: int) -> Array:
        """Return the calls of a process, by task and time: rows of CALL."""
        calls = np.fromfile(folder / f"calls-{pid}", CALL)
        calls = calls[calls["exit_ns"] > 0]
        return calls[np.lexsort((calls["enter_ns"], calls["task"]))]


def select_outermost(calls: Array) -> Array:
    """Return the calls that are not made by a callback within another of them."""
    outermost = []
    for task in np.unique(calls["task"]).tolist():
        made = calls[calls["task"] == task]
        ended_ns = np.maximum.accumulate(np.append(0, made["exit_ns"]))[:-1]
        outermost.append(made[made["enter_ns"] >= ended_ns])
    return np.concatenate([calls[:0], *outermost])


def build_call_clock(mpi: Mpi, *, fortran: bool = False) -> CallClock:
    """Compile the library for an MPI; fortran: also for the functions of its Fortran libraries."""
    header = BUILT / "call_clock" / "header.c"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text("#include <mpi.h>\n")
    text = run([mpi.mpicc, "-E", "-P", header], check=True).stdout
    found = dict(PROTOTYPE.findall(text))
    wrapped = {
        name: " ".join(parameters.split())
        for name, parameters in found.items()
        if "..." not in parameters and not name.startswith("MPI_Abi_")  # some lack the P-form
    }
    names = sorted(wrapped)
    lines = [RUNTIME.replace("CAPACITY", str(CAPACITY))]
    for number, name in enumerate(names):
        arguments = _list_arguments(wrapped[name])
        note = f"note_call({number}, enter_ns, returned_error);"
        if name.startswith("MPI_Init") or name == "MPI_Session_init":
            note = "if (calls == NULL)\n        open_file();"
        result = f"int {name}({wrapped[name]})"
        lines.append(
            WRAPPER.format(name=name, result=result, arguments=", ".join(arguments), note=note)
        )
        begins = name in ("MPI_Init", "MPI_Init_thread")  # without a command line in Fortran
        if fortran:
            hidden = MOST_TEXTS if "char *" in wrapped[name] else 0
            count = len(arguments) + (-1 if begins else 1)
            for ending in FORTRAN_ENDINGS[mpi.name]:
                symbol = name.lower() + ending
                lines.append(_make_fortran_wrapper(symbol, note, count, hidden))
    source = BUILT / "call_clock" / f"{mpi.name}-{digest([mpi.mpicc, *lines])}.c"
    source.write_text("".join(lines))
    flags = ("-D_GNU_SOURCE", "-shared", "-fPIC", "-w", "-O1")
    return CallClock(compiled(mpi, source, *flags), names)


def _make_fortran_wrapper(symbol: str, note: str, count: int, hidden: int) -> str:
    """Return a wrapper of a Fortran function. hidden: at most so many lengths of texts follow."""
    names = [f"a{i}" for i in range(count + hidden)]
    parameters = ", ".join(f"void *{argument}" for argument in names)
    fields = {"symbol": symbol, "note": note, "last": count - 1}
    return FORTRAN_WRAPPER.format(parameters=parameters, arguments=", ".join(names), **fields)


def _list_arguments(parameters: str) -> list[str]:
    """Return the names of parameters; those of mpi.h have a name each."""
    if parameters in ("void", ""):
        return []
    names = []
    for parameter in parameters.split(","):
        match = LOCAL_NAME.search(parameter)
        assert match is not None, parameters
        names.append(match.group(1))
    return names
