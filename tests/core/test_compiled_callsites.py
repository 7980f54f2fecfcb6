"""Call sites of compiled programs appear by file and line in all output."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import PROGRAMS, raw_trace
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.trace_tables import table_rows

import mpiprof
from mpiprof.__main__ import main
from mpiprof.trace.sites import label_site

pytestmark = pytest.mark.slow


def line_of(source: str, text: str) -> str:
    """Return the location of the only line with a given text."""
    lines = (PROGRAMS / source).read_text().splitlines()
    return f"{source}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-o", str(trace), *options, "--"]


def exchange(mpi: Mpi, folder: Path, *options: str) -> str:
    """Compile the C++ program and its library, which it loads by a relative name."""
    compiler, source = str(mpi.bin / f"mpicxx{mpi.suffix}"), str(PROGRAMS / "callsite_template.cpp")
    library = folder / "liblayer.so"
    run([compiler, "-O1", "-fPIC", "-shared", "-DLAYER", "-o", library, source], check=True)
    words = [compiler, "-g", "-O2", *options, "-o", "exchange", source, "./liblayer.so"]
    run(words, cwd=folder, check=True)
    return str(folder / "exchange")


@pytest.mark.parametrize("options", [["-fPIE", "-pie"], ["-no-pie", "-gdwarf-4"]], ids=str)
def test_a_plan_of_a_compiled_program_names_lines(
    options: list[str], mpi: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 3 ranks: the report and a plan of the choices have the lines, and the plan works."""
    program, place = (
        exchange(mpi, tmp_path, *options),
        line_of("callsite_template.cpp", "MPI_Alltoall("),
    )
    plan, found_plan, trace = tmp_path / "plan.json", tmp_path / "found.json", tmp_path / "trace"
    plan.write_text(json.dumps([{"operation": "alltoall", "algorithm": "ring", "why": "a test"}]))
    words = [*words_for(mpi, trace, "--switch", f"{plan},auto"), program, "40"]
    run_mpi(mpi, 3, words, cwd=tmp_path, check=True)
    assert main(["report", str(trace), "--all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"alltoall of 512 B at {place} \w+.*? on 3 ranks: ring\.", shown)
    assert main(["tune", str(trace), "--found", "-o", str(found_plan)]) == 0
    entry = json.loads(found_plan.read_text())[0]
    assert (entry["call_sites"], entry["algorithm"]) == ([place], "ring")

    again = words_for(mpi, tmp_path / "again", "--switch", str(found_plan), "--strict-plan")
    run_mpi(mpi, 3, [*again, program, "5"], cwd=tmp_path, check=True)
    table = mpiprof.open(tmp_path / "again").instances
    calls = table[table["operation"] == "alltoall"]
    assert calls["algorithm"].astype(str).tolist() == ["ring"] * 5


def test_a_library_is_named_by_itself_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """The library's name was relative; it has no line table, but a C++ symbol."""
    program, trace = exchange(mpi, tmp_path), tmp_path / "trace"
    run_mpi(mpi, 2, [*words_for(mpi, trace), program, "1"], cwd=tmp_path, check=True)
    frame = next(r.frames[0] for r in raw_trace.read(trace).of(0) if r.operation == "barrier")
    assert frame["module"] == str(tmp_path / "liblayer.so")
    table = mpiprof.open(trace).callsites.set_index("operation")["sites"]
    assert re.fullmatch(r"liblayer.so layer::sync\+0x[0-9a-f]+", label_site(table["barrier"][0]))
    assert label_site(table["alltoall"][0]).startswith(
        line_of("callsite_template.cpp", "MPI_Alltoall(")
    )


def test_a_fortran_line_is_one_call_site_on_2_ranks(system_mpi: Mpi, tmp_path: Path) -> None:
    """The compiler made several calls of one line, and a plan matches all of them."""
    program, trace = tmp_path / "slices", tmp_path / "trace"
    words = ["-g", "-O2", "-fno-inline", "-fPIE", "-pie", "-o", str(program)]
    run([system_mpi.mpifort, *words, PROGRAMS / "callsite_slices.f90"], cwd=tmp_path, check=True)
    place = line_of("callsite_slices.f90", "call MPI_Bcast")
    given = ["--switch", f"{place}=binomial"]
    run_mpi(system_mpi, 2, [*words_for(system_mpi, trace, *given), str(program)], check=True)
    if system_mpi.name == "mpich":  # with Open MPI's interfaces it makes one call
        assert len({r.frames[0]["offset"] for r in raw_trace.read(trace).of(0)}) > 1
    opened = mpiprof.open(trace)
    table = table_rows(opened.callsites)
    assert table["instances"].tolist() == [200]
    assert next(label_site(site) for site in table["sites"][0]).startswith(place)
    assert set(table_rows(opened.instances)["algorithm"].astype(str)) == {"binomial"}
