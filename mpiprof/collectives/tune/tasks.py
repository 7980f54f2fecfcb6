"""Extracts tuning tasks from a trace: for each call site its problems and arrival patterns.

A `Work` comprises the calls of a call site with equal operation, communicator sizes and size class
(of the bytes that all members know). A plan's entry can distinguish works. Some instances of each
work are stored, spread over its phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from mpiprof.account.instance_metrics import InstanceMetrics
from mpiprof.account.instance_rows import Signature
from mpiprof.account.problem_size import class_span, known_bytes, make_problem, size_classes
from mpiprof.causes.tuning_refusal import find_refusal
from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.tune.rules import NATIVE
from mpiprof.errors import TraceError, UsageError
from mpiprof.interface.nearest_name import suggest_names
from mpiprof.interface.progress import show_work
from mpiprof.trace.batch import Batch
from mpiprof.trace.metadata import Communicator
from mpiprof.trace.sites import Site, describe_sites, label_site
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array, Float, Int

MAX_CELLS = 1 << 20  # array elements stored for a work while the trace is read
MAX_ROWS = 256


@dataclass(frozen=True)
class Pattern:
    """One recorded instance: its problem, and arrivals and exits by process, ns since the first."""

    problem: Problem
    arrivals: Float
    exits: Float
    weight: float  # the share of the work's instances that it represents


@dataclass(frozen=True)
class TuningTask:
    """Calls that one entry of a plan can address."""

    callsite: int
    operation: str
    sites: tuple[str, ...]  # file:line as the communicator's rank 0 sees it, empty if unknown
    label: str  # call site for the user
    size: int
    remote_size: int
    ranks: tuple[int, ...]  # world ranks of the members, the remote group last
    nodes: tuple[int, ...]  # node index of each member
    bytes: tuple[int, int] | None  # of the size class, None if no member knows all sizes
    algorithm: str  # the recorded one
    instances: int
    elapsed_ns: float  # over all ranks and instances
    patterns: tuple[Pattern, ...]

    @property
    def members(self) -> int:
        """Number of processes in both groups, which is the size in a plan."""
        return self.size + self.remote_size


@dataclass
class _Rows:
    """Instances of one key: all are counted, and every `stride`-th is stored."""

    key: tuple[Any, ...]
    communicator: Communicator
    root: int
    instances: int = 0
    elapsed: float = 0.0
    stride: int = 1
    # Position, and arrivals, exits, bytes sent and received by process.
    rows: list[tuple[int, Int]] = field(default_factory=list)


def list_works(trace: Trace, max_patterns: int) -> list[TuningTask]:
    """Return all works of a trace, the costliest first; raises TraceError without arrivals."""
    if trace.record == "summary":
        raise TraceError(f"{trace.path}: {find_refusal(trace)}")
    labels = _Labels(trace)
    groups: dict[tuple[Any, ...], list[_Rows]] = {}
    for rows in _collect_rows(trace).values():
        groups.setdefault(rows.key[:-1], []).append(rows)
    works = [_make_work(trace, group, labels, max_patterns) for group in groups.values()]
    return sorted((w for w in works if w.patterns), key=lambda w: -w.elapsed_ns)


# ---- reading


def _collect_rows(trace: Trace) -> dict[tuple[Any, ...], _Rows]:
    measure = InstanceMetrics(trace)
    operations = {a.operation for a in load_catalogue()}
    rows_by_key: dict[tuple[Any, ...], _Rows] = {}
    for batch in trace.batches():
        parts = list(measure.group_by_signature(batch))
        keys, algorithms = list(measure.callsites), list(measure.algorithms)
        for signature, index in parts:
            key = keys[signature.callsite]
            has_algorithms = key.operation in operations and not key.started
            communicator = batch.communicator
            has_all_members = not (communicator.is_local or communicator.is_partial)
            if not (has_algorithms and has_all_members and signature.is_whole):
                continue
            columns = np.arange(len(batch))[index]
            columns = columns[(batch.exit_ns[:, columns] != 0).all(0)]
            if len(columns):
                _add(rows_by_key, trace, batch, signature, algorithms[signature.algorithm], columns)
    return rows_by_key


def _add(
    rows_by_key: dict[tuple[Any, ...], _Rows],
    trace: Trace,
    batch: Batch,
    signature: Signature,
    algorithm: str,
    columns: Int,
) -> None:
    communicator = batch.communicator
    sizes = communicator.sizes
    sent = _known_volumes(batch.sent, signature.sent, columns)
    received = _known_volumes(batch.received, signature.received, columns)
    byte_counts = known_bytes(signature.base, sizes, sent, received)
    classes = size_classes(byte_counts)
    shapes = batch.shape[:, columns[0]]
    heads = [0, sizes[0]] if communicator.is_inter else [0]  # rank 0 of each group
    sites = tuple(sorted({trace.tables.shapes[int(shapes[h])].site for h in heads}))
    for size_class in np.unique(classes).tolist():
        chosen = classes == size_class
        key = (signature.callsite, signature.base, sites, *sizes, size_class, algorithm)
        if key not in rows_by_key:
            rows_by_key[key] = _Rows(key, communicator, signature.group.root)
        part = columns[chosen]
        values = (batch.arrival_ns[:, part], batch.exit_ns[:, part], sent[:, chosen])
        _store_instances(rows_by_key[key], np.stack([*values, received[:, chosen]]))
        rows_by_key[key].elapsed += float(batch.elapsed_ns[:, part].sum())


def _known_volumes(recorded: Int | None, signature_volumes: Int, columns: Int) -> Int:
    all_volumes = np.broadcast_to(
        signature_volumes[:, None], (len(signature_volumes), len(columns))
    )
    if recorded is None:
        return all_volumes
    return np.where(recorded[:, columns] >= 0, recorded[:, columns], all_volumes)


def _store_instances(rows: _Rows, columns: Int) -> None:
    """Add instances (4 x processes x instances), and thin out if there are too many."""
    max_rows = max(8, min(MAX_ROWS, MAX_CELLS // (4 * columns.shape[1])))
    count = columns.shape[2]
    while len(rows.rows) + count // rows.stride > 2 * max_rows:
        rows.stride *= 2
        rows.rows = [row for row in rows.rows if row[0] % rows.stride == 0]
    for i in range(-rows.instances % rows.stride, count, rows.stride):
        rows.rows.append((rows.instances + i, columns[:, :, i].copy()))
    rows.instances += count


# ---- building works


def _short_name(frame: Site) -> str:
    return f"{PurePath(frame['file'] or '').name}:{frame['line']}"


class _Labels:
    """Frames of call sites, and their names in plans."""

    def __init__(self, trace: Trace) -> None:
        tables = trace.tables
        described = describe_sites(tables.sites, [[i] for i in range(len(tables.sites))])
        self.frames = [d[0] for d in described]
        files: dict[str, set[str]] = {}
        for frame in self.frames:
            files.setdefault(_short_name(frame), set()).add(frame["file"])
        self.ambiguous = {name for name, paths in files.items() if len(paths) > 1}

    def plan_site(self, site: int) -> str:
        """Return file:line as in a plan, with folders if the name alone is ambiguous."""
        frame = self.frames[site] if site >= 0 else None
        if frame is None or not frame["file"] or not frame["line"]:
            return ""
        name = _short_name(frame)
        return f"{frame['file']}:{frame['line']}" if name in self.ambiguous else name


def _make_work(
    trace: Trace, group: Sequence[_Rows], labels: _Labels, max_patterns: int
) -> TuningTask:
    # Occasional calls on other algorithms (a selector's probes) are counted with the rest.
    main = max(group, key=lambda rows: (rows.key[-1] == NATIVE, rows.instances))
    callsite, operation, sites, size, remote, size_class, algorithm = main.key
    ranks = tuple(main.communicator.ranks.tolist())
    names = list(dict.fromkeys(trace.node_ids.get(rank, "?") for rank in range(trace.ranks)))
    patterns = [labels.plan_site(site) for site in sites]
    ends = _find_phase_ends(trace, callsite)
    return TuningTask(
        callsite,
        operation,
        sites=tuple(patterns) if all(patterns) else (),
        label=label_site(labels.frames[sites[0]]) if sites[0] >= 0 else "?",
        size=size,
        remote_size=remote,
        ranks=ranks,
        nodes=tuple(names.index(trace.node_ids.get(rank, "?")) for rank in ranks),
        bytes=class_span(size_class),
        algorithm=algorithm,
        instances=sum(rows.instances for rows in group),
        elapsed_ns=sum(rows.elapsed for rows in group),
        patterns=_sample_patterns(main, operation, (size, remote), ends, max_patterns),
    )


def _find_phase_ends(trace: Trace, callsite: int) -> Array:
    """Return the ends of a call site's phases, or [] if phases are not computed for the site."""
    if callsite not in trace.hot:
        return np.zeros(0, np.int64)
    return np.asarray(trace.phases(callsite)["end_ns"].to_numpy(np.int64))


def _sample_patterns(
    rows: _Rows, operation: str, sizes: tuple[int, int], ends: Array, max_patterns: int
) -> tuple[Pattern, ...]:
    """Return stored instances in proportion to the phases' lengths, at least two per phase."""
    first = np.array([columns[0].min() for _, columns in rows.rows], np.int64)
    phase = np.searchsorted(ends, first, "left")
    patterns = []
    for phase_index in np.unique(phase).tolist():
        inside = np.flatnonzero(phase == phase_index)
        share = len(inside) / len(first)
        count = min(len(inside), max(2, round(share * max_patterns)))
        for i in inside[(np.arange(count) * len(inside)) // count].tolist():
            arrivals, exits, sent, received = rows.rows[i][1]
            problem = make_problem(operation, sizes, rows.root, sent, received)
            arrival_ns, exit_ns = ((t - first[i]).astype(np.float64) for t in (arrivals, exits))
            patterns.append(Pattern(problem, arrival_ns, exit_ns, share / count))
    return tuple(patterns)


def choose_works(trace: Trace, most_patterns: int, site: str | None) -> list[TuningTask]:
    """Return the works of a trace, or of one call site if named; UsageError if there is none."""
    with show_work(f"reading {trace.path}"):
        works = list_works(trace, most_patterns)
    if site is None:
        return works
    matching = [w for w in works if site in f"{w.operation} {w.label}" or site in w.sites]
    if not matching:
        names = dict.fromkeys(name for w in works for name in (w.sites or (w.label,)))
        suggestion = suggest_names(site, list(names)[:50]) if names else "none was recorded"
        raise UsageError(f"--site {site}: no such call site in {trace.path}; {suggestion}")
    return matching
