"""The study of programs: rows from known runs, and one program on two ranks."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run
from support.mpis import Mpi
from support.synthetic import LINK, MACHINE, Synthetic

import mpiprof
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.conditions import list_conditions
from mpiprof.collectives.papers.harness.message_times import (
    Start,
    describe_messages,
    tabulate_messages,
)
from mpiprof.collectives.papers.studies import apps
from mpiprof.collectives.papers.studies.app_programs import APPS, StudyProgram, find_words
from mpiprof.collectives.papers.studies.apps import ALL, FIGURE, WHOLE, Run
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.launch import library
from mpiprof.trace.machine import find_fault


def a_run(whole: float, gather: float, gatherv: float, algorithm: str = "native") -> Run:
    return Run(
        {WHOLE: whole, ALL: gather + gatherv, "allgather": gather, "allgatherv": gatherv},
        {ALL: 300, "allgather": 150},
        {ALL: (3.0, 9.0), "allgather": (2.0, 8.0)},
        {"allgather": algorithm, "allgatherv": algorithm},
    )


MPI = library.Mpi("openmpi", Path("/lib/a.so"), "it is of this test")
APP = StudyProgram("", "", 1, asked=3.0, routines=("allgather", "allgatherv"))
NATIVE = (a_run(10, 6, 2), a_run(12, 7, 3))


def test_the_lines_of_a_program() -> None:
    runs = [NATIVE[0], a_run(5, 2, 1, "kang"), NATIVE[1]]
    rows = {row["routine"]: row for row in apps.rows_of("coupled", runs, APP, judged=True)}
    assert list(rows) == [WHOLE, ALL, "allgather", "allgather + allgatherv"]
    whole, gather = rows[WHOLE], rows["allgather"]
    assert (whole["native s"], whole["native ±"], whole["auto s"]) == (11, 1, 5)
    assert (whole["asked"], whole["holds"]) == ("not slower", "yes")
    assert gather["native / auto"] == pytest.approx(3.25) and gather["algorithm"] == "kang"
    assert (gather["δ/T"], gather["ω/T"], gather["instances"]) == (2.0, 8.0, 150)
    both = rows["allgather + allgatherv"]
    assert both["native / auto"] == pytest.approx(3.0) and both["holds"] == "yes"


def test_the_paper_s_routine_has_columns_where_it_runs() -> None:
    runs = [NATIVE[0], a_run(5, 2, 1), a_run(6, 4, 1, "ring"), NATIVE[1]]
    rows = {row["routine"]: row for row in apps.rows_of("ft", runs, APP, judged=True)}
    assert (rows[WHOLE]["auto s"], rows[WHOLE]["robust s"]) == (5, 6)
    assert rows["allgather"]["native / robust"] == pytest.approx(6.5 / 4)
    assert rows["allgather"]["robust algorithm"] == "ring"
    for quick in (False, True):
        assert APPS["ft"].list_modes(quick=quick) == ("native", "auto", "robust", "native")
    assert APPS["md"].list_modes(quick=False) == ("native", "auto", "native")


def test_a_quick_program_outside_table_12_runs_once() -> None:
    """Its time has no interval, so that two digits are printed, and there is nothing to compare."""
    assert APPS["md"].list_modes(quick=True) == ("native",)
    rows = {r["routine"]: r for r in apps.rows_of("md", [a_run(10.1234, 6, 2)], APP, judged=False)}
    assert list(rows) == [WHOLE, ALL, "allgather"]
    whole = rows[WHOLE]
    assert str(whole["native s"]) == "10" and whole["native ±"] == ""
    assert not {"auto s", "robust s", "asked"} & set(whole)
    assert (rows["allgather"]["δ/T"], rows["allgather"]["instances"]) == (2.0, 150)


def test_the_all_to_all_of_table_12_has_a_row_although_it_is_short() -> None:
    runs = [replace(run, seconds=run.seconds | {"alltoall": 0.1}) for run in (*NATIVE, *NATIVE)]
    rows = apps.rows_of("hydro", runs, replace(APP, robust=True), judged=True)
    (short,) = [row for row in rows if row["routine"] == "alltoall"]
    assert short["native / robust"] == pytest.approx(1) and np.isnan(short["ω/T"])


def test_slower_means_beyond_the_slower_native_run() -> None:
    for auto_s, holds in ((12.3, "yes"), (12.5, "NO")):
        runs = [NATIVE[0], a_run(auto_s, 6, 2), NATIVE[1]]
        whole, *_, both = apps.rows_of("coupled", runs, APP, judged=True)
        assert whole["holds"] == holds and both["holds"] == "NO"
    unjudged = apps.rows_of("coupled", runs, APP, judged=False)[0]
    assert (unjudged["asked"], unjudged["holds"]) == ("(not slower)", "")


def test_programs_count_equally() -> None:
    """Figure 2: 4 instances of one program and 400 of another are half of the distribution each."""
    few = {"≤ 1000 B": [4, 0, 0, 0, 0, 0], "> 1000 B": [0, 0, 0, 0, 0, 0]}
    many = {"≤ 1000 B": [0, 100, 300, 0, 0, 0], "> 1000 B": [0, 0, 0, 0, 0, 7]}
    shares = apps.equal_shares([few, many, {}])
    assert shares == {
        "≤ 1000 B": pytest.approx([0.5, 0.125, 0.375, 0, 0, 0]),
        "> 1000 B": pytest.approx([0, 0, 0, 0, 0, 1]),
    }
    assert apps.equal_shares([{}]) == {}


def test_why_there_is_no_figure_2() -> None:
    run_ = a_run(10, 6, 2)
    assert apps.without_figure([run_]) == "No factors, so no Figure 2: no message was timed."
    disturbed = replace(run_, fault="3.85 ms for an empty message within a node")
    assert apps.without_figure([run_, disturbed]) == (
        "No factors, so no Figure 2: message times are not usable, "
        "3.85 ms for an empty message within a node."
    )


def test_a_failing_program_is_named() -> None:
    with pytest.raises(MpiprofError, match=r"ft.py --switch auto ended with 3"):
        apps.record_run(lambda *_: 3, ["samples/ft.py"], "auto")


def simulated_ranks(started: list[list[str]]) -> Start:
    """Return ranks with a quick measurement at the start that is refused."""

    def start(words: Sequence[str], _: Mapping[str, str]) -> int:
        started.append(list(words))
        output = Path(words[words.index("-o") + 1])
        if "calibrate" in words:
            output.write_text(json.dumps(MACHINE))
            return 0
        table = MACHINE | {"within": LINK | {"spread": [9.0, 9.0, 9.0]}}
        if "--machine" in words:
            table = json.loads(Path(words[words.index("--machine") + 1]).read_text())
        synthetic = Synthetic(2, machine=table)
        synthetic.add_collective("alltoall", [[1000, 401_000]], [[500_000, 500_000]], sent=180_000)
        synthetic.write(output)
        return 0

    return start


@pytest.mark.parametrize("given", [False, True])
def test_factors_come_from_a_calibration_of_the_ranks(
    given: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or from --machine; T of 90,000 B is 100 us, and ω 400 us."""
    file = tmp_path / "given.json"
    file.write_text(json.dumps(MACHINE))
    started: list[list[str]] = []
    options = Options(only=("transpose",), output=tmp_path / "r", machine=file if given else None)
    apps.run(options, simulated_ranks(started), 2, "nowhere", MPI)
    text = capsys.readouterr().out
    assert FIGURE in text and "No factors" not in text
    with (tmp_path / "r.csv").open() as table:
        rows = {row["routine"]: row for row in csv.DictReader(table)}
    assert (float(rows["alltoall"]["ω/T"]), float(rows["alltoall"]["δ/T"])) == (4.0, 2.0)
    with (tmp_path / "r-collectives.csv").open() as table:
        (row,) = csv.DictReader(table)
    assert (row["program"], row["routine"], row["calls"]) == ("transpose", "alltoall", "1")
    assert float(row["message bytes"]) == float(row["most bytes"]) == 90_000
    assert float(row["ω/T"]) == 4.0 and float(row["share of time"]) == 1.0
    with (tmp_path / "r-distribution.csv").open() as table:
        ranges = [(r["messages"], r["ω/T"], r["share"]) for r in csv.DictReader(table)]
    assert ("> 1000 B", "1-8", "1.0") in ranges and len(ranges) == 6
    assert not (tmp_path / "r-instances.csv").exists()  # no routine of `transpose` is followed
    assert ["calibrate" in words for words in started] == [True] * (not given) + [False] * 4
    runs = started[-4:]
    assert ["--machine" in words for words in runs] == [True, False, False, True]
    assert ["--switch" in words for words in runs] == [False, True, True, False]
    assert "robust" in runs[2]


@pytest.mark.parametrize(
    ("installed", "potential", "own", "why"),
    [
        (True, True, MPI, "/opt/lmp is installed"),
        (False, True, MPI, "its stand-in metal.py runs, because LAMMPS is not installed"),
        (True, False, MPI, "its stand-in metal.py runs, because the installed LAMMPS has no "),
        (True, True, replace(MPI, library=Path("/lib/b.so")), "/opt/lmp has another MPI library"),
        (True, True, None, "/opt/lmp has another MPI library than these ranks"),
        (True, True, UsageError("/opt/lmp is statically linked"), "/opt/lmp is statically linked"),
    ],
)
def test_an_installed_lammps_runs_in_place_of_its_stand_in(
    installed: bool,
    potential: bool,
    own: library.Mpi | UsageError | None,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_mpi(*_: object) -> library.Mpi | None:
        if isinstance(own, UsageError):
            raise own
        return own

    monkeypatch.setattr("shutil.which", lambda _: "/opt/lmp" if installed else None)
    monkeypatch.setattr("mpiprof.launch.library.mpi_of_file", find_mpi)
    monkeypatch.setenv("LAMMPS_POTENTIALS", str(tmp_path))
    if potential:
        (tmp_path / "Cu_u3.eam").touch()
    words, reason = find_words(APPS["lammps"], Path("samples"), MPI, quick=True)
    assert why in reason
    if reason == why == "/opt/lmp is installed":
        crystal = f"-in samples/copper.in -var potential {tmp_path}/Cu_u3.eam"
        line = f"/opt/lmp -log none {crystal} -var cells 4 -var steps 10"
        assert words == line.split()
    else:
        assert words == ["samples/metal.py", "--steps", "10"]


def test_other_programs_are_samples() -> None:
    words = find_words(APPS["ft"], Path("samples"), MPI, quick=False)
    assert words == (["samples/ft.py", "--grid", "64", "--steps", "150"], "")


def test_single_instances_of_a_routine(tmp_path: Path) -> None:
    """Figure 3: T of 10,000 B is 20 us; in order of arrival, without other routines."""
    synthetic = Synthetic(2, machine=MACHINE)
    for i, late in enumerate((20_000, 400_000, 0)):
        begin = i * 1_000_000 + 1000
        calls = [[begin, begin + late]], [[begin + 500_000, begin + 500_000]]
        synthetic.add_collective("allgather", *calls, sent=10_000)
    synthetic.add_collective("barrier", [[5_000_000, 5_300_000]], [[5_400_000, 5_400_000]])
    synthetic.write(tmp_path / "trace")
    rows = apps.tabulate_instances(mpiprof.open(tmp_path / "trace").instances, "allgather")
    assert [(r["instance"], r["δ/T"], r["ω/T"]) for r in rows] == [
        (1, 0.5, 1.0),
        (2, 10.0, 20.0),
        (3, 0.0, 0.0),
    ]
    assert apps.join_programs({"nbody": rows[:1]})[0]["program"] == "nbody"


def test_message_times_by_size_or_why_not() -> None:
    """Table 1: 1000 B in 11 us are 90.9 MB/s."""
    rows = tabulate_messages(MACHINE)
    assert [(row["bytes"], row["time ms"]) for row in rows] == [
        (0, 0.01),
        (1000, 0.011),
        (1_000_000, 1.01),
    ]
    assert rows[1]["MB/s"] == pytest.approx(1000 / 11) and rows[1]["link"] == "within a node"
    refused = MACHINE | {"within": LINK | {"spread": [9.0, 9.0, 9.0]}}
    assert tabulate_messages(refused) == []
    fault = find_fault(refused)
    assert "not usable: repetitions of 0 B differ" in describe_messages(refused, fault)
    assert describe_messages(refused, "").endswith(f" Without effect on this study: {fault}.")
    shown = MACHINE | {"within": LINK | {"sizes": [4, 65536, 1_000_000]}}
    text = "T, one way: 4 B take 10.0 µs within a node, 64 KB take 11.0 µs within a node."
    assert describe_messages(shown, "") == text


@pytest.mark.usefixtures("one_cluster")
def test_programs_on_a_cluster_have_factors(mpich: Mpi, tmp_path: Path) -> None:
    """With given times between nodes, because a busy machine's times would be refused; 2 ranks."""
    if os.geteuid() != 0 or shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin") is None:
        pytest.skip("needs root and iproute2")
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(MACHINE | {"within": None, "between": LINK}))
    words = ["--cluster", "2x1gbit", "--quick", "--only", "transpose", "--machine", str(file)]
    words += ["-o", str(tmp_path / "r")]
    done = run([mpich.python, "-m", "mpiprof", "bench", "apps", *words], check=True)
    assert FIGURE in done.stdout and "No factors" not in done.stdout
    with (tmp_path / "r.csv").open() as table:
        rows = {row["routine"]: row for row in csv.DictReader(table)}
    assert all(float(rows["alltoall"][name]) > 0 for name in ("δ/T", "ω/T"))


def test_a_program_on_two_ranks(mpich: Mpi, tmp_path: Path) -> None:
    """With given message times, because a busy machine's times would be refused."""
    (tmp_path / "machine.json").write_text(json.dumps(MACHINE))
    words = ["-n", "2", "--quick", "--only", "transpose", "-o", str(tmp_path / "r")]
    words += ["--machine", str(tmp_path / "machine.json")]
    done = run([mpich.python, "-m", "mpiprof", "bench", "apps", *words], check=True)
    assert "native, auto, robust, native: transpose" in done.stdout
    assert "This will take about" in done.stdout
    assert "check ok" not in done.stdout
    with (tmp_path / "r.csv").open() as file:
        rows = {row["routine"]: row for row in csv.DictReader(file)}
    assert {WHOLE, ALL, "alltoall"} <= set(rows)
    assert rows["alltoall"]["instances"] == "150"  # repetitions
    assert float(rows[ALL]["native s"]) < float(rows[WHOLE]["native s"])
    assert "programs of equal weight (Figure 2)" in done.stdout
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_the_conditions_of_programs() -> None:
    """Programs compute; the times of `calibrate` apply, unless they are refused."""
    sound = Run({}, {}, {}, {})
    found = list_conditions(apps.make_setup(400, Options(), [sound]))
    assert found["processes"].startswith("400 ranks share ")
    assert found["computation"] == "that of the programs"
    assert found["message times"] == "measured by `calibrate`"
    refused = replace(sound, fault="1 ns for an empty message")
    found = list_conditions(apps.make_setup(2, Options(), [sound, refused]))
    assert found["message times"] == "refused, 1 ns for an empty message"
