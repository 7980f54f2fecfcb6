"""`tune --to` writes the configuration of a library from a trace or a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import tune_traces

from mpiprof.__main__ import main
from mpiprof.collectives.tune.export_rules import openmpi
from mpiprof.collectives.tune.export_rules.openmpi import OPERATION_NUMBERS


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "rules.conf"
    entries = [
        {"operation": "bcast", "size": 4, "algorithm": "binomial"},
        {"operation": "bcast", "size": 5, "algorithm": "circulant"},
    ]
    plan.write_text(json.dumps(entries))
    words = ["tune", "--plan", str(plan), "--to", "openmpi", "-o", str(out)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "bcast on 4 processes: binomial (6)" in printed
    entry = "entry 2: bcast=circulant on 5 processes: Open MPI has no equivalent bcast"
    assert entry in " ".join(printed.split())
    assert f"export OMPI_MCA_coll_tuned_dynamic_rules_filename={out}" in printed
    assert openmpi.parse_rules(out.read_text())[OPERATION_NUMBERS["bcast"]][1][0] == 4
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["handover"]
    assert data["written"] == str(out) and data["handed_over"][0]["sizes"] == [4]
    assert data["refused"][0]["sizes"] == [5]


def test_nothing_to_hand_over_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "rules.conf"
    plan.write_text('[{"operation": "bcast", "size": 4, "algorithm": "circulant"}]')
    assert main(["tune", "--plan", str(plan), "--to", "openmpi", "-o", str(out)]) == 1
    assert "Nothing can be handed over" in capsys.readouterr().out and not out.exists()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--to", "openmpi"], "--to openmpi requires -o FILE"),
        (["--plan", "plan.json"], "--plan requires --to"),
        (["--plan", "none.json", "--to", "openmpi", "-o", "x"], "--plan none.json: no such file"),
        (["--plan", "p", "--to", "intel", "-o", "x", "--site", "a"], "is converted unchanged"),
    ],
)
def test_wrong_use(words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *words]) == 2
    assert wrong in capsys.readouterr().err


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 8 ranks: an allgatherv that should run on the pipelined ring, and an allreduce."""
    return tune_traces.one_sender(tmp_path_factory.mktemp("tune") / "t", "app.py:7:<module>")


@pytest.mark.heavy
def test_plan_found_in_the_trace(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rules.conf"
    assert main(["tune", str(trace), "--to", "openmpi", "-o", str(out)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "the plan, entry 1: allgatherv=pipelined_ring:block_size=" in printed
    assert "Open MPI has no equivalent allgatherv algorithm" in printed and not out.exists()


def test_a_plan_with_call_sites_and_its_trace(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "rules.conf"
    entry = {"operation": "allgatherv", "algorithm": "linear_ring", "call_sites": ["app.py:7"]}
    plan.write_text(json.dumps([entry | {"size": 8}]))
    words = ["--plan", str(plan), "--to", "openmpi", "-o", str(out)]
    assert main(["tune", *words]) == 1
    assert "pass the TRACE" in " ".join(capsys.readouterr().out.split())
    assert main(["tune", str(trace), *words]) == 0
    assert "allgatherv on 8 processes: ring (3)" in capsys.readouterr().out
    plan.write_text(json.dumps([entry]))  # without a size: all sizes in the trace
    assert main(["tune", str(trace), *words]) == 0
    assert "allgatherv on 8 processes: ring (3)" in capsys.readouterr().out
    entry["call_sites"] = ["other.py:1"]
    plan.write_text(json.dumps([entry]))
    assert main(["tune", str(trace), *words]) == 1
    assert "at which the trace has no allgatherv" in " ".join(capsys.readouterr().out.split())
