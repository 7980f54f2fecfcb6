"""Mistakes of a new user: odd names, closed pipes, wrong words; each results in one clear line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_mpi
from support.mpis import Mpi
from support.synthetic import Synthetic

import mpiprof
from mpiprof.__main__ import CommandParser, main
from mpiprof.interface.shell_hints import format_command
from mpiprof.launch.folder import make_dated_name
from mpiprof.launch.options import add_options
from mpiprof.launch.program import find_program
from mpiprof.reports.json import as_json_text

pytestmark = pytest.mark.heavy

MS = 1_000_000


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace in a folder with a space, of a program whose name has a space too."""
    synthetic = Synthetic(2)
    synthetic.ended_ns = 200 * MS
    arrivals = np.arange(1, 4)[:, None] * 10 * MS + np.array([0, 3 * MS])
    synthetic.add_collective("allreduce", arrivals, arrivals + 4 * MS, site="my app.py:12:step")
    return synthetic.write(tmp_path / "tr ace")


def output_of(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 2) -> str:
    """Run a command line in this process and return its one line on standard error."""
    assert main([str(word) for word in words]) == code
    error = capsys.readouterr().err
    assert error.startswith("mpiprof: ")
    assert error.count("\n") == 1
    return error


def shell(line: str, trace: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh with the variables $MPIPROF and $TRACE."""
    names = {"MPIPROF": f"{sys.executable} -m mpiprof", "TRACE": str(trace)}
    everything = {**os.environ, **names, **environment}
    return subprocess.run(
        ["sh", "-c", line], env=everything, capture_output=True, text=True, check=False
    )


def test_next_commands_can_be_typed_as_they_stand(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(trace)]) == 0
    line = capsys.readouterr().out.rstrip().splitlines()[-1]
    command = line.removeprefix("next: ").partition("   (")[0]
    assert command.endswith("--site 'my app.py:12'")
    again = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert again.stdout.startswith("allreduce at my app.py:12 step: 3 instances")
    assert main(["status", str(trace)]) == 0
    assert f"report '{trace}'" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["report", "status"])
def test_output_that_cannot_be_written(verb: str, trace: Path) -> None:
    full = shell(f'$MPIPROF {verb} "$TRACE" >/dev/full', trace)
    assert full.returncode == 1
    assert full.stderr == "mpiprof: standard output: No space left on device\n"
    closed = shell(f'$MPIPROF {verb} "$TRACE" >&-', trace)
    assert (closed.returncode, closed.stderr) == (0, "")
    ascii_only = shell(f'$MPIPROF {verb} "$TRACE"', trace, PYTHONIOENCODING="ascii")
    assert (ascii_only.returncode, ascii_only.stderr) == (0, "")


def test_json_is_valid_in_every_locale() -> None:
    data = {"file": "n\udcff δ.py"}
    assert json.loads(as_json_text(data).encode("ascii")) == data


def test_a_condition_that_is_always_false_is_refused(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is a time" in output_of(capsys, "report", trace, "--fail-on", "wait_ns>nan")
    met = output_of(capsys, "report", trace, "--fail-on", "wait_ns>1", code=3)
    assert "is met by 1 call site, first" in met


def test_a_trace_cut_before_its_first_call_is_no_empty_trace(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for log in trace.glob("*.log"):
        os.truncate(log, 3000)
    line = output_of(capsys, "report", trace, code=1)
    assert "no readable call" in line
    assert ".log" in line


def test_wrong_options_of_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a table of a machine")
    assert "is not a folder" in output_of(capsys, "run", "-o", file, __file__, code=1)
    assert "an empty name" in output_of(capsys, "run", "-o", "", __file__)
    assert "not a machine table" in output_of(capsys, "run", "--machine", file, __file__)


def test_a_long_program_name_gives_a_folder_that_can_be_made(tmp_path: Path) -> None:
    script = tmp_path / ("a" * 250 + ".py")
    script.touch()
    (tmp_path / make_dated_name(find_program([str(script)], module=False))).mkdir()


def test_the_next_command_of_the_recorder_works(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    words = ["-m", "mpiprof", "run", "-o", "tr `touch planted` it's", "app.py"]
    done = run_mpi(mpi, 2, [str(mpi.python), *words], cwd=tmp_path, check=True)
    command = next(line for line in done.stderr.splitlines() if "next: " in line)
    command = command.partition("next: ")[2]
    again = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert again.stdout.startswith("app.py · 2 ranks")
    assert not (tmp_path / "planted").exists()


def test_a_program_with_commas_and_equals_signs_is_switched(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, with the call site as named in the trace's report."""
    name = "a,b=c.py"
    call = "MPI.COMM_WORLD.Alltoall([bytes(8), MPI.BYTE], [bytearray(8), MPI.BYTE])"
    (tmp_path / name).write_text(f"from mpi4py import MPI\n{call}\n")
    words = ["-m", "mpiprof", "run", "-o", "trace", "--switch", f"{name}:2=ring", name]
    done = run_mpi(openmpi, 2, [str(openmpi.python), *words], cwd=tmp_path, check=True)
    assert "a,b=c.py" not in done.stderr
    table = mpiprof.open(tmp_path / "trace").callsites.set_index("operation")
    assert table.loc["alltoall", "algorithm"] == "ring"


def test_a_message_time_that_cannot_be_is_pointed_out(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = json.loads((trace / "meta.json").read_text())
    link = {"alpha_ns": 3_850_000, "beta_ns_per_byte": 0.1}
    meta["machine"] = {"source": "start", "within": link, "between": None}
    (trace / "meta.json").write_text(json.dumps(meta))
    assert main(["report", str(trace)]) == 0
    text = capsys.readouterr().out
    assert "not usable (sketched at start), so no factors: 3.85 ms for an empty message" in text
    assert "ω/T" not in text.split("Call sites")[1].split("\n")[1]


def test_a_misspelt_verb_and_a_source_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "did you mean `report`?" in output_of(capsys, "reprot")
    source = tmp_path / "late.c"
    source.write_text("int main(void) { return 0; }\n")
    assert "is not executable: name a program" in output_of(capsys, "run", source)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("report", "TRACE", "--sort", "nope"), "no such column; the nearest: "),
        (("report", "TRACE", "--sort", "total_wayt"), "the nearest: total_wait_ns"),
        (("report", "TRACE", "--by", "rnak"), "no 'rnak'; did you mean rank?"),
        (("report", "TRACE", "--sitee", "x"), "no option --sitee; did you mean --site?"),
        (("report", "TRACE", "--jsn"), "did you mean --json?"),
        (("report", "TRACE", "--site", "my ap.py:12 step"), "did you mean my app.py:12 step?"),
        (("report", "TRACEE"), "did you mean 'TRACE'?"),
        (("export", "TRACE", "--to", "perfeto"), "did you mean perfetto?"),
        (("run", "--record", "events", "--python-sites", "allways", "x"), "did you mean always?"),
        (("tune", "TRACE", "--to", "openmp"), "did you mean openmpi?"),
        (("bench", "allgather"), "did you mean allgatherv?"),
    ],
)
def test_a_misspelt_name_has_the_nearest_as_a_suggestion(
    words: tuple[str, ...], hint: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = output_of(capsys, *(word.replace("TRACE", str(trace)) for word in words))
    assert hint.replace("TRACE", str(trace)) in found


def test_a_column_of_times_needs_no_unit(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for column in ("wait_ns", "wait"):
        assert main(["report", str(trace), "--sort", column, "--json"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("verb", ["report", "status", "pack", "tune"])
def test_a_second_trace_leads_to_compare(
    verb: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = output_of(capsys, verb, trace, "after")
    assert f"takes one trace, not 2; `{format_command('compare', trace, Path('after'))}`" in line


def test_compare_names_a_trace_that_is_given_twice(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if a link points to it."""
    link = trace.with_name("link")
    link.symlink_to(trace)
    for other in (trace, link):
        assert main(["compare", str(trace), str(other)]) == 0
        first = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
        assert first == (
            f"A and B are the same trace ({other}), so no difference is possible. "
            "Name another trace to compare with."
        )


def test_np_is_n() -> None:
    parser = CommandParser()
    add_options(parser)
    assert parser.parse(["-np", "2"]) == parser.parse(["-n", "2"])


def test_a_misspelt_option_has_no_suggestion_that_only_shares_its_dashes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "did you mean --force?" in output_of(capsys, "run", "--forse", "x.py")


def test_a_folder_without_a_trace_is_wrong_use_like_a_missing_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("report", "status"):
        assert "no mpiprof trace in it" in output_of(capsys, verb, tmp_path)
