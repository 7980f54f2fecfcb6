"""Replay of ranks that receive from any source: they serve requests as these arrive."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import Program
from support.random_work import MS

import mpiprof
from mpiprof.account.replay import Replay
from mpiprof.account.segments import read_work
from mpiprof.causes.cause import Removal, replay_without
from mpiprof.trace import Trace
from mpiprof.trace.types import Int

RANKS, LOCKS = 6, 12
LOCK_SITES = "client.py:1:lock", "server.py:1:serve"
GRANT_SITES = "server.py:2:serve", "client.py:2:lock"
UNLOCK_SITES = "client.py:3:unlock", "server.py:3:serve"


def draw_work(seed: int) -> Int:
    """Return the work of each client before and with each lock, in ns."""
    random = np.random.default_rng(seed)
    return random.integers(MS // 10, 3 * MS, (LOCKS, RANKS, 2))


def lock(work_ns: Int, servers: int, *, any_source: bool = True, bytes_: int = 8) -> Program:
    """Return clients that lock a resource, which a server grants in the order of the requests.

    any_source: False to serve the clients in turn. The first ranks are servers, which the clients
    use alternately. A barrier ends each third lock.
    """
    program, clients = Program(RANKS, intervals=True), range(servers, RANKS)

    def work(client: int, ns: int) -> None:
        program.work(np.where(np.arange(RANKS) == client, ns, 0))

    for first in range(0, LOCKS, 3):
        for client in clients:
            work(client, int(work_ns[first, client, 0]))
        requests = [
            (int(program.now_ns[client]) if any_source else 0, client, first) for client in clients
        ]
        heapify(requests)
        while requests:
            _, client, number = heappop(requests)
            server = number % servers
            program.message(client, server, bytes_, sites=LOCK_SITES, any_source=any_source)
            program.message(server, client, sites=GRANT_SITES)
            work(client, int(work_ns[number, client, 1]))
            program.message(client, server, sites=UNLOCK_SITES)
            if number + 1 < first + 3:
                work(client, int(work_ns[number + 1, client, 0]))
                time_ns = int(program.now_ns[client]) if any_source else number + 1
                heappush(requests, (time_ns, client, number + 1))
        program.collective("barrier", "client.py:4:main")
    return program


def remove_work(trace: Trace, work_ns: Int, less_ns: Int) -> Removal:
    """Return the removal of some work of each client; work_ns, less_ns: as draw_work."""
    segments = read_work(trace)
    rank, end, removed = [], [], []
    for client in range(RANKS):
        of_client = np.flatnonzero(segments.rank == client)
        of_client = of_client[segments.length_ns[of_client] >= MS // 10]
        lengths = segments.length_ns[of_client]
        expected = work_ns[:, client].ravel()
        if len(lengths) == len(expected):
            assert (abs(lengths - expected) < 1000).all()
            rank += [client] * len(lengths)
            end += segments.end_ns[of_client].tolist()
            removed += less_ns[:, client].ravel().tolist()
    return Removal(np.array(rank), np.array(end), np.array(removed, float))


def make_less(work_ns: Int, seed: int) -> Int:
    """Return the time by which half of the work is shorter."""
    random = np.random.default_rng(seed)
    is_less = random.random(work_ns.shape) < 0.5
    return (work_ns * random.random(work_ns.shape) * is_less).astype(np.int64)


KINDS: dict[str, dict[str, Any]] = {
    "one server": {"servers": 1},
    "two servers": {"servers": 2},
    "requests that wait for their receiver": {"servers": 1, "bytes_": 1 << 20},
    "a server that names the clients": {"servers": 1, "any_source": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_saving_is_that_of_a_run_with_less_work(seed: int, kind: str, tmp_path: Path) -> None:
    work_ns = draw_work(seed)
    less_ns = make_less(work_ns, seed)
    program, shorter = (lock(of, **KINDS[kind]) for of in (work_ns, work_ns - less_ns))
    trace = mpiprof.open(program.write(tmp_path / "t"))
    shorter.collective("finalize", "app.py:9:main")
    saved_ns = int(program.now_ns.max() - shorter.now_ns.max())
    removal = remove_work(trace, work_ns, less_ns)
    assert len(removal.rank) == 2 * LOCKS * (RANKS - KINDS[kind]["servers"])
    assert replay_without(trace, removal).run_ns == pytest.approx(saved_ns, rel=1e-3)
    replay: Replay = trace.derive("replay")
    assert (replay.services is not None) == (kind != "a server that names the clients")
    nothing = np.zeros(0, np.int64)
    assert not replay.compute_leads(nothing, nothing, np.zeros(0)).any()
