"""Lateness of each rank of a call site in the sampled instances, and its components."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pandas as pd

from mpiprof.account.variance_components import (
    UNKNOWN_ESTIMATE,
    Estimate,
    centre_columns,
    jackknife_estimate,
    nodes_differ,
    number_stretches,
    subtract_median_of_others,
    sum_groups,
)
from mpiprof.causes.habits.work_matrix import number_nodes
from mpiprof.causes.sampling import SamplePart
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

MAX_EFFECTS = 1 << 17  # ranks x phases; beyond this limit phases are joined


class LatenessSamples:
    """Sampled instances of a call site, with their stretch of the run and their phase.

    Matrices by rank are in the order of `ranks`, the world ranks that take part, ascending.
    """

    def __init__(self, trace: Trace, parts: list[SamplePart], phases: pd.DataFrame) -> None:
        self.trace, self.parts = trace, parts
        self.least = float(trace.clock_error_ns)
        first = [part.arrival_ns.min(0) for part in parts]
        starts = _concatenate(first)
        self.instances = len(starts)
        stretch = np.empty(len(starts), np.int64)
        stretch[np.argsort(starts, kind="stable")] = number_stretches(len(starts))
        self.stretches = int(stretch.max(initial=0)) + 1
        self.ranks = np.unique(_concatenate([part.ranks for part in parts]))
        self.groups = len({part.ranks.tobytes() for part in parts})
        begins = phases["begin_ns"].to_numpy(np.int64)[1:]
        if (len(begins) + 1) * len(self.ranks) > MAX_EFFECTS:
            begins = begins[:0]
        self.phases = len(begins) + 1
        edges = np.cumsum([len(part) for part in first])[:-1]
        self.stretch = np.split(stretch, edges)
        self.phase = np.split(np.searchsorted(begins, starts, "right"), edges)
        # In a sampled trace, the record before a call is not the rank's previous collective.
        self.sampled = trace.meta.get("sample", 1) not in (1, None)
        self.node_names, self.node = number_nodes(trace, self.ranks)

    def iterate_parts(self) -> Iterator[tuple[SamplePart, Int, Int, Int]]:
        """Yield each part, the columns of its ranks, and the stretch and phase of its instances."""
        for part, stretch, phase in zip(self.parts, self.stretch, self.phase, strict=False):
            yield part, np.searchsorted(self.ranks, part.ranks), stretch, phase

    def imbalance_shares(self) -> tuple[list[Estimate], list[Estimate]]:
        """Return the imbalances of arrivals, exits, between and point-to-point, and the shares.

        `_origin_shares` computes the shares.
        """
        if not self.instances:
            return [UNKNOWN_ESTIMATE] * 4, [UNKNOWN_ESTIMATE] * 4
        sums = np.zeros((self.stretches, 9))
        for part, _, stretch, _ in self.iterate_parts():
            arrival = part.arrival_ns.astype(np.float64)
            sums[:, 0] += np.bincount(stretch, minlength=self.stretches)
            sums[:, 1] += np.bincount(stretch, np.ptp(arrival, axis=0), self.stretches)
            exit_known = (part.before.exit > 0).all(0)
            if self.sampled or not exit_known.any():
                continue
            arrival, stretch = np.compress(exit_known, arrival, axis=1), stretch[exit_known]
            exit_ns = np.compress(exit_known, part.before.exit, axis=1).astype(np.float64)
            messages = np.compress(exit_known, part.before.outside, axis=1).astype(np.float64)
            a = centre_columns(arrival)
            values = (
                np.ones(len(stretch)),
                np.ptp(exit_ns, axis=0),
                np.ptp(arrival - exit_ns, axis=0),
                np.ptp(messages, axis=0),
                (a * a).sum(0),
                (a * centre_columns(exit_ns)).sum(0),
                (a * centre_columns(messages)).sum(0),
            )
            for i, value in enumerate(values, 2):
                sums[:, i] += np.bincount(stretch, value, self.stretches)
        spreads = jackknife_estimate(sums, _imbalance_means, (0.0, np.inf))
        return spreads, jackknife_estimate(sums, _origin_shares, (0.0, 1.0))

    @cached_property
    def effect_sums(self) -> Float:
        """Sums for the analysis of variance, one row per stretch.

        Number of instances, sum of squares, then counts and sums of lateness per phase and rank.
        Lateness is after the mean arrival of the instance.
        """
        sums_of_stretches = np.zeros((self.stretches, 2))
        sums = np.zeros((2, self.stretches * self.phases, len(self.ranks)))
        for part, columns, stretch, phase in self.iterate_parts():
            a = centre_columns(part.arrival_ns.astype(np.float64))
            sums_of_stretches[:, 0] += np.bincount(stretch, minlength=self.stretches)
            sums_of_stretches[:, 1] += np.bincount(stretch, (a * a).sum(0), self.stretches)
            group = stretch * self.phases + phase
            sums[0][:, columns] += np.bincount(group, minlength=sums.shape[1])[:, None]
            sums[1][:, columns] += sum_groups(a, group, sums.shape[1])
        return np.hstack([sums_of_stretches, *sums.reshape(2, self.stretches, -1)])

    def systematic_shares(self) -> list[Estimate]:
        """Return the shares of the variance by rank, by node and at random."""
        if self.instances < 2:
            return [UNKNOWN_ESTIMATE] * 3
        count, mean = self._mean_lateness(self.effect_sums.sum(0)[2:])
        rank_counts = count.sum(0)
        present = np.flatnonzero(rank_counts > 0)
        late = (count * mean).sum(0)[present] / rank_counts[present]
        nodes = nodes_differ(late, self.node[present], self.least)
        return jackknife_estimate(
            self.effect_sums, lambda sums: self._variance_shares(sums, nodes), (0.0, 1.0)
        )

    def _variance_shares(self, sums: Float, nodes: bool) -> Float:
        """Return the shares of the variance by rank, by node and at random.

        This is a nested analysis of variance with ranks within nodes. Each set of ranks (of a
        communicator) centres its lateness. A node's effect is the median of its ranks' means, so
        that one late rank does not make a slow node. The share that chance gives to an effect (its
        degrees of freedom times the random mean square) moves to the random share.
        """
        instances, total = sums[:2]
        count, mean = self._mean_lateness(sums[2:])
        between = float((count * mean**2).sum())
        phases = (count > 0).any(1).sum()
        by_rank = max(float((count > 0).sum() - self.groups * phases), 0.0)
        degrees_of_freedom = float(count.sum() - instances - by_rank)
        if total <= 0 or degrees_of_freedom <= 0:
            return np.full(3, np.nan)
        chance = max(total - between, 0.0) / degrees_of_freedom
        of_node = self._node_effects(count, mean) if nodes else np.zeros_like(mean)
        node = min(max(float((count * of_node * mean).sum()), 0.0), between)
        rank = between - node
        surplus = by_rank * chance
        rank, surplus = max(rank - surplus, 0.0), max(surplus - rank, 0.0)
        node = max(node - surplus, 0.0)
        shares = np.array([rank, node, max(total - rank - node, 0.0)])
        return np.asarray(shares / shares.sum())

    def _mean_lateness(self, sums: Float) -> tuple[Float, Float]:
        """Return counts and mean lateness, phases x ranks."""
        count, lateness = sums.reshape(2, -1, len(self.ranks))
        return count, lateness / np.maximum(count, 1)

    def _node_effects(self, count: Float, mean: Float) -> Float:
        """Return the effect of the node of each rank, phases x ranks."""
        effects = np.zeros_like(mean)
        for phase, weight in enumerate(count):
            present = np.flatnonzero(weight > 0)
            for node in np.unique(self.node[present]):
                members = present[self.node[present] == node]
                effects[phase, members] = np.median(mean[phase, members])
            if len(present):
                effects[phase, present] -= np.average(
                    effects[phase, present], weights=weight[present]
                )
        return effects

    def _node_lateness(self, sums: Float) -> Float:
        """Return how much later each node (median of its ranks) is than the other nodes."""
        count, mean = self._mean_lateness(sums)
        values = (count * mean).sum(0) / np.maximum(count.sum(0), 1)
        nodes = len(self.node_names)
        median = np.array([np.median(values[self.node == node]) for node in range(nodes)])
        return np.asarray(median - (median.sum() - median) / (nodes - 1))

    def make_rank_table(self) -> pd.DataFrame:
        """Return one row per rank, the latest first."""
        ranks = len(self.ranks)
        # count, late, last; and over instances with known previous exits: count, inherited,
        # messages
        sums = np.zeros((6, self.stretches, ranks))
        phase_sums = np.zeros((2, self.phases, ranks))  # count, late
        lateness = []
        for part, columns, stretch, phase in self.iterate_parts():
            arrival = part.arrival_ns.astype(np.float64)
            late = subtract_median_of_others(arrival)
            lateness.append(late)
            exit_known = (part.before.exit > 0).all(0) & (not self.sampled)
            exit_lateness = subtract_median_of_others(part.before.exit.astype(np.float64))
            messages = subtract_median_of_others(part.before.outside.astype(np.float64))
            last = np.arange(len(arrival))[:, None] == arrival.argmax(0)
            last &= np.ptp(arrival, axis=0) > 0
            counted = (
                1.0,
                late,
                last,
                exit_known,
                exit_known * exit_lateness,
                exit_known * messages,
            )
            for i, values in enumerate(counted):
                cells = np.broadcast_to(values, arrival.shape).astype(np.float64)
                sums[i][:, columns] += sum_groups(cells, stretch, self.stretches)
            for i, values in enumerate((np.ones_like(late), late)):
                phase_sums[i][:, columns] += sum_groups(values, phase, self.phases)
        # Instances in which a rank is late by half of its mean lateness in the phase.
        usual = _mean_of_sums(phase_sums).reshape(self.phases, ranks)
        often = np.zeros(ranks)
        for late, (_, columns, _, phase) in zip(lateness, self.iterate_parts(), strict=True):
            min_late_ns = np.maximum(usual[phase[None, :], columns[:, None]] / 2, self.least)
            often[columns] += (late > min_late_ns).sum(1)
        count, late, last, known_count, exit_lateness, messages = sums.sum(1)
        mean = late / np.maximum(count, 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            inherited, talked = exit_lateness / known_count, messages / known_count
        error = jackknife_estimate(np.concatenate([sums[0], sums[1]], 1), _mean_of_sums)
        table = pd.DataFrame(
            {
                "rank": self.ranks,
                "node": [self.node_names[node] for node in self.node],
                "late_ns": mean,
                "error_ns": [(estimate.high - estimate.low) / 2 for estimate in error],
                "late_share": often / np.maximum(count, 1),
                "last_share": last / np.maximum(count, 1),
                "inherited_ns": inherited,
                "outside_ns": mean - inherited - talked,
                "point_to_point_ns": talked,
            }
        )
        return table.sort_values("late_ns", ascending=False, kind="stable", ignore_index=True)

    def make_node_table(self) -> pd.DataFrame:
        """Return one row per node, the latest first."""
        nodes = len(self.node_names)
        late = [UNKNOWN_ESTIMATE] * nodes
        if nodes > 1:
            late = jackknife_estimate(self.effect_sums[:, 2:], self._node_lateness)
        hosts = {p["node"]: p["host"] for p in self.trace.tables.processes.values()}
        table = pd.DataFrame(
            {
                "node": self.node_names,
                "host": [hosts.get(name) for name in self.node_names],
                "ranks": np.bincount(self.node, minlength=nodes),
                "late_ns": np.array([estimate.value for estimate in late], np.float64),
                "error_ns": np.array([(f.high - f.low) / 2 for f in late], np.float64),
            }
        )
        return table.sort_values("late_ns", ascending=False, kind="stable", ignore_index=True)


def _imbalance_means(sums: Float) -> Float:
    arrivals = sums[1] / max(sums[0], 1)
    other_means = sums[3:6] / sums[2] if sums[2] else np.full(3, np.nan)
    return np.array([arrivals, *other_means])


def _origin_shares(sums: Float) -> Float:
    """Return the shares of the components that spread arrivals, and the compensated share.

    The covariances of the three components with the arrival add up to its variance. Components with
    a negative covariance bring the ranks together. They have no share in the spread, but compensate
    some of it.
    """
    total, inherited, messages = sums[6:9]
    if total <= 0:
        return np.full(4, np.nan)
    spreading = np.maximum([inherited, total - inherited - messages, messages], 0.0)
    total_spread = spreading.sum()
    return np.asarray([*(spreading / total_spread), max(total_spread - total, 0.0) / total_spread])


def _mean_of_sums(sums: Float) -> Float:
    count, total = sums.reshape(2, -1)
    return np.asarray(total / np.maximum(count, 1))


def _concatenate(parts: list[Int]) -> Int:
    """Return the concatenation of integer vectors; an empty vector if there are none."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
