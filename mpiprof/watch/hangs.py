"""Telling a job that hangs: what is said when nothing has been called for some time, and done.

A rank that computes is told from one that hangs by its processor time. Of the ranks of other nodes
those who look after them there say so, in files beside the trace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mpiprof
from mpiprof.analysis import positions
from mpiprof.analysis.hang import Verdict
from mpiprof.analysis.positions import Position
from mpiprof.errors import MpiprofError
from mpiprof.invocation import command
from mpiprof.launch.options import ABORT
from mpiprof.output import append_in, mode_in, replace_file
from mpiprof.reports import hang, patience
from mpiprof.trace import Trace
from mpiprof.units import duration, named
from mpiprof.watch.node import Node, Use

COMPUTES = 0.02  # of a processor since the last call: what sleeps between looks uses less
AGAIN_S = 2.0  # between looks at a job in which somebody computes
STALE_S, LATE_S = 30.0, 60.0  # what another node has said; how long it is waited for
# What no sound program does, whoever computes.
SURE = ("operation", "root", "count", "type", "reduction", "order", "dead")
LAUNCHERS = re.compile(r"(PMI|PMIX|OMPI|PRTE|HYDI|HYDRA|MPI|MPIPROF)_.*|LD_PRELOAD")


@dataclass(frozen=True)
class Wanted:
    """What was asked for: the time without a call, and what is then to be done; "" nothing."""

    limit_s: float
    on_hang: str = ""


class Hangs:
    """Looks at a job in which nothing is called, and speaks once for each time that it hangs."""

    def __init__(self, wanted: Wanted, folder: Path, node: Node, speaks: bool) -> None:
        self.wanted, self.folder, self.node = wanted, folder, node
        self.speaks = speaks
        self.told = False
        self.next_s = 0.0

    def moved(self) -> None:
        """Note that something was called."""
        if self.told:
            patience.forget(self.folder)
        self.told, self.next_s = False, 0.0

    def quiet(self, since: float, used: Mapping[int, Use]) -> list[str]:
        """Return what is to be said where nothing has been called here since a time.

        used: what each rank had had of the processors at that time.
        """
        seconds = time.monotonic() - since
        if seconds > self.wanted.limit_s / 2 and self.speaks:
            import mpiprof.analysis.derived  # noqa: F401 (slow; a hung job leaves us little time)

        if self.told or seconds < self.wanted.limit_s or time.monotonic() < self.next_s:
            return []
        shares = self.node.shares(used, seconds)
        if not self.speaks:
            self._tell_others(seconds, shares)
            return []
        others = self._said_elsewhere(seconds)
        if others is None:
            return []
        began = time.process_time()
        try:
            lines = self._conclude(since, used, {**others, **shares})
        except MpiprofError:  # it is being written; the next look finds it whole
            lines = []
        self.told = bool(lines)
        # A look may cost a sixth of a processor; waiting for one, on a crowded machine, is no cost.
        self.next_s = time.monotonic() + max(AGAIN_S, 5 * (time.process_time() - began))
        return lines

    def _conclude(
        self, since: float, used: Mapping[int, Use], shares: Mapping[int, float]
    ) -> list[str]:
        trace = mpiprof.open(self.folder)
        if len(trace.tables.processes) < trace.ranks:
            return []
        if trace.tables.limits or trace.unwritten:
            why = "logs have reached their limit" if trace.tables.limits else _lacks(trace)
            return [f"{_silence(since)}; where ranks are is not known, as {why}"]
        found, pending = positions.find(trace)
        verdict = hang.verdict(trace, found, pending, patience.of_limit(self.wanted.limit_s))
        if not verdict.is_bad or verdict.kind == "stalled":
            return []
        sure = verdict.kind in SURE or verdict.why == "finished"
        # Of threads the verdict has looked at those of this node: what is in MPI may poll.
        elsewhere = set(verdict.spare) - self.node.ranks.keys()
        others = {p.rank for p in found if _is_outside(p)} | elsewhere
        if not sure and any(shares.get(rank, 0.0) > COMPUTES for rank in others):
            return []
        if verdict.kind == "undecided" and not verdict.spare and self._is_crowded(since, used):
            return []
        patience.keep(self.folder, self.wanted.limit_s)  # `status` is to say the same
        told = hang.text(trace, found, verdict)
        lines = [f"{_silence(since)}. {hang.title(verdict)}: {told}"]
        if self.wanted.on_hang:
            lines.append(f"--on-hang: {self._act(trace, verdict)}")
        lines.append(f"next: {command('status', self.folder)}")
        return lines

    def _is_crowded(self, since: float, used: Mapping[int, Use]) -> bool:
        """Return whether a rank here could have gone on for less than the limit.

        Where all have come to a collective, that it takes long is all that speaks against them; and
        so it does where other processes have the processors.
        """
        free_s = time.monotonic() - since - self.node.longest_wait_s(used)
        return free_s < self.wanted.limit_s

    def _act(self, trace: Trace, verdict: Verdict) -> str:
        """Do what was asked for; returns what that is."""
        if self.wanted.on_hang == ABORT:
            return "the job is ended"
        ranks = [rank for rank in verdict.odd_ranks if rank in self.node.ranks]
        pids = [self.node.ranks[rank].pid for rank in ranks or sorted(self.node.ranks)]
        environment = {n: v for n, v in os.environ.items() if not LAUNCHERS.fullmatch(n)} | {
            "HANG_TRACE": str(trace.path),
            "HANG_VERDICT": verdict.kind,
            "HANG_RANKS": " ".join(map(str, verdict.odd_ranks)),
            "HANG_PIDS": " ".join(map(str, pids)),
        }
        output = self.folder / "on-hang.txt"
        try:
            with append_in(self.folder, output.name) as into:
                subprocess.Popen(
                    ["/bin/sh", "-c", self.wanted.on_hang],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=into,
                    stderr=into,
                    start_new_session=True,
                )
        except OSError as error:
            return f"can't be started: {error.strerror}"
        return f"started; what it prints is in {output}"

    @property
    def ends_job(self) -> bool:
        """Whether the job is to be ended once it was said that it hangs."""
        return self.told and self.wanted.on_hang == ABORT

    # Several nodes

    def _file(self, node: str) -> Path:
        return self.folder / f".watch-{re.sub('[^A-Za-z0-9._-]', '-', node)}"

    def _tell_others(self, seconds: float, shares: Mapping[int, float]) -> None:
        path = self._file(self.node.name)
        told = {"at": time.time(), "quiet_s": seconds, "shares": dict(shares)}
        with contextlib.suppress(OSError):
            replace_file(path, json.dumps(told), mode_in(self.folder))
        self.next_s = time.monotonic() + 1.0

    def _said_elsewhere(self, seconds: float) -> dict[int, float] | None:
        """Return the shares of other nodes' ranks; None: something was called there, or may be.

        Who says nothing for long has ended, or has no leader that could: then we go by the logs.
        """
        shares: dict[int, float] = {}
        for node in set(self.node.nodes.values()) - {self.node.name}:
            try:
                told = json.loads(self._file(node).read_text())
                fresh = time.time() - float(told["at"]) < STALE_S
                found = {int(rank): float(share) for rank, share in told["shares"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                fresh, found = False, {}
            if fresh:
                shares |= found
            elif seconds < self.wanted.limit_s + LATE_S:
                return None
        return shares


def _lacks(trace: Trace) -> str:
    return f"records of {named(sorted(trace.unwritten))} could not be written"


def _silence(since: float) -> str:
    return f"nothing has been entered or left for {duration((time.monotonic() - since) * 1e9)}"


def _is_outside(position: Position) -> bool:
    """Whether a rank is outside MPI: what it uses there is no polling."""
    return not (position.finished or position.open or position.between)
