"""Detects a job that hangs, reports it, and takes the requested action.

Processor time distinguishes a rank that computes from one that hangs. The agents on other nodes
report their ranks' processor time in files beside the trace.
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
from mpiprof.errors import MpiprofError
from mpiprof.hang import hang_threshold, job_verdict, rank_state
from mpiprof.hang.node_processes import Node, ProcessorUse
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import verdict_text
from mpiprof.interface.format_units import format_ranks, format_time
from mpiprof.interface.output_files import file_mode_in, open_for_append, replace_file
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.untrusted_files import read_json
from mpiprof.launch.options import ABORT_ACTION
from mpiprof.trace import Trace

# Share of a processor since the last call; a process that sleeps between checks uses less.
MIN_COMPUTING_SHARE = 0.02
RECHECK_S = 2.0  # between checks of a job in which a rank computes
# Validity of another node's report, and the time for which a node's report is awaited.
STALE_S, LATE_S = 30.0, 60.0
# Errors that prove a hang, even if some rank computes.
CERTAIN_KINDS = ("operation", "root", "count", "type", "reduction", "calls", "order", "dead")
LAUNCHER_VARIABLES = re.compile(r"(PMI|PMIX|OMPI|PRTE|HYDI|HYDRA|MPI|MPIPROF)_.*|LD_PRELOAD")


@dataclass(frozen=True)
class HangRequest:
    """Request of the user: the time without a call, and the action then; "" for none."""

    limit_s: float
    on_hang: str = ""


class HangDetector:
    """Examines a job without calls, and reports once for each hang."""

    def __init__(self, request: HangRequest, folder: Path, node: Node, speaks: bool) -> None:
        self.wanted, self.folder, self.node = request, folder, node
        self.speaks = speaks
        self.told = False
        self.next_s = 0.0

    def record_call(self) -> None:
        """Record that a call was made."""
        if self.told:
            hang_threshold.remove_limit(self.folder)
        self.told, self.next_s = False, 0.0

    def check_silence(self, since: float, used: Mapping[int, ProcessorUse]) -> list[str]:
        """Return messages if this node made no call `since`; `used`: processor use at that time."""
        seconds = time.monotonic() - since
        if seconds > self.wanted.limit_s / 2 and self.speaks:
            # Imported early, because it is slow and a hung job leaves little processor time.
            import mpiprof.causes.lazy_tables  # noqa: F401

        if self.told or seconds < self.wanted.limit_s or time.monotonic() < self.next_s:
            return []
        shares = self.node.processor_shares(used, seconds)
        if not self.speaks:
            self._publish_shares(seconds, shares)
            return []
        other_shares = self._read_other_shares(seconds)
        if other_shares is None:
            return []
        began = time.process_time()
        try:
            lines = self._report_hang(since, used, {**other_shares, **shares})
        except MpiprofError:  # the trace is being written; the next check finds it whole
            lines = []
        self.told = bool(lines)
        # A check may cost a sixth of a processor. Waiting for a processor on a crowded machine is
        # no cost.
        self.next_s = time.monotonic() + max(RECHECK_S, 5 * (time.process_time() - began))
        return lines

    def _report_hang(
        self, since: float, used: Mapping[int, ProcessorUse], shares: Mapping[int, float]
    ) -> list[str]:
        trace = mpiprof.open(self.folder)
        if len(trace.tables.processes) < trace.ranks:
            return []
        if trace.tables.limits or trace.unwritten_ranks:
            lost = format_ranks(sorted(trace.unwritten_ranks))
            why = f"records of {lost} could not be written"
            if trace.tables.limits:
                why = "logs have reached their limit"
            return [f"{_describe_silence(since)}; the state of the ranks is unknown, because {why}"]
        positions, pending = rank_state.find(trace)
        threshold = hang_threshold.make_threshold(self.wanted.limit_s)
        verdict = job_verdict.find_verdict(trace, positions, pending, threshold)
        if not verdict.is_bad or verdict.kind == "stalled":
            return []
        sure = verdict.kind in CERTAIN_KINDS or verdict.reason == "finished" or verdict.cycle
        # Threads of this node are already part of the verdict: a thread in MPI may poll.
        elsewhere = set(verdict.may_still_arrive) - self.node.ranks.keys()
        outside = {p.rank for p in positions if not (p.finished or p.open or p.between)}
        free_ranks = outside | elsewhere
        if not sure and any(shares.get(rank, 0.0) > MIN_COMPUTING_SHARE for rank in free_ranks):
            return []
        all_arrived = verdict.kind == "undecided" and not verdict.may_still_arrive
        if all_arrived and self._is_crowded(since, used):
            return []
        # `status` reads this limit and therefore reports the same hang.
        hang_threshold.store_limit(self.folder, self.wanted.limit_s)
        report = verdict_text.format_verdict(trace, positions, verdict)
        lines = [f"{_describe_silence(since)}. {verdict_text.verdict_title(verdict)}: {report}"]
        if self.wanted.on_hang:
            lines.append(f"--on-hang: {self._take_action(trace, verdict)}")
        lines.append(f"next: {format_command('status', self.folder)}")
        return lines

    def _is_crowded(self, since: float, used: Mapping[int, ProcessorUse]) -> bool:
        """Return whether the processors were free for less than the limit since the last call."""
        # If all ranks have entered a collective, its duration is the only evidence of a hang. It is
        # no evidence if other processes used the processors.
        free_s = time.monotonic() - since - self.node.longest_wait_s(used)
        return free_s < self.wanted.limit_s

    def _take_action(self, trace: Trace, verdict: HangVerdict) -> str:
        """Take the requested action, and return a description of it."""
        if self.wanted.on_hang == ABORT_ACTION:
            return "aborting the job"
        ranks = [rank for rank in verdict.odd_ranks if rank in self.node.ranks]
        pids = [self.node.ranks[rank].pid for rank in ranks or sorted(self.node.ranks)]
        inherited = {n: v for n, v in os.environ.items() if not LAUNCHER_VARIABLES.fullmatch(n)}
        environment = inherited | {
            "HANG_TRACE": str(trace.path),
            "HANG_VERDICT": verdict.kind,
            "HANG_RANKS": " ".join(map(str, verdict.odd_ranks)),
            "HANG_PIDS": " ".join(map(str, pids)),
        }
        output = self.folder / "on-hang.txt"
        try:
            with open_for_append(self.folder, output.name) as into:
                subprocess.Popen(
                    ["/bin/sh", "-c", self.wanted.on_hang],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=into,
                    stderr=into,
                    start_new_session=True,
                )
        except OSError as error:
            return f"cannot be started: {error.strerror}"
        return f"started; its output is in {output}"

    @property
    def ends_job(self) -> bool:
        """True if the job must be ended after the report."""
        return self.told and self.wanted.on_hang == ABORT_ACTION

    # ---- several nodes

    def _shares_file(self, node: str) -> Path:
        return self.folder / f".watch-{re.sub('[^A-Za-z0-9._-]', '-', node)}"

    def _publish_shares(self, seconds: float, shares: Mapping[int, float]) -> None:
        path = self._shares_file(self.node.name)
        shared = {"at": time.time(), "quiet_s": seconds, "shares": dict(shares)}
        with contextlib.suppress(OSError):
            replace_file(path, json.dumps(shared), file_mode_in(self.folder))
        self.next_s = time.monotonic() + 1.0

    def _read_other_shares(self, seconds: float) -> dict[int, float] | None:
        """Return the shares of other nodes' ranks; None if a node is active, or if that is open."""
        shares: dict[int, float] = {}
        for node in set(self.node.nodes.values()) - {self.node.name}:
            try:
                content = read_json(self._shares_file(node))
                fresh = time.time() - float(content["at"]) < STALE_S
                node_shares = {int(rank): float(share) for rank, share in content["shares"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                fresh, node_shares = False, {}
            if fresh:
                shares |= node_shares
            # A node without a report for long has ended, or has no agent. Then only the logs count.
            elif seconds < self.wanted.limit_s + LATE_S:
                return None
        return shares


def _describe_silence(since: float) -> str:
    return f"no call has begun or ended for {format_time((time.monotonic() - since) * 1e9)}"
