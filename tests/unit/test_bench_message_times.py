"""Message times of a study's ranks: known results, and none from unusable times."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.synthetic import LINK, MACHINE
from support.uniform_machine import make_uniform

from mpiprof.collectives.machine import DEFAULT
from mpiprof.collectives.papers.harness import message_times
from mpiprof.collectives.papers.harness.case import Options
from mpiprof.collectives.papers.harness.loop import Loop, LoopTimes
from mpiprof.collectives.papers.harness.message_times import (
    MESSAGE_SIZES,
    REPETITIONS,
    calibrate_ranks,
    find_study_fault,
    fit_link,
)
from mpiprof.collectives.papers.harness.runner import find_machine
from mpiprof.collectives.papers.harness.study import Setup
from mpiprof.collectives.papers.harness.timing import Ranks
from mpiprof.collectives.papers.studies import arrival
from mpiprof.errors import MpiprofError
from mpiprof.trace.machine import find_fault

STEADY = np.array(MESSAGE_SIZES)[:, None] * 0.5 + 3000.0 + np.zeros(REPETITIONS)
CLEAN = np.ones(STEADY.shape, np.bool_)


def test_a_steady_link() -> None:
    link = fit_link(STEADY, CLEAN)
    assert (link["alpha_ns"], link["beta_ns_per_byte"]) == (3000.0, 0.5)
    assert link["undisturbed_rounds"] == [REPETITIONS] * 3 and link["spread"] == [1.0] * 3
    assert find_fault({"within": link}) == ""


def test_disturbed_rounds_are_left_out() -> None:
    times, clean = STEADY.copy(), CLEAN.copy()
    times[:, ::2], clean[:, ::2] = 9e6, False
    link = fit_link(times, clean)
    assert (link["alpha_ns"], link["beta_ns_per_byte"]) == (3000.0, 0.5)
    assert (
        link["undisturbed_rounds"] == [REPETITIONS // 2] * 3 and find_fault({"within": link}) == ""
    )


@pytest.mark.parametrize(
    ("times", "clean", "why"),
    [
        (
            STEADY[[0, 1, 1]],
            CLEAN,
            "large messages are not slower than small ones",
        ),  # once clamped to 0.001 ns
        (STEADY[[0, 2, 1]], CLEAN, "large messages are not slower than small ones"),
        (STEADY, ~CLEAN, "used the cores in all of the repetitions"),
        (STEADY * np.where(np.arange(REPETITIONS) % 2, 2.0, 1.0), CLEAN, ""),
        (
            STEADY * np.where(np.arange(REPETITIONS) > 3, 2.0, 1.0),
            CLEAN,
            "differ by a factor of 2.0",
        ),
        (STEADY * 20, CLEAN, "60.0 µs for an empty message"),
    ],
)
def test_the_recorder_s_gate_judges_a_study_s_times(
    times: np.ndarray, clean: np.ndarray, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"within": fit_link(times, clean)}
    monkeypatch.setattr(
        "mpiprof.collectives.papers.harness.runner.measure_message_times", lambda _: table
    )
    ranks = cast("Ranks", SimpleNamespace(world=SimpleNamespace(size=2)))
    machine, found, used = find_machine(ranks, ModuleType("study"), Options())
    assert used is table
    assert why in found and bool(why) == bool(found)
    assert (machine == DEFAULT) == bool(why)


@pytest.mark.parametrize(
    ("size", "spread", "why"),
    [
        (64 << 10, [5.0, 1.2, 1.0], ""),  # 4 us of 66 us
        (64 << 10, [60.0, 1.2, 1.0], "repetitions of 0 B differ by a factor of 60.0 within"),
        (64 << 10, [5.0, 1.4, 1.0], "repetitions of 65536 B differ by a factor of 1.4 within"),
        (4 << 10, [5.0, 1.2, 1.0], "repetitions of 0 B differ by a factor of 5.0 within"),
        (64 << 10, [1.0, 1.0, 2.0], "repetitions of 262144 B differ by a factor of 2.0 within"),
    ],
)
def test_a_study_requires_steady_times_of_its_sizes(
    size: int, spread: list[float], why: str
) -> None:
    """`arrival` uses T of its messages only; T(n) is 1 us + n ns here."""
    link = {"alpha_ns": 1e3, "beta_ns_per_byte": 1.0, "sizes": list(MESSAGE_SIZES)}
    table = {"within": link | {"spread": spread}}
    found = find_study_fault(arrival, 2, Options((size,)), table)
    assert found.startswith(why) and bool(why) == bool(found)
    assert find_fault(table)  # for all sizes, as other studies require


@pytest.mark.parametrize(
    ("beta", "spread", "why"),
    [
        (1.0, [1.0, 1.4], ""),  # 4 us of 8 KB, which take 2.7 ms behind each other
        (1.0, [1.0, 99.0], "repetitions of 8192 B differ by a factor of 99.0 between"),
        (1.0, [3.0, 1.0], "repetitions of 0 B differ by a factor of 3.0 between"),
        (335.0, [1.0, 1.4], "repetitions of 8192 B differ by a factor of 1.4 between"),
    ],
)
def test_messages_in_series_take_the_pace_of_the_link(
    beta: float, spread: list[float], why: str
) -> None:
    """A port of 25 Mbit/s that sends its first bytes at once after an idle time, or not."""
    link = {"alpha_ns": 1e3, "beta_ns_per_byte": beta, "pace_ns_per_byte": 335.0}
    table = {"between": link | {"sizes": [0, 8192], "spread": spread}}
    found = find_fault(table, in_series=True)
    assert found.startswith(why) and bool(why) == bool(found)
    assert find_fault(table)  # of single messages


def test_unusable_message_times_are_measured_again(tmp_path: Path) -> None:
    faults = ["unsteady", "", "unsteady"]

    def start(words: Sequence[str], _: Mapping[str, str]) -> int:
        Path(words[-1]).write_text("{}")
        return 0

    calibrate_ranks(start, tmp_path, lambda _: faults.pop(0))
    assert faults == ["unsteady"]


def test_a_long_measurement_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that disturbs it for a minute will do so again."""
    clock = SimpleNamespace(monotonic=iter([0.0, 61.0]).__next__)
    monkeypatch.setattr(message_times, "time", clock)
    started: list[int] = []

    def start(words: Sequence[str], _: Mapping[str, str]) -> int:
        started.append(1)
        Path(words[words.index("-o") + 1]).write_text("{}")
        return 0

    calibrate_ranks(start, tmp_path, lambda _: "unsteady")
    assert len(started) == 1


def test_a_launcher_s_refusal_is_reported(tmp_path: Path) -> None:
    """The ranks have not started, so the launcher's standard error states the cause."""
    refusal = "prterun has detected an attempt to run as root.\n\nThis is discouraged.\n---"

    def refuse(_: Sequence[str], __: Mapping[str, str]) -> int:
        return subprocess.run(["/bin/sh", "-c", f"echo '{refusal}' >&2; exit 1"]).returncode

    with pytest.raises(MpiprofError, match=r"ended with 1: prterun has detected .* as root\.$"):
        calibrate_ranks(refuse, tmp_path)

    def fail(words: Sequence[str], _: Mapping[str, str]) -> int:
        return subprocess.run([*words[:4], "/bin/sh", "-c", "echo no table; exit 3"]).returncode

    with pytest.raises(MpiprofError, match=r"ended with 3: no table$"):
        calibrate_ranks(fail, tmp_path)

    with pytest.raises(MpiprofError, match=r"ended with 2: it printed nothing$"):
        calibrate_ranks(lambda *_: 2, tmp_path)


def test_no_factors_from_times_that_are_not_usable() -> None:
    arrivals = np.arange(20).reshape(1, 10, 2) * 1_000_000
    labels = {"computation ms": 200, "bytes": 65536}
    loop = Loop(labels, (), 10, 200_000_000, agreed=False)
    looped = LoopTimes(loop, arrivals - 5, arrivals, arrivals + 100)
    sound = Setup(2, Options(), make_uniform(1000.0, 1.0), "mpich")
    (row,) = arrival.make_report([looped], [], sound).rows
    assert row["arrival ω/T"] == pytest.approx(1e6 / 66_536) and row["arrival ω ms"] == 1.0
    found = arrival.make_report([looped], [], replace(sound, fault="2 of 3"))
    (row,) = found.rows
    assert np.isnan(row["arrival ω/T"]) and np.isnan(row["exit ±"]) and row["arrival ω ms"] == 1.0
    assert "64 KB take –" in found.notes[0] and not found.figures


def test_t_is_the_measured_time_of_the_size() -> None:
    """Between 4 KB and 64 KB it is interpolated; the fit alone would give 1 + 65.5 us."""
    link = {"sizes": [0, 4096, 65536], "one_way_ns": [1e3, 9e3, 20e3], "beta_ns_per_byte": 1.0}
    fitted = Setup(2, Options(), make_uniform(1000.0, 1.0), "mpich")
    setup = replace(fitted, link=link)
    assert [setup.message_ns(n) for n in (0, 4096, 65536)] == [1e3, 9e3, 20e3]
    assert setup.message_ns(4096 + 30720) == pytest.approx(14.5e3)
    assert setup.message_ns(65536 + 100) == 20_100
    assert fitted.message_ns(65536) == 66_536
    assert np.isnan(replace(setup, fault="2 of 3").message_ns(4096))


def test_a_study_states_the_times_that_it_uses(mpich: Mpi, tmp_path: Path) -> None:
    """With the usable times of --machine; 2 ranks."""
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(MACHINE))
    words = ["bench", "impact", "-n", "2", "--quick", "--only", "bcast", "--sizes", "8"]
    words += ["--repetitions", "3", "--machine", str(file)]
    done = run([mpich.python, "-m", "mpiprof", *words], check=True)
    assert f"message times: 10.0 µs and 1 ns a byte, from {file}\n" in done.stdout
    assert "processes: 2 ranks" in done.stdout and "not usable" not in done.stdout
    file.write_text(json.dumps(MACHINE | {"within": LINK | {"beta_ns_per_byte": 0.001}}))
    done = run([mpich.python, "-m", "mpiprof", *words])
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "its message times are not usable, large messages are not slower" in done.stderr


def test_all_ranks_measure_one_table(mpich: Mpi) -> None:
    """On 2 ranks: all receive the same table, with each size's evidence."""
    text = (
        "from types import SimpleNamespace; from mpi4py import MPI\n"
        f"from {message_times.__name__} import MESSAGE_SIZES, measure_message_times\n"
        "world = MPI.COMM_WORLD\n"
        "table = measure_message_times(SimpleNamespace(world=world))\n"
        "assert all(table == other for other in world.allgather(table))\n"
        "link = table['within']\n"
        "assert link['alpha_ns'] > 0 and min(link['spread']) >= 1\n"
        "assert len(link['undisturbed_rounds']) == len(MESSAGE_SIZES) == len(link['sizes'])\n"
    )
    run_mpi(mpich, 2, [mpich.python, "-c", text], check=True)


def test_a_receive_that_blocks_is_no_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between nodes, a receive may give up the core; within a node it does not."""
    used = SimpleNamespace(ru_nvcsw=5, ru_nivcsw=2)
    monkeypatch.setattr(resource, "getrusage", lambda _: used)
    assert message_times.count_switches(blocking=True) == 2
    assert message_times.count_switches(blocking=False) == 7
