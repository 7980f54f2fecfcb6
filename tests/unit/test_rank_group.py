"""Calls of many ranks that are decoded together, and those of each rank alone."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import synthetic as synthetic_module
from support.synthetic import Synthetic

from mpiprof.trace import Trace, rank_group
from mpiprof.trace.batch import Batch, Before

RANKS = 9
ROUNDS = 40


def write_random_run(folder: Path, seed: int, *, is_damaged: bool = False) -> Trace:
    """Write a run on three nodes with open, absent, nonblocking and damaged calls."""
    random = np.random.default_rng(seed)
    nodes = [rank // 3 for rank in range(RANKS)]
    synthetic = Synthetic(RANKS, nodes, offsets=(0, 5_000, -3_000), drifts=(0.0, 1e-6, 0.0))
    for rank in (3, 6):
        for at, when in ((0, "init"), (10_000_000, "finalize")):
            synthetic.add_clock(rank, 0, at, 100, when)
    names = ["world", "few", "others"]
    synthetic.add_communicator("few", [1, 2, 5])
    synthetic.add_communicator("others", [0, 3, 4, 6, 7, 8])
    now = 1000
    for _ in range(ROUNDS):
        name = names[int(random.integers(len(names)))]
        members = sum(map(len, synthetic.members[name]))
        count = int(random.integers(1, 60))
        arrivals = (
            now + 1000 * np.arange(count)[:, None] + random.integers(0, 300, (count, members))
        )
        exits = arrivals + random.integers(1, 500, arrivals.shape)
        now = int(exits.max()) + 1000
        if random.random() < 0.2:
            exits[-1] = 0
        if random.random() < 0.2:
            arrivals[-1, random.random(members) < 0.3] = -1
        operation = ("barrier", "allreduce", "iallreduce")[int(random.integers(3))]
        completions = (exits + 50, exits + 100) if operation == "iallreduce" else None
        synthetic.add_collective(operation, arrivals, exits, name, completions=completions)
    if is_damaged:
        damage_calls(synthetic, random)
    return Trace(synthetic.write(folder))


def damage_calls(synthetic: Synthetic, random: np.random.Generator) -> None:
    """Set choices, of which some are unknown, and damage a call of some ranks."""
    damages = {"enter_ns": -(1 << 62), "exit_ns": 1 << 62, "shape": 1 << 20, "kind": 77}
    for rank in range(RANKS):
        parts = synthetic.records[rank] = [part.copy() for part in synthetic.records[rank]]
        for part in parts:
            part["choice"] = random.integers(0, 9, len(part))
        if rank % 3 == 0:
            name, part = str(random.choice([*damages])), parts[int(random.integers(len(parts)))]
            part[name][random.integers(len(part))] = damages[name]


def list_columns(batches: list[Batch]) -> list[Any]:
    """Return all columns of batches."""
    columns: list[Any] = []
    for batch in batches:
        assert batch.before is not None
        columns += [getattr(batch, of.name) for of in fields(Batch)[1:] if of.name != "before"]
        columns += [getattr(batch.before, of.name) for of in fields(Before)]
    return columns


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("ranks_per_file", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_calls_are_equal_whether_ranks_are_decoded_together_or_alone(
    seed: int,
    ranks_per_file: int,
    is_damaged: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthetic_module, "RANKS_PER_FILE", 32 if ranks_per_file == 1 else 0)
    trace = write_random_run(tmp_path / "t", seed, is_damaged=is_damaged)
    assert len(list((tmp_path / "t").glob("*.log"))) == RANKS // ranks_per_file
    together = list_columns(list(trace.batches(batch=1, before=True)))
    monkeypatch.setattr(rank_group, "_find_common_log", lambda _: None)
    alone = list_columns(list(trace.batches(batch=1, before=True)))
    assert len(together) == len(alone) > 0
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one, other)
    assert is_damaged == any("damaged" in problem for problem in trace.problems)
