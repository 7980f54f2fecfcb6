"""Every method of mpi4py for Python objects has its name, in calls and in messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import PROGRAMS
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof

PROGRAM = PROGRAMS / "object_methods.py"
METHOD = re.compile(r"^(comm|duplicate|grid|inter)\.([a-z_]+)\(", re.MULTILINE)
PARTS = ("sizes", "data", "messages")
SAME_CALLS = {"scan": "scan or exscan", "exscan": "scan or exscan"}


def list_methods() -> dict[int, str]:
    """Return the methods for objects that the program calls, by line."""
    lines = enumerate(PROGRAM.read_text().splitlines(), 1)
    found = {number: match[2] for number, line in lines if (match := METHOD.match(line))}
    return {number: SAME_CALLS.get(name, name) for number, name in found.items()}


def record_methods(mpi: Mpi, ranks: int, folder: Path, *options: str) -> dict[int, set[str]]:
    """Return the names of methods at each line of the program's record."""
    words: list[str | Path] = [mpi.python, "-m", "mpiprof", "run", "-q", "-o", folder, *options]
    run_mpi(mpi, ranks, [*words, "--", mpi.python, PROGRAM], check=True)
    trace = mpiprof.open(folder)
    found: dict[int, set[str]] = {}
    for sites in trace.callsites["sites"]:
        for site in sites:
            if str(site["file"]).endswith(PROGRAM.name):
                found.setdefault(site["line"], set()).add(site.get("method", ""))
    for label in trace.message_sums["site"]:
        line, _, method = label.partition(", ")
        found.setdefault(int(line.split(":")[1].split()[0]), set()).add(method)
    return found


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_call_has_the_name_of_its_method(mpi: Mpi, ranks: int, tmp_path: Path) -> None:
    found = record_methods(mpi, ranks, tmp_path / "t")
    expected = list_methods()
    for line, method in expected.items():
        names = found.get(line, set()) - {""}  # also creates a communicator, or sends by isend
        if method == "sendrecv":
            assert names == set()
        else:
            assert names, (line, method)
            assert names <= {f"{part} of comm.{method}" for part in PARTS}, (line, method)
    assert not any(of - {""} for line, of in found.items() if line not in expected)


def test_a_broadcast_has_no_name_without_messages(mpi: Mpi, tmp_path: Path) -> None:
    """The program or mpi4py may have made the duplicate."""
    found = record_methods(mpi, 2, tmp_path / "t", "--messages", "off")
    for line, method in list_methods().items():
        names = found.get(line, set()) - {""}
        assert names <= {f"{part} of comm.{method}" for part in PARTS}, (line, method)
