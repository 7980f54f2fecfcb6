"""Traces of real programs written as OTF2 and read back are unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from support import ROOT
from support.compilation import compiled
from support.export_trace import export
from support.jobs import run_mpi
from support.mpis import Mpi
from support.otf2_archive import sizes_in_order
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.facts.operations import LOCAL_OPERATIONS
from mpiprof.trace import Trace

TABLES = ("events", "instances", "callsites", "rank_totals")


def there_and_back(trace: Path, folder: Path) -> tuple[Trace, Trace]:
    """Return a trace, and the same trace read from an archive."""
    done = export(trace, "--to", "otf2", "-o", folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    return mpiprof.open(trace), mpiprof.open(folder / "traces.otf2")


def check_same(known: Trace, converted: Trace) -> None:
    """Fail if two traces differ, apart from the row order of `rank_totals`.

    That order follows the communicators' numbers, which vary if several threads create them.
    """
    for name in TABLES:
        ours, theirs = getattr(known, name), getattr(converted, name)
        if name == "rank_totals":
            rows = ["callsite", "communicator", "rank"]
            ours, theirs = (one.sort_values(rows, ignore_index=True) for one in (ours, theirs))
        pd.testing.assert_frame_equal(theirs, ours, check_categorical=False)
    np.testing.assert_array_equal(converted.point_to_point, known.point_to_point)
    assert converted.is_complete == known.is_complete
    assert converted.calls_start_ns == known.calls_start_ns
    assert converted.duration_ns == known.duration_ns
    assert converted.machine == known.machine


def test_a_python_program_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    run_mpi(openmpi, 3, [*words, str(ROOT / "samples" / "md.py")], check=True)
    known, converted = there_and_back(tmp_path / "trace", tmp_path / "archive")
    assert known.is_complete and len(known.events) > 100
    check_same(known, converted)


def test_many_threads_on_2_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    program = compiled(openmpi, "threads_collectives.c", "-pthread")
    words = prepare_run(["-q", "-o", tmp_path / "trace"], [program, "4", "50"])
    run_mpi(openmpi, 2, words, check=True)
    known, converted = there_and_back(tmp_path / "trace", tmp_path / "archive")
    assert known.events["thread"].nunique() > 2
    check_same(known, converted)


def test_random_messages_on_4_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    """Sends and receives of each kind, with and without wildcards, all of them logged."""
    program = compiled(openmpi, "messages_random.c", "-O1")
    options = ["-q", "-o", tmp_path / "trace", "--messages", "all"]
    run_mpi(openmpi, 4, prepare_run(options, [program, "3", "40"]), check=True)
    known, converted = there_and_back(tmp_path / "trace", tmp_path / "archive")
    assert (known.messages["partner"] >= 0).sum() > 200
    check_same(known, converted)
    sent, received = sizes_in_order(tmp_path / "archive" / "traces.otf2")
    assert sent == received
    pd.testing.assert_frame_equal(sort_sums(converted), sort_sums(known))
    # Converted archives have no local calls, such as MPI_Buffer_attach.
    calls, messages = known.message_calls, known.messages.drop(columns="site_id")
    is_local = calls["operation"].isin(LOCAL_OPERATIONS)
    messages["call"] -= is_local.cumsum().to_numpy()[messages["call"]]
    calls = calls[~is_local].reset_index(drop=True)
    # A loop of calls in vain is one region in the archive, without their number.
    lost = ["site_id", "polls", "polled_ns"]
    found, expected = (table.drop(columns=lost) for table in (converted.message_calls, calls))
    pd.testing.assert_frame_equal(found, expected, check_categorical=False)
    found = converted.messages.drop(columns="site_id")
    pd.testing.assert_frame_equal(found, messages, check_categorical=False)


def sort_sums(trace: Trace) -> pd.DataFrame:
    """Return the sums of messages in an order that does not depend on the shapes' numbers."""
    keys = ["rank", "operation", "site", "communicator", "peer"]
    return trace.message_sums.drop(columns="site_id").sort_values(keys, ignore_index=True)
