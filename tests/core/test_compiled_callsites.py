"""Call sites of compiled programs appear by file and line in all output."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from support import PROGRAMS, ROOT, raw_trace
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.trace_tables import table_rows
from support.wait_until import HANG_S

import mpiprof
from mpiprof.reports import selector_report
from mpiprof.trace.sites import site_label

CORE = ROOT / "mpiprof" / "core"
READER = CORE / "callsite" / "dwarf_line.c"
SANITIZED = ["-std=c11", "-D_GNU_SOURCE", "-g", "-fsanitize=address,undefined"]


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
    options: list[str], mpi: Mpi, tmp_path: Path
) -> None:
    """On 3 ranks: --explain, choices.jsonl and --plan-out have the lines, and the plan works."""
    program, place = (
        exchange(mpi, tmp_path, *options),
        line_of("callsite_template.cpp", "MPI_Alltoall("),
    )
    plan, found, trace = tmp_path / "plan.json", tmp_path / "found.json", tmp_path / "trace"
    plan.write_text(json.dumps([{"operation": "alltoall", "algorithm": "ring", "why": "a test"}]))
    given = ["--switch", f"{plan},auto", "--explain", "--plan-out", str(found)]
    ended = run_mpi(
        mpi, 3, [*words_for(mpi, trace, *given), program, "40"], cwd=tmp_path, check=True
    )
    assert f"alltoall of 512 bytes at {place}: ring" in ended.stderr
    assert selector_report.keys(mpiprof.open(trace))[0]["sites"] == [place]
    entry = json.loads(found.read_text())[0]
    assert (entry["call_sites"], entry["algorithm"]) == ([place], "ring")

    again = words_for(mpi, tmp_path / "again", "--switch", str(found), "--strict-plan")
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
    assert re.fullmatch(r"liblayer.so layer::sync\+0x[0-9a-f]+", site_label(table["barrier"][0]))
    assert site_label(table["alltoall"][0]).startswith(
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
    assert next(site_label(site) for site in table["sites"][0]).startswith(place)
    assert set(table_rows(opened.instances)["algorithm"].astype(str)) == {"binomial"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's line table reader with the sanitizers."""
    program = tmp_path_factory.mktemp("lines") / "lines"
    sources: list[str | Path] = [f"-I{CORE}", PROGRAMS / "callsite_dwarf_lines.c", READER]
    run(["gcc", *SANITIZED, "-o", program, *sources], check=True)
    return program


def answers(reader: Path, module: Path, offsets: list[int]) -> list[str]:
    requested = subprocess.run(
        [reader, module],
        input="\n".join(map(hex, offsets)),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert requested.returncode == 0, requested.stderr[-2000:]
    return requested.stdout.split()


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("place", ["-pie", "-no-pie"])
def test_lines_are_those_of_addr2line(
    version: int, place: str, reader: Path, tmp_path: Path
) -> None:
    """The lines agree for every fourth byte of a program's code."""
    program = tmp_path / "program"
    flags = [f"-gdwarf-{version}", "-O2", "-fPIE" if place == "-pie" else "-fno-pie", place]
    sources: list[str | Path] = [f"-I{CORE}", PROGRAMS / "callsite_dwarf_lines.c", READER]
    run(["gcc", "-std=c11", "-D_GNU_SOURCE", *flags, "-o", program, *sources], check=True)
    head = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True, check=True)
    row = next(line.split("]")[1].split() for line in head.stdout.splitlines() if " .text " in line)
    first, size = int(row[2], 16), int(row[4], 16)
    addresses = list(range(first, first + size, 4))
    requested = subprocess.run(
        ["addr2line", "-e", program],
        input="\n".join(map(hex, addresses)),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [
        re.sub(r" \(.*", "", line).rpartition("/")[2] for line in requested.stdout.splitlines()
    ]
    base = 0x400000 if place == "-no-pie" else 0
    found = answers(reader, program, [address - base for address in addresses])
    known = [(e, f) for e, f in zip(expected, found, strict=True) if not re.search(r":[0?]$|\?", e)]
    assert len(known) > 500
    assert [e for e, _ in known] == [f for _, f in known]


def test_damaged_line_tables_are_survived(reader: Path, tmp_path: Path) -> None:
    """Under the sanitizers: bytes overwritten in the whole file or near its end, or a cut file."""
    program, damaged = tmp_path / "program", tmp_path / "damaged"
    sources: list[str | Path] = [f"-I{CORE}", PROGRAMS / "callsite_dwarf_lines.c", READER]
    run(["gcc", "-D_GNU_SOURCE", "-g", "-O2", "-o", program, *sources], check=True)
    source = program.read_bytes()
    table = source.find(b"callsite_dwarf_lines.c\0")
    offsets = list(range(0x1000, 0x2400, 64))
    for seed in range(60):
        dice, content = random.Random(seed), bytearray(source)
        low = (0, max(table - 600, 0), len(source) - 3000)[seed % 3]
        for _ in range(dice.choice((1, 5, 40))):
            at = dice.randrange(low, len(source))
            content[at] = dice.choice((0, 255, 128, dice.randrange(256)))
        damaged.write_bytes(content[: dice.randrange(len(content))] if seed % 10 == 0 else content)
        answers(reader, damaged, offsets)
