"""Names of wrapped functions, and natives.h: numbers of routines and operations, and facts."""

from __future__ import annotations

from collections.abc import Callable

from mpiprof.core.generator.collectives import COLLECTIVES, LEVELS, Function, functions
from mpiprof.facts.datatypes import DATATYPES, REDUCTIONS, Datatype, Reduction
from mpiprof.facts.library_algorithms import NEEDS, find_algorithms
from mpiprof.facts.library_table import MPICH, OPENMPI
from mpiprof.facts.operations import (
    FILE_OPERATIONS,
    LOCAL_OPERATIONS,
    MANAGEMENT_COLLECTIVES,
    MESSAGE_OPERATIONS,
    ONE_SIDED_OPERATIONS,
    OPERATIONS,
    Operation,
    WaitRule,
)

FORMS = ("blocking", "nonblocking", "persistent")


def has(function: Function, kind_or_name: str) -> bool:
    return any(kind_or_name in (p.name, p.kind) for p in function.parameters)


def operation_name(operation: str, form: str) -> str:
    """Return MPI's name in lower case: allreduce, iallreduce, allreduce_init."""
    prefix = "i" if form == "nonblocking" else ""
    return f"{prefix}{operation}{'_init' if form == 'persistent' else ''}"


def has_buffer(function: Function) -> bool:
    """Return True if it takes a choice buffer, for which MPICH's f08 layer passes a descriptor."""
    return any(p.kind in ("cbuf", "buf") for p in function.parameters)


def full_names(function: Function, abi: str) -> list[str]:
    """Return the Fortran entry points that are wrapped in full."""
    stem = function.name.lower()
    if abi == "openmpi":
        # Open MPI 5 names the large-count form of the f08 layer mpi_x_c_f08_.
        if function.large:
            return [f"{stem}_f08_"]
        # A function that returns an address has a form for type(c_ptr) in the mpi module.
        pointer = [f"{stem}_cptr_"] if has(function, "address") else []
        return [f"{stem}_", f"{stem}_f08_", *pointer]
    if abi == "mpich" and not has_buffer(function):
        return [f"{stem.removesuffix('_c')}_f08_large_" if function.large else f"{stem}_f08_"]
    return []


def thin_names(function: Function, abi: str) -> list[str]:
    """Return the Fortran entry points that only record their caller and call a wrapped C name."""
    stem = function.name.lower()
    if abi != "mpich" or not function.operation:
        return []
    if function.large:
        return [f"{stem.removesuffix('_c')}_f08ts_large_"] if has_buffer(function) else []
    return [f"{stem}_", f"{stem}_f08ts_"] if has_buffer(function) else [f"{stem}_"]


def aliases(name: str) -> list[str]:
    """Return other compilers' spellings of mpi_x_: two underscores, none, and capitals."""
    return [f"{name}_", name[:-1], name[:-1].upper()] if name.count("_f08") == 0 else []


def facts(fact: Callable[[Operation], str], macro: str, otherwise: str = "0") -> list[str]:
    """Return the lines of a macro with a fact about each blocking collective.

    otherwise: for the other forms, which wait for no rank in the call and are never selected.
    """
    values = [v for o in OPERATIONS.values() for v in (fact(o), otherwise, otherwise)]
    return [f"#define {macro} \\", *(f"    {value}, \\" for value in values), ""]


def handle_value(row: Datatype | Reduction, abi: str) -> str:
    """Return a predefined handle: its symbol in Open MPI, else its value."""
    if abi == "openmpi":
        return f'"ompi_mpi_{row.openmpi}"'
    return f"{row.mpich if abi == 'mpich' else row.abi:#x}"


def predefined(abi: str) -> list[str]:
    """Return the lines of two lists: datatypes with handles and sizes (-1: ask MPI), reductions."""
    types = [
        f'    X("{name}", {handle_value(row, abi)}, {-1 if row.default else row.size}) \\'
        for name, row in DATATYPES.items()
    ]
    reductions = [
        f'    X("{name}", {handle_value(row, abi)}, 0) \\' for name, row in REDUCTIONS.items()
    ]
    heads = ("#define PREDEFINED_TYPES(X) \\", "#define PREDEFINED_REDUCTIONS(X) \\")
    return [heads[0], *types, "", heads[1], *reductions, ""]


def own_algorithms(abi: str) -> list[str]:
    """Return the lines of two lists: needs of algorithms, and algorithms of an ABI's library."""
    library = OPENMPI if abi == "openmpi" else MPICH
    needs = [f'    X({word}, "{text}") \\' for word, text in NEEDS.items()]
    rows = []
    for operation in OPERATIONS:
        for algorithm in find_algorithms(library, operation):
            if algorithm.is_selectable:
                words = " | ".join(f"1U << NEED_{word}" for word in algorithm.requirements) or "0"
                segmented = str(algorithm.is_segmented).lower()
                names = f'{operation}, "{algorithm.name}", {algorithm.selected_by}'
                rows.append(f'    X({names}, {words}, {segmented}, "{algorithm.similar_name}") \\')
    return ["#define OWN_NEEDS(X) \\", *needs, "", "#define OWN_ALGORITHMS(X) \\", *rows, ""]


def natives_header(abi: str) -> str:
    """Return the header with the list of native routines and the names of the operations.

    It covers the last level, because the code compiled with it serves libraries of all levels.
    """
    names = ["MPI_Pcontrol"]
    for function in functions(LEVELS[-1]):
        names.append(function.name)
        names += full_names(function, abi) + thin_names(function, abi)
    lines = ["/* written by wrappers.py */", "#pragma once", "enum native {"]
    lines += [f"    NATIVE_{name}," for name in names]
    lines += ["    NATIVE_COUNT", "};"]
    lines += [f"#define NATIVE_NAME_BYTES {max(map(len, names)) + 1}", "#define NATIVE_NAMES \\"]
    lines += [f'    "{name}", \\' for name in names]
    operations = [operation_name(name, form) for name in COLLECTIVES for form in FORMS]
    operations += (*MANAGEMENT_COLLECTIVES, *MESSAGE_OPERATIONS, *LOCAL_OPERATIONS)
    lines += ["", "enum operation {", *(f"    OP_{operation}," for operation in operations)]
    lines += ["    OP_COUNT,", f"    OP_COLLECTIVES = OP_{MANAGEMENT_COLLECTIVES[0]},"]
    lines += [f"    OP_MESSAGES = OP_{MESSAGE_OPERATIONS[0]},"]
    lines += [f"    OP_LOCAL = OP_{LOCAL_OPERATIONS[0]},"]
    lines += [f"    OP_ONE_SIDED = OP_{ONE_SIDED_OPERATIONS[0]},"]
    lines += [f"    OP_FILES = OP_{FILE_OPERATIONS[0]},"]
    lines += [f"    OP_FILES_END = OP_{FILE_OPERATIONS[-1]} + 1", "};"]
    lines += ["enum wait_rule {", *(f"    WAIT_{rule.name}," for rule in WaitRule), "};"]
    unspecified = f"WAIT_{WaitRule.UNSPECIFIED.name}"
    lines += facts(lambda o: f"WAIT_{o.wait_rule.name}", "OPERATION_WAIT_RULES", unspecified)
    lines += facts(lambda o: str(int(o.reduces)), "OPERATION_REDUCES")
    lines += facts(lambda o: str(int(o.sized)), "OPERATION_SIZED")
    lines += predefined(abi)
    lines += own_algorithms(abi)
    lines += ["#define OPERATION_NAMES \\", *(f'    "{name}", \\' for name in operations)]
    return "\n".join(lines) + "\n\n"
