"""The selector's log of a program, as a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import tune_traces

from mpiprof.collectives.tune import from_selector, plan
from mpiprof.errors import TraceError
from mpiprof.trace.selector_log import FILE
from unit.test_tune_verb import tune

KEY = {
    "kind": "key",
    "communicator": "8c",
    "operation": "allgatherv",
    "bytes": 1 << 20,
    "root": None,
    "size": 16,
}


def lines(key: str, won: str, sites: list[str], saved: int = 10**9, **more: object) -> list[str]:
    """Return all lines of a key that tried its winner and native."""
    made: list[dict[str, object]] = [
        KEY | {"key": key, "sites": sites} | more,
        {"kind": "phase", "key": key, "phase": 1, "instance": 3, "why": "start"},
    ]
    for name, score in (("native", 367e6), (won, 94e6)):
        trial = {"kind": "trial", "key": key, "phase": 1, "algorithm": name, "instances": 6}
        noise = {"error_ns": 10**6} if name == "native" else {}  # two scores have no error
        made.append(trial | {"score_ns": int(score)} | noise)
    made.append(
        {
            "kind": "choice",
            "key": key,
            "phase": 1,
            "instance": 40,
            "algorithm": won,
            "why": "it is faster",
        }
    )
    end = {"kind": "end", "key": key, "instances": 300, "probes": 38, "saved_ns": saved}
    made.append(end | {"algorithm": won})
    return [json.dumps(line) for line in made]


def write(folder: Path, *parts: list[str], cut: str = "") -> Path:
    """Write a trace folder's selector log."""
    folder.mkdir(exist_ok=True)
    text = "".join(line + "\n" for part in parts for line in part)
    (folder / FILE).write_text(text + cut)
    return folder


def test_plan_entries_equal_the_selected_algorithms(tmp_path: Path) -> None:
    ring = "pipelined_ring:block_size=65536"
    folder = write(
        tmp_path / "t",
        lines("01", "ring", ["app.py:20 f"], 5, operation="alltoall", bytes=65536),
        lines("02", ring, ["md.py:93 exchange", "md.py:95 exchange"]),
        lines("03", "native", ["app.py:30 f"], operation="bcast"),
        lines("04", "dissemination", ["?"], 4, operation="barrier", bytes=0),
        lines("05", "kang", ["c.py:9 g"], 3, operation="allgather", bytes=4096),
        cut='{"kind": "key", "key": "06", "oper',
    )
    entries = from_selector.make_entries(
        from_selector.read(folder), {"how": "auto", "mpi": "", "hosts": []}
    )
    assert [e["algorithm"] for e in entries] == ["pipelined_ring", "ring", "dissemination", "kang"]
    first, second, third, last = entries
    assert first["call_sites"] == ["md.py:93", "md.py:95"] and first["size"] == 16
    assert first["parameters"] == {"block_size": 65536}
    assert first["bytes"] == {"from": (1 << 19) + 1, "to": 1 << 20}
    assert "9.4e+04 us (6 instances) against 3.67e+05 us (± 1e+03, 6)" in first["why"]
    assert "38 of 300 instances probed" in first["why"]
    assert second["bytes"] == {"from": 32769, "to": 65536}
    assert "bytes" not in third and "call_sites" not in third and "bytes" not in last
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(entries))
    assert len(plan.read(str(path)).rules) == 5  # read as strictly as plans by users


@pytest.mark.parametrize("won", ["native:tree", "native:segmented_ring:segment=65536"])
def test_a_library_algorithm_is_stored_by_name(won: str, tmp_path: Path) -> None:
    """It is written to a plan unchanged, and the plan is read as by `run --switch`."""
    folder = write(
        tmp_path / "t",
        lines("01", won, ["app.py:20 f"], operation="allreduce", bytes=65536),
        lines("02", "ring", ["app.py:30 f"], 5, operation="allreduce", bytes=1 << 20),
    )
    entries = from_selector.make_entries(
        from_selector.read(folder), {"how": "auto", "mpi": "", "hosts": []}
    )
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(entries))
    assert [str(rule.variant) for rule in plan.read(str(path)).rules] == [won, "ring"]


def test_a_killed_job_s_last_choice_counts(tmp_path: Path) -> None:
    whole = lines("01", "ring", ["app.py:20 f"], operation="alltoall")
    folder = write(tmp_path / "t", whole[:-1], [], cut=whole[-1][:30])
    (entry,) = from_selector.make_entries(from_selector.read(folder), {})
    assert entry["algorithm"] == "ring"


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    bad = ["", "[]", "3", '{"kind": "trial", "key": "nobody"}', '{"kind": "key", "key": 1}', "{"]
    folder = write(tmp_path / "t", bad, lines("01", "ring", ["a.py:2 f"], operation="alltoall"))
    assert len(from_selector.read(folder)) == 1


def test_the_verb_writes_them(tmp_path: Path) -> None:
    folder = tune_traces.one_sender(tmp_path / "t")
    with pytest.raises(TraceError, match="did not choose for itself"):
        from_selector.read(folder)
    write(folder, lines("01", "ring", ["app.py:20 f"], operation="alltoall", bytes=65536))
    code, out, err = tune(folder, "--found", "-o", tmp_path / "plan.json")
    assert (code, err) == (0, "") and "alltoall at app.py:20: ring" in out
    (entry,) = json.loads((tmp_path / "plan.json").read_text())
    assert entry["measured"]["how"] == "auto" and entry["measured"]["mpi"] == "Synthetic MPI"
    assert entry["measured"]["date"] == "2026-01-01"
