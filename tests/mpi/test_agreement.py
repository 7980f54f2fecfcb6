"""Every value that decides a choice is agreed on the communicator on which it is used."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support import PROGRAMS, ROOT, raw_trace
from support.compilation import BUILT, compiled, core_built
from support.jobs import run, run_mpi
from support.mpis import LONG_WITH_MPICH, SLOW_WITH_MPICH, Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.interface.installation import library_folder
from mpiprof.launch import options

SPECS = ["allreduce=ring", "auto", "random:5"]


def wrapped(folder: Path, *words: str | Path) -> list[str]:
    """Return the command line that records a program into a folder named trace."""
    end = words.index("--")
    return prepare_run(["-o", folder / "trace", *words[:end]], words[end + 1 :])


def messages(stderr: str) -> list[str]:
    """Return the recorder's messages without the line that names the trace."""
    lines = [line.removeprefix("mpiprof: ") for line in stderr.splitlines() if "mpiprof: " in line]
    return [line for line in lines if not line.startswith(("trace of", "next:"))]


@pytest.mark.parametrize("order", ["halves", "nested"])
@pytest.mark.parametrize("spec", ["bcast=circulant", "bcast=chain", "random:3"])
def test_groups_that_begin_apart_on_4_ranks(
    spec: str, order: str, mpi: Mpi, tmp_path: Path
) -> None:
    """Under Sessions, each group measures its own link, on which the block sizes depend."""
    program = compiled(mpi, "sessions_halves.c", "-O1")
    words = wrapped(tmp_path, "--switch", spec, "--", program, order)
    run_mpi(mpi, 4, words, cwd=tmp_path, check=True)
    table = mpiprof.open(tmp_path / "trace").callsites
    ran = {str(name) for name in table.loc[table["operation"] == "bcast", "algorithm"]}
    if "=" in spec:
        assert ran == {spec.partition("=")[2]}


@pytest.fixture(scope="module")
def other_build(mpi: Mpi) -> Path:
    """Build an MPI's library with two algorithms fewer in the catalogue; returns its path."""
    core = BUILT / "fewer-algorithms-source" / "mpiprof" / "core"
    shutil.rmtree(core.parent, ignore_errors=True)
    shutil.copytree(ROOT / "mpiprof" / "core", core, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "mpiprof" / "facts", core.parent / "facts")
    catalogue = core / "schedule" / "algorithms" / "catalogue.h"
    lines = catalogue.read_text().splitlines(keepends=True)
    left = [line for line in lines if not re.search(r"X\((allreduce_ring|bcast_chain)\)", line)]
    assert len(left) == len(lines) - 2
    unchanged = catalogue.stat()
    catalogue.write_text("".join(left))
    os.utime(catalogue, ns=(unchanged.st_atime_ns, unchanged.st_mtime_ns))  # not built again
    return core_built("fewer-algorithms", mpi, source=core)


RULES = {
    "forced": {"MPIPROF_SWITCH": "allreduce ring 0 -1;bcast chain 0 -1"},
    "random": {"MPIPROF_SWITCH": "random 5"},
    "auto": {"MPIPROF_AUTO": "1"},
    "summary": {"MPIPROF_RECORD": "summary"},
}


@pytest.mark.slow
@LONG_WITH_MPICH
@pytest.mark.parametrize("rule", RULES)
def test_two_builds_in_one_job_of_2_or_3_ranks(
    rule: str, other_build: Path, mpi: Mpi, tmp_path: Path
) -> None:
    """Rank 1 has another catalogue, as after an upgrade of the environment during a job."""
    program = compiled(mpi, "communicators_exhausted.c", "-O1")
    choose = 'case "$PMI_RANK$OMPI_COMM_WORLD_RANK" in 1) mine=$1;; *) mine=$2;; esac\n'
    start = 'shift 2; export LD_PRELOAD="$mine" MPIPROF_LIBRARY="$mine"; exec "$@"'
    script = ["sh", "-c", choose + start, "sh"]
    ranks = 2 if mpi.name == "mpich" else 3  # MPICH's ranks do not yield the two processors
    ours = library_folder() / other_build.name
    values = RULES[rule] | {"MPIPROF_TRACE": str(tmp_path / "trace")}
    words = [str(program), "3", "400"]
    ended = run_mpi(mpi, ranks, [*script, other_build, ours, *words], env=values, check=True)
    assert ended.stdout == "3 right\n"
    assert messages(ended.stderr) == [
        "no algorithm is selected, and no arrival statistics are computed: the ranks have "
        "different options or different versions of mpiprof"
    ]
    values["MPIPROF_TRACE"] = str(tmp_path / "alike")
    alike = run_mpi(mpi, ranks, [*script, ours, ours, *words], env=values, check=True)
    assert alike.stdout == "3 right\n"
    assert "no algorithm is selected" not in alike.stderr


def number_of(folder: Path, files: list[str], settings: str) -> str:
    """Return the fingerprint of a build of these files."""
    init = ROOT / "mpiprof" / "core" / "init"
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or "cmake"
    hashes = folder / "sources.sha256"
    given = [f"-DFILES={';'.join(files)}", f"-DFOLDER={folder}", f"-DOUTPUT={hashes}"]
    run([cmake, *given, "-P", init / "source_hashes.cmake"], check=True)
    given = [f"-DHASHES={hashes}", f"-DSETTINGS={settings}", f"-DOUTPUT={folder}/number"]
    run([cmake, *given, "-P", init / "fingerprint.cmake"], check=True)
    return (folder / "number").read_text()


def test_each_file_and_setting_changes_the_number_of_a_build(tmp_path: Path) -> None:
    names = ["a.c", "b.h", "wrappers.py"]
    for name in names:
        (tmp_path / name).write_text(name)
    numbers = {number_of(tmp_path, names, "gcc 12")}
    assert numbers == {number_of(tmp_path, names, "gcc 12")}
    numbers.add(number_of(tmp_path, names, "gcc 13"))
    for name in names:
        (tmp_path / name).write_text(name + " ")
        numbers.add(number_of(tmp_path, names, "gcc 12"))
    assert len(numbers) == 2 + len(names)


# Modules that wrappers.py imports.
GENERATOR = (
    *("collectives", "local_bodies", "other_functions", "poll_bodies", "symbol_tables"),
    "wrapper_bodies",
)


def test_a_build_is_numbered_by_all_that_is_compiled() -> None:
    """All files that CMake compiles, includes or runs are below the folder that it globs."""
    core = ROOT / "mpiprof" / "core"
    lists = (core / "CMakeLists.txt").read_text()
    assert "*.c *.h *.py *.cmake *.ld CMakeLists.txt" in lists
    tables = ("operations", "datatypes", "library_algorithms", "library_table")
    files = [f"../facts/{table}.py" for table in tables]
    listed = re.search(r"set\(TABLES (.+?)\)", lists, re.DOTALL)
    assert listed and listed[1].split() == files
    assert "list(APPEND MADE_OF ${TABLES})" in lists
    imported = {
        name
        for path in (core / "generator").glob("*.py")
        for name in re.findall(r"from mpiprof\.(\S+) import", path.read_text())
    }
    assert imported == {
        *(f"core.generator.{name}" for name in GENERATOR),
        *(f"facts.{table}" for table in tables),
    }
    included = {
        name
        for path in core.rglob("*.[ch]")
        for name in re.findall(r'#include "(.+?)"', path.read_text())
    }
    made = {"natives.h", "build.h"}  # generated by wrappers.py and fingerprint.cmake
    known = {path.name for path in core.rglob("*.h")} | made
    assert {Path(name).name for name in included} <= known


def test_the_environment_is_read_in_one_module() -> None:
    """Every environment variable is listed with a flag that says if ranks are compared by it.

    A variable without an entry fails the test. tracefile/library_settings.c reads the variables of
    the library and the launcher for meta.json, and the rank, so that one process reports common
    facts.
    """
    core = ROOT / "mpiprof" / "core"
    readers = {path.name for path in core.rglob("*.c") if "getenv(" in path.read_text()}
    assert readers == {"options.c", "library_settings.c"}
    assert "MPIPROF_" not in (core / "tracefile/library_settings.c").read_text().replace(
        "MPIPROF_ABI", ""
    )
    read = re.findall(r"X\(([A-Z_]+), .+, (true|false)\)", (core / "init/options.c").read_text())
    requested = {name.upper() for name in options.recorder_option_names()}
    given = re.findall(r'"MPIPROF_([A-Z_]+)"', Path(options.__file__).read_text())
    for_tests = {"ALIKE", "NODE", "NODE_FILES_ABOVE", "RUNS", "WHERE_PERIOD"}
    assert {name for name, _ in read} == {*requested, *given, *options.JOB_VARIABLES} | for_tests


@pytest.mark.parametrize("spec", [*SPECS, "summary"])
def test_1900_duplicates_on_2_ranks(spec: str, mpich: Mpi, tmp_path: Path) -> None:
    """As many duplicates work as in the bare program, though each could have a private one.

    The communicator that is used most gets a private one.
    """
    program = compiled(mpich, "communicators_exhausted.c", "-O1")
    option = ["--record", "summary"] if spec == "summary" else ["--switch", spec]
    words = wrapped(tmp_path, *option, "--", program, "1900", "600")
    ended = run_mpi(mpich, 2, words, check=True)
    assert ended.stdout == "1900 right\n"
    retained = r"\d+ communicators were left to the library: other communicators use the 64 "
    lines = [line for line in messages(ended.stderr) if re.match(retained, line)]
    assert len(lines) == (spec == "allreduce=ring" or spec.startswith("random"))
    if spec == "allreduce=ring":
        events = mpiprof.open(tmp_path / "trace").instances
        last = events.groupby("communicator").size().idxmax()
        names = events.loc[events["communicator"] == last, "algorithm"].astype(str)
        assert (names == "ring").sum() > 500


@SLOW_WITH_MPICH
@pytest.mark.parametrize("spec", SPECS)
def test_error_handlers_stay_on_2_ranks(spec: str, mpi: Mpi, tmp_path: Path) -> None:
    """A thread sees the program's own error handler at every moment."""
    program = compiled(mpi, "errors_handler_unchanged.c", "-pthread")
    ended = run_mpi(mpi, 2, wrapped(tmp_path, "--switch", spec, "--", program), check=True)
    assert ended.stdout == "0 times another handler\n"


def test_the_recorder_sets_no_error_handler_of_the_program() -> None:
    """Error handlers are set on the recorder's own communicators only, where these are created."""
    core = ROOT / "mpiprof" / "core"
    users = {p.name for p in core.rglob("*.c") if "pmpi.Comm_set_errhandler(" in p.read_text()}
    assert users == {"algorithm_comms.c", "lifecycle.c", "private_comm.c", "argument_check.c"}


@pytest.mark.parametrize(
    "options", [["--switch", s] for s in SPECS] + [["--record", "summary"], []]
)
def test_revoked_on_3_ranks(options: list[str], openmpi: Mpi, tmp_path: Path) -> None:
    """If processes may fail, the library runs all calls and reports the failure to waiters."""
    program = compiled(openmpi, "communicators_revoked.c", "-O1")
    launcher, *rest = openmpi.mpiexec(3)
    words = [launcher, "--with-ft", "ulfm", *rest]
    own = [program, tmp_path / "signs"]
    ended = run([*words, *wrapped(tmp_path, *options, "--", *own)], check=True)
    assert ended.stdout.splitlines() == ["revoked, 3 of 3"] * 3
    lines = [line for line in messages(ended.stderr) if "survive failures" in line]
    assert len(lines) == (len(options) > 0)


@pytest.mark.parametrize("spec", ["allreduce=ring,bcast=binomial", "auto", "random:9"])
def test_threads_share_the_private_communicators_on_3_ranks(
    spec: str, openmpi: Mpi, tmp_path: Path
) -> None:
    """120 communicators, four threads at once: private communicators are created and evicted."""
    program = compiled(openmpi, "communicators_private_limit.c", "-pthread")
    words = wrapped(tmp_path, "--switch", spec, "--", program, "4", "30", "60")
    ended = run_mpi(openmpi, 3, words, check=True)
    assert ended.stdout == "0 wrong\n"
    # Without eviction, no communicator in use would have a private one in the end. With it, one may
    # still lack its own: a vote fails while a call uses the victim, and is repeated rarely.
    if "=" in spec:
        table = mpiprof.open(tmp_path / "trace").instances.sort_values("first_arrival_ns")
        names = table.loc[table["operation"] == "allreduce", "algorithm"].astype(str)
        assert (names.iloc[-400:] == "ring").mean() > 0.5


def recorded(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a trace folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options, "--"]


def test_machine_table_on_one_rank_only(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, one with a machine table: both must agree on whether to measure."""
    program = str(compiled(mpi, "communicators_reused_handles.c"))
    table = tmp_path / "table.json"
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "measured"), program, "1"], check=True)
    machine = json.loads((tmp_path / "measured" / "meta.json").read_text())["machine"]
    table.write_text(json.dumps(machine | {"source": "calibrate"}))
    for first in (True, False):
        trace = tmp_path / f"trace-{first}"
        given = recorded(mpi, trace, "--machine", str(table))
        words = [given, recorded(mpi, trace)] if first else [recorded(mpi, trace), given]
        ranks = [[*part, program, "1"] for part in words]
        run([*mpi.mpiexec(1), *ranks[0], ":", "-n", "1", *ranks[1]], check=True)
        measured = json.loads((trace / "meta.json").read_text())["machine"]["source"]
        assert measured == ("calibrate" if first else "init")


@LONG_WITH_MPICH
def test_rank_0_arrives_after_the_others_have_stopped_waiting(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: the ranks that stopped waiting and the late rank agree not to communicate."""
    program = str(compiled(mpi, "communicators_reused_handles.c"))
    slow = tmp_path / "slow.so"
    run(
        [mpi.mpicc, "-shared", "-fPIC", "-o", slow, PROGRAMS / "tracefile_slow_mkdir.c"], check=True
    )
    words = recorded(mpi, tmp_path / "trace-of-slow")
    names = [f"LD_PRELOAD={slow}", f"SLOW_UNTIL={tmp_path / 'given-up'}"]
    run_mpi(mpi, 3, ["env", *names, *words, program, "200"], check=True)
    assert (tmp_path / "given-up").exists()
    trace = raw_trace.read(tmp_path / "trace-of-slow")
    assert [len(trace.of(rank)) for rank in range(3)] == [2, 2, 2]
    assert len({tuple(r.identity for r in trace.of(rank)) for rank in range(3)}) == 1
    meta = json.loads((tmp_path / "trace-of-slow" / "meta.json").read_text())
    assert meta["options"]["partial"]
