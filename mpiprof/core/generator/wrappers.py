"""Writes the wrappers of one library into the build folder: natives.h, wrappers.c and fortran.c.

    python -m mpiprof.core.generator.wrappers ABI LEVEL FOLDER

All repetitive code of about 300 entry points is derived from `collectives.py`. Each wrapper records
the call (`call_begin`), runs the native routine with the same arguments, and passes their addresses
on (`call_end`), so that C and Fortran share one interpretation of the arguments.

Open MPI's Fortran library calls PMPI_* directly, so its Fortran names are wrapped in full. So is
MPICH's f08 layer for functions without a choice buffer. The rest of MPICH's Fortran calls the C
names, which are wrapped already. There the wrappers of the collectives only record the caller of
the Fortran layer, which is the frame of the call site.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpiprof.core.generator.collectives import Function, Parameter, functions
from mpiprof.core.generator.symbol_tables import aliases, full_names, natives_header, thin_names
from mpiprof.core.generator.wrapper_bodies import body_lines

# Headers of the functions that the wrappers call.
HEADERS = (
    "base/mpi_types",
    "base/pmpi",
    "executor/library_algorithm",
    "init/init",
    "record/call",
    "record/completion",
    "record/communicator",
    "record/local_call",
    "record/management_collectives",
    "record/poll",
    "selection/dispatch/select",
)


# ---------------------------------------------------------------------------------- C


def c_wrapper(function: Function) -> str:
    """Return one exported MPI_* function."""
    declared = function.declarations()
    call = f"error = native({function.arguments()});"
    lines = [f"PUBLIC {function.prototype()}", "{"]
    lines += [
        f"    int (*const native)({declared}) =",
        f"        (int (*)({declared}))symbol_lookup_get(NATIVE_{function.name});",
        "    int error;",
        "",
        "    if (native == NULL)",
        "        return MPI_ERR_UNSUPPORTED_OPERATION;",
    ]
    lines += [f"    {line}" for line in body_lines(function, False, call)]
    return "\n".join([*lines, "    return error;", "}", ""])


def head(level: str) -> str:
    """Return the beginning of both files of wrappers."""
    lines = ["/* written by wrappers.py */", *[f'#include "{name}.h"' for name in HEADERS]]
    return "\n".join([*lines, f'#define WRAPPED_LEVEL "{level}"', ""])


def c_source(level: str) -> str:
    """Return wrappers.c, the C entry points."""
    return "\n".join([head(level), *[c_wrapper(f) for f in functions(level)]])


# ---------------------------------------------------------------------------------- Fortran


def hidden_lengths(function: Function) -> list[str]:
    """Return the lengths of strings, which Fortran compilers append to the arguments."""
    return [
        f"{p.name}_length"
        for p in function.parameters
        if p.kind in ("string", "out_string", "strings", "strings*")
    ]


def fortran_parameters(function: Function) -> tuple[str, str]:
    """Return the declarations and the arguments of a Fortran wrapper's parameters."""
    # Fortran has no argc and argv.
    parameters: list[Parameter] = [
        p for p in function.parameters if p.kind != "argv_pointer" and p.name != "argc"
    ]
    lengths = hidden_lengths(function)
    declared = [p.fortran() for p in parameters] + ["MPI_Fint *ierror"]
    declared += [f"size_t {name}" for name in lengths]
    return ", ".join(declared), ", ".join([p.name for p in parameters] + ["ierror"] + lengths)


def fortran_entry(name: str, declared: str, body: list[str]) -> list[str]:
    """Return an exported function with its aliases."""
    lines = [f"PUBLIC void {name}({declared})", "{", *(f"    {x}".rstrip() for x in body), "}"]
    lines += [
        f'PUBLIC void {alias}({declared}) __attribute__((alias("{name}")));'
        for alias in aliases(name)
    ]
    return [*lines, ""]


def fortran_full(function: Function, abi: str) -> str:
    """Return one body for a function, and its names."""
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
        body = [
            f"fortran_{stem}((void (*)({declared}))symbol_lookup_get(NATIVE_{name}),",
            f"               CALLER(), {passed});",
        ]
        lines += fortran_entry(name, declared, body)
    return "\n".join(lines)


def fortran_thin(function: Function) -> str:
    """Return a wrapper that records the caller; MPICH's Fortran layer calls the wrapped C name."""
    arguments = [f"a{i}" for i in range(len(function.parameters) + 1)]
    lengths = hidden_lengths(function)
    declared = ", ".join([f"void *{a}" for a in arguments] + [f"size_t {n}" for n in lengths])
    arguments += lengths
    lines = []
    for name in thin_names(function, "mpich"):
        body = [
            f"void (*const native)({declared}) =",
            f"    (void (*)({declared}))symbol_lookup_get(NATIVE_{name});",
            "const void *const outer = fortran_caller_enter(CALLER());",
            "",
            "if (native != NULL)",
            f"    native({', '.join(arguments)});",
            "fortran_caller_leave(outer);",
        ]
        lines += fortran_entry(name, declared, body)
    return "\n".join(lines)


def fortran_source(abi: str, level: str) -> str:
    """Return fortran.c, the Fortran entry points."""
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
