"""From traces to the DataFrames that figures are made of; each is derived once a version.

A trace folder can grow while it is looked at: a Data is what was there at one moment, and
Context.data gives the newest one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from mpiprof.analysis.frames import communicator_names
from mpiprof.errors import MpiprofError, TraceError
from mpiprof.store import cache, derived
from mpiprof.trace import Trace
from mpiprof.trace.trace import Workers
from mpiprof.trace.types import Bool, Int
from mpiprof.units import ranks

from .state import State, parse_ranks

MOST_RANKS = 1 << 16  # that are shown one by one
KEPT = 32  # derived tables beyond those of the whole trace; the oldest go first
PATIENCE = 5  # a trace is read again at most after so many times what the last reading took
Result = TypeVar("Result")


class Data:
    """One trace as it was when it was opened."""

    def __init__(
        self,
        name: str,
        path: Path,
        trace: Trace | None = None,
        workers: Workers | None = None,
        machine: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.files = version_of(path)
        self.trace: Trace = trace or derived.open_trace(path, workers, machine)
        self.growth = cache.growth(self.trace)
        self.version = f"{self.files}-{self.growth:x}"
        self._lock = threading.Lock()
        self._busy: dict[Any, threading.RLock] = {}
        self._kept: OrderedDict[Any, Any] = OrderedDict()

    @property
    def ended(self) -> bool:
        """Whether every rank has said that it ended: then nothing more will come."""
        return len(self.trace.tables.ends) >= self.trace.ranks

    def has_grown(self) -> bool:
        """Return whether a recorder has written to it since, also where the files don't show it."""
        return version_of(self.path) != self.files or cache.growth(self.trace) != self.growth

    def once(self, key: Any, make: Callable[[], Result]) -> Result:
        """Return what `make` gives, made once for a key while it is among the last KEPT."""
        with self._making(key):
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            made = make()
            with self._lock:
                self._kept[key] = made
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return made

    def _making(self, key: Any) -> threading.RLock:
        """Return the lock of one key: what takes long must not hold up all else."""
        with self._lock:
            return self._busy.setdefault(key, threading.RLock())

    def derive(self, name: str, *arguments: Any) -> Any:
        """Return one of the trace's derived tables (see mpiprof.analysis.derived.DERIVED)."""
        with self._making((name, arguments)):
            return self.trace.derive(name, *arguments)

    def prepare(self) -> None:
        """Begin to derive what the first page needs, before it is asked for."""
        for name in ("callsites", "rank_totals"):
            if self.trace.record != "summary" or name == "callsites":
                threading.Thread(target=self._quietly, args=(name,), daemon=True).start()

    def _quietly(self, name: str) -> None:
        with contextlib.suppress(MpiprofError):  # the page that needs it says so
            self.derive(name)

    @property
    def callsites(self) -> pd.DataFrame:
        """The trace's `callsites` (see mpiprof.analysis.callsites)."""
        return self.derive("callsites")

    @property
    def instances(self) -> pd.DataFrame:
        """The trace's `instances` (see mpiprof.analysis.frames)."""
        return self.derive("instances")

    @property
    def processes(self) -> pd.DataFrame:
        """The trace's `processes`: one row a rank, with its host and node."""
        return self.derive("processes")

    # Filters

    @property
    def communicators(self) -> list[tuple[str, str]]:
        """Identity and name of each communicator."""
        names = communicator_names(self.trace)
        known = self.trace.tables.communicators
        return list({c.identity: n for c, n in zip(known, names, strict=True)}.items())

    def host_of(self, rank: int) -> str:
        """Return the host of a rank, "?" if unknown."""
        return str(self.trace.tables.processes.get(rank, {}).get("host") or "?")

    def where(self, rank: int) -> str:
        """Return the host of a rank and the processors that it may run on, for people."""
        processors = self.trace.tables.processes.get(rank, {}).get("processors") or []
        told = f", processor{'s' * (len(processors) > 1)} {ranks(processors)}" if processors else ""
        return self.host_of(rank)[:300] + told

    @property
    def hosts(self) -> list[str]:
        """The hosts, in order of their first rank: what the filter "node" chooses from."""
        return self.once("hosts", lambda: list(dict.fromkeys(map(self.host_of, self._all_ranks))))

    @property
    def _all_ranks(self) -> Sequence[int]:
        """All ranks; of more than MOST_RANKS (likely damage) those that wrote anything."""
        if self.trace.ranks <= MOST_RANKS:
            return range(self.trace.ranks)
        return sorted(
            {rank for rank, _ in self.trace.logs.threads} | {*self.trace.tables.processes}
        )

    def ranks(self, state: State) -> Int:
        """Return the world ranks that pass the filters by node and rank, ascending."""
        chosen = parse_ranks(state.ranks, min(self.trace.ranks, MOST_RANKS))
        passing: Sequence[int] = self._all_ranks if chosen is None else chosen
        if state.nodes:
            passing = [rank for rank in passing if self.host_of(rank) in state.nodes]
        return np.array(passing, np.int64)

    def passing(self, instances: pd.DataFrame, state: State) -> Bool:
        """Return which instances pass the filters by communicator and operation."""
        good = np.ones(len(instances), np.bool_)
        if state.communicators:
            good &= instances["communicator"].isin(state.communicators).to_numpy()
        if state.operations:
            good &= instances["operation"].isin(state.operations).to_numpy()
        return good


class Context:
    """What the server shows: its traces by name, and the folders that sources may come from.

    workers: those that pass over data sets; without, this process does.
    machine: a machine table that replaces those recorded (see derived.open_trace).
    """

    def __init__(
        self,
        paths: Sequence[Path],
        sources: Sequence[Path],
        workers: Workers | None = None,
        machine: dict[str, Any] | None = None,
    ) -> None:
        self.workers, self.machine = workers, machine
        self.sources = [path.resolve() for path in sources]
        self._paths: dict[str, Path] = {}
        for path in paths:
            name, number = path.resolve().name, 2
            while name in self._paths:
                name, number = f"{path.resolve().name} ({number})", number + 1
            self._paths[name] = path
        self._open: dict[str, tuple[Data, float, float]] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """The traces' names, in the order in which they were given."""
        return list(self._paths)

    def data(self, state: State | str) -> Data:
        """Return the newest Data of the trace that a state or a name means.

        TraceError when it is none of ours or can't be read.
        """
        name = (state.trace if isinstance(state, State) else state) or self.names[0]
        path = self._paths.get(name)
        if path is None:
            raise TraceError(f"{name[:300]}: not among the traces that this view was started with")
        with self._lock:
            known = self._open.get(name)
            now = time.monotonic()
            if known is not None and now < known[1] + PATIENCE * known[2]:
                return known[0]
            if known is not None and not known[0].has_grown():
                return known[0]
            try:
                data = Data(name, path, workers=self.workers, machine=self.machine)
            except MpiprofError:
                # It was readable before: show that rather than nothing.
                if known is None:
                    raise
                data = known[0]
            took = time.monotonic() - now
            self._open[name] = (data, time.monotonic(), max(took, 0.2))
            return data


def version_of(path: Path) -> str:
    """Return a text that changes when a file of the folder is written to, comes or goes."""
    newest, size, count = 0, 0, 0
    try:
        for entry in path.iterdir():
            if entry.suffix in (".log", ".tables", ".json", ".jsonl") and entry.is_file():
                status = entry.stat()
                newest = max(newest, status.st_mtime_ns)
                size += status.st_size
                count += 1
    except OSError:
        pass
    return f"{newest:x}-{size:x}-{count:x}"
