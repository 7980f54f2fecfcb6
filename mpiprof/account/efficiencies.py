"""Efficiencies of the POP method (pop-coe.eu) for a run and its phases.

    parallel efficiency = load balance x communication efficiency
    communication efficiency = serialisation efficiency x transfer efficiency

With the useful time of each rank (outside MPI) and the run time T:

    load balance = mean useful / max useful       communication = max useful / T
    serialisation = max useful / T ideal          transfer = T ideal / T

T ideal is the run time on an ideal network. A replay would compute it. Here, as in Cube's advisor,
it is the maximum over ranks of T minus the time in which the rank transfers data: its time in MPI
that is not waiting. Bounds are stated if the waiting is not known.

The speed-up of a program relative to its run on fewest ranks is the product of the ratio of the
numbers of ranks, the changes of load balance, serialisation and transfer efficiency, and the
computation efficiency: useful time of all ranks in the smallest run over that of the larger run. If
the work grows with the ranks (weak scaling), both the speed-up and the computation efficiency are
for equal work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from mpiprof.account.analysis_memory import fits_in_memory
from mpiprof.account.batch_map import BatchPass
from mpiprof.account.callsite_sums import divide
from mpiprof.account.instance_metrics import InstanceMetrics, take_complete
from mpiprof.account.message_callsite_sums import find_located_waits
from mpiprof.account.run_times import lacks_complete_instances
from mpiprof.account.sampling_estimates import callsite_scales
from mpiprof.account.wait_states import compute_waits
from mpiprof.trace.batch import Batch, take_columns
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

RUN = -1  # number of the row of the whole run
MESSAGE_CLASSES = ("point_to_point", "completion")
OTHER_CLASSES = ("one_sided", "files")
NOTABLE_LOSS = 0.02
FACTORS = ("load_balance", "serialisation", "transfer", "computation")
# If the waiting in MPI is not known, serialisation and transfer are not known separately.
JOINT_FACTORS = ("load_balance", "communication", "computation")
EFFICIENCIES = ("parallel", "load_balance", "communication", "serialisation", "transfer")
BOUNDS = tuple(
    f"{name}_{side}" for name in ("serialisation", "transfer") for side in ("low", "high")
)


@dataclass(frozen=True)
class RankTimes:
    """Times of the ranks in some windows of the run; ranks x windows, ns.

    present: time between start and end of the rank. mpi: time in MPI. wait_low, wait_high: bounds
    of the part of `mpi` in which the rank only waits for another rank.
    """

    present: Float
    mpi: Float
    wait_low: Float
    wait_high: Float


def make_efficiencies(trace: Trace) -> pd.DataFrame:
    """Return one row for the run (phase RUN) and one per phase of its costliest call site.

    phase, begin_ns, end_ns, useful_ns (of all ranks), parallel, load_balance, communication, and
    with `..._low` and `..._high` serialisation and transfer (NaN between different bounds). Ranks
    whose records are lost do not count. No row if ranks have several threads with calls, or the end
    of the run is unknown.
    """
    if trace.thread_count != trace.ranks or not trace.is_finalised or trace.duration_ns <= 0:
        return pd.DataFrame({"phase": []})
    begin = float(trace.calls_start_ns)
    run = np.array([begin, begin + trace.duration_ns])
    tables = [_tabulate(run, _run_times(trace, run)).assign(phase=RUN)]
    phases = trace.phases(trace.hot[0]) if trace.hot else pd.DataFrame()
    if len(phases) > 1:
        starts = phases["begin_ns"].to_numpy(np.float64)[1:]
        edges = np.concatenate([run[:1], np.clip(starts, *run), run[1:]])
        tables.append(_tabulate(edges, _phase_times(trace, edges)))
    table = pd.concat(tables, ignore_index=True)
    return table.astype({"begin_ns": np.int64, "end_ns": np.int64})


def _tabulate(edges: Float, times: RankTimes) -> pd.DataFrame:
    """Return one row per window."""
    columns = {"phase": np.arange(len(edges) - 1), "begin_ns": edges[:-1], "end_ns": edges[1:]}
    return pd.DataFrame(columns | compute_efficiencies(np.diff(edges), times))


def compute_efficiencies(duration_ns: Float, times: RankTimes) -> dict[str, Float]:
    """Return the efficiencies in each window, by column; NaN if there is no useful time."""
    useful = np.maximum(times.present - times.mpi, 0.0)
    mean, largest = useful.mean(0), useful.max(0, initial=0.0)
    ideal_low, ideal_high = (
        np.clip(duration_ns - np.maximum(times.mpi - wait, 0.0).min(0), largest, duration_ns)
        for wait in (times.wait_low, times.wait_high)
    )
    is_known = ideal_high - ideal_low <= 0.01 * duration_ns
    values = {
        "useful_ns": useful.sum(0),
        "parallel": divide(mean, duration_ns),
        "load_balance": divide(mean, largest),
        "communication": divide(largest, duration_ns),
    }
    serialisation = divide(largest, ideal_high), divide(largest, ideal_low)
    transfer = divide(ideal_low, duration_ns), divide(ideal_high, duration_ns)
    for name, bounds, estimate in (
        ("serialisation", serialisation, serialisation[1]),
        ("transfer", transfer, transfer[0]),
    ):
        values[name] = np.where(is_known, estimate, np.nan)
        values[f"{name}_low"], values[f"{name}_high"] = bounds
    return values


def bound_message_waits(trace: Trace, edges: Float, message_ns: Float) -> tuple[Float, Float]:
    """Return bounds of the waiting for messages: ranks x windows, ns.

    message_ns: time in calls on messages. The bounds differ if no call on messages is logged, but
    only sums (`--messages sums`).
    """
    fits = fits_in_memory(trace)
    if not (len(trace.message_calls) if fits else trace.has_message_events):
        return np.zeros_like(message_ns), message_ns
    sums = partial(sum_message_waits, edges=edges)
    by_part = [sums(trace)] if fits or len(edges) == 2 else trace.derive("in_windows")(sums)
    waits = np.minimum(np.sum(by_part, 0), message_ns)
    return waits, waits


def sum_message_waits(trace: Trace, edges: Float) -> Float:
    """Return the waits for messages by rank and by the window in which they begin, ns."""
    waits = find_located_waits(trace)
    begin, rank = waits["begin_ns"].to_numpy(np.float64), waits["rank"].to_numpy(np.int64)
    windows = len(edges) - 1
    window = np.clip(np.searchsorted(edges, begin, "right") - 1, 0, windows - 1)
    wait_ns = waits["wait_ns"].to_numpy(np.float64)
    sums = np.bincount(rank * windows + window, wait_ns, trace.ranks * windows)
    return sums.reshape(trace.ranks, windows).astype(np.float64)


def _run_times(trace: Trace, edges: Float) -> RankTimes:
    """Return the times of the ranks in the whole run."""
    if trace.record == "summary":
        sums = trace.summary.groupby("rank")["total_ns"].sum()
        elapsed = sums.reindex(range(trace.ranks), fill_value=0).to_numpy(np.float64)[:, None]
        outside = _outside_times(trace)
        return _join_times(trace, edges, elapsed, (0.0 * elapsed, elapsed), outside)
    elapsed, wait, overlap = _sum_batches(trace, edges)
    messages, other_calls = _outside_times(trace)
    outside = np.maximum(messages - overlap, 0.0), other_calls
    is_known = not lacks_complete_instances(trace)
    return _join_times(trace, edges, elapsed, (wait, wait if is_known else elapsed), outside)


def _phase_times(trace: Trace, edges: Float) -> RankTimes:
    """Return the times of the ranks in windows; a call is in the window in which it begins.

    One-sided communication and file access are not known by window and count as useful.
    """
    measure, scales = InstanceMetrics(trace), callsite_scales(trace)
    measure.callsites.update(trace.aggregate[1])
    shape = trace.ranks, len(edges) - 1
    (elapsed, wait, overlap), messages = np.zeros((3, *shape)), np.zeros(shape)
    for batch in trace.batches(before=True):
        ranks, sums = _sum_batch(measure, batch, edges, scales)
        for total, part in zip((elapsed, wait, overlap), sums, strict=True):
            total[ranks] += part
        if batch.before is not None:
            outside = np.maximum(batch.before.outside, 0)
            messages[ranks] += _by_window(batch.arrival_ns - outside, outside, edges)
    outside_times = np.maximum(messages - overlap, 0.0), np.zeros(shape)
    return _join_times(trace, edges, elapsed, (wait, wait), outside_times)


def _join_times(
    trace: Trace,
    edges: Float,
    elapsed: Float,
    wait: tuple[Float, Float],
    outside: tuple[Float, Float],
) -> RankTimes:
    """Return the times of the ranks from those in collectives and outside collectives.

    outside: time in messages, and in one-sided communication and files.
    """
    messages, other_calls = outside
    present = np.zeros((trace.ranks, len(edges) - 1))
    for rank, (first, last) in trace.spans.items():
        present[rank] = np.maximum(np.minimum(last, edges[1:]) - np.maximum(first, edges[:-1]), 0)
    waits = bound_message_waits(trace, edges, messages)
    mpi = np.minimum(elapsed + messages + other_calls, present)
    low, high = (np.minimum(wait[i] + waits[i], mpi) for i in range(2))
    lost = [*trace.ranks_without_records]  # their time in MPI is unknown
    return RankTimes(*(np.delete(times, lost, axis=0) for times in (present, mpi, low, high)))


def _outside_times(trace: Trace) -> tuple[Float, Float]:
    """Return the time of each rank in messages, and in one-sided communication and files."""
    spent = trace.spent[[*MESSAGE_CLASSES, *OTHER_CLASSES]].to_numpy(np.float64)
    if trace.derive("coverage") is not None or np.isnan(spent).any():
        # The sums of the threads are of the whole run, or unknown.
        messages = np.asarray(trace.point_to_point, np.float64)[:, None]
        return messages, np.zeros_like(messages)
    first = len(MESSAGE_CLASSES)
    return spent[:, :first].sum(1, keepdims=True), spent[:, first:].sum(1, keepdims=True)


def _sum_batches(trace: Trace, edges: Float) -> tuple[Float, Float, Float]:
    """Return ns in collectives, of it waiting, and in their Wait calls; ranks x windows."""
    sums = np.zeros((3, trace.ranks, len(edges) - 1))
    over = BatchPass(trace, _sum_batch, edges, callsite_scales(trace), known=trace.aggregate[1])
    for part in over:
        ranks, values = part.value
        sums[:, ranks] += values
    elapsed, wait, overlap = sums
    return elapsed, wait, overlap


def _sum_batch(
    measure: InstanceMetrics, batch: Batch, edges: Float, scales: Float
) -> tuple[Int, Float]:
    """Return the ranks of a batch, and the sums of `_sum_batches` for them."""
    ranks = batch.communicator.ranks
    sums = np.zeros((3, len(ranks), len(edges) - 1))
    for signature, index in measure.group_by_signature(batch):
        scale = float(scales[signature.callsite])
        begin, elapsed = (take_columns(m, index) for m in (batch.begin_ns, batch.elapsed_ns))
        sums[0] += scale * _by_window(begin, elapsed, edges)
        if batch.begin_ns is not batch.arrival_ns:
            # The time of a Wait is also in the sums of completion calls.
            inside = np.maximum(take_columns(batch.exit_ns, index) - begin, 0)
            sums[2] += scale * _by_window(begin, np.minimum(inside, elapsed), edges)
        arrival, begin, finish = take_complete(batch, signature, index)
        if signature.state is not None and len(arrival) > 1 and arrival.shape[1]:
            wait = compute_waits(arrival, begin, finish, signature.group)
            sums[1] += scale * _by_window(begin, wait, edges)
    return ranks, sums


def _by_window(begin: Int, time: Int, edges: Float) -> Float:
    """Return the sums of times (ranks x instances) by the window in which they begin."""
    windows = len(edges) - 1
    if windows == 1:
        return np.asarray(time.sum(1, dtype=np.float64)[:, None])
    window = np.clip(np.searchsorted(edges, begin, "right") - 1, 0, windows - 1)
    cell = np.arange(len(begin))[:, None] * windows + window
    sums = np.bincount(cell.ravel(), time.ravel(), len(begin) * windows)
    return np.asarray(sums.reshape(len(begin), windows))


@dataclass(frozen=True)
class Scaling:
    """Table of `make_scaling`, and the factor that loses most from the smallest run to the largest.

    factor: one of FACTORS or JOINT_FACTORS, "" if none loses NOTABLE_LOSS. before, after: its
    values.
    """

    table: pd.DataFrame
    is_weak: bool
    factor: str
    before: float
    after: float


def judge_scaling(traces: Sequence[Trace]) -> Scaling:
    """Return the scaling of some runs with at least two numbers of ranks."""
    table = _mean_runs(traces)
    first, last = table.iloc[0], table.iloc[-1]
    ratio = (table["ranks"] / first["ranks"]).to_numpy(np.float64)
    # Half-way between constant work of all ranks and constant work of each rank.
    is_weak = bool(last["useful_ns"] / first["useful_ns"] > math.sqrt(ratio[-1]))
    work = ratio if is_weak else np.ones(len(ratio))
    table["speedup"] = work * first["run_ns"] / table["run_ns"]
    table["ideal_speedup"] = ratio
    table["computation"] = work * first["useful_ns"] / table["useful_ns"]
    first, last = table.iloc[0], table.iloc[-1]
    factors = JOINT_FACTORS if math.isnan(first["transfer"] + last["transfer"]) else FACTORS
    losses = {name: 1 - last[name] / first[name] for name in factors}
    factor = max(losses, key=lambda name: losses[name])
    if not losses[factor] >= NOTABLE_LOSS:
        return Scaling(table, is_weak, "", math.nan, math.nan)
    return Scaling(table, is_weak, factor, float(first[factor]), float(last[factor]))


def _mean_runs(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return one row per number of ranks, ascending: runs and means over these runs.

    ranks, runs, run_ns, useful_ns (of all ranks), EFFICIENCIES and BOUNDS; NaN if unknown.
    """
    rows = []
    for trace in traces:
        table = trace.efficiencies
        run = table[table["phase"] == RUN].to_dict("records")
        values = run[0] if run else {}
        row = {"ranks": trace.ranks, "run_ns": float(trace.duration_ns)}
        rows.append(
            row | {n: values.get(n, math.nan) for n in ("useful_ns", *EFFICIENCIES, *BOUNDS)}
        )
    groups = pd.DataFrame(rows).groupby("ranks")
    means = groups.mean()
    means.insert(0, "runs", groups.size())
    return means.reset_index()
