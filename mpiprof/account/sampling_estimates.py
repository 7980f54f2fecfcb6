"""Estimates over all instances from the sample of `--sample K`, with confidence intervals.

The recorder samples each instance with probability 1 / K, by a hash, independently of other
instances. So only the sample is random, and intervals hold even if neighbouring instances are
correlated. Instances are counted up to the last sampled one. On average K - 1 instances follow it.
Adding K - 1 makes the count unbiased, also for communicators with few instances, most of which have
no sampled one. The variance of a sum is the variance of a ratio estimate (Cochran, Sampling
Techniques, 2.9). Times are skewed, so intervals are computed on a logarithmic scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mpiprof.account.instance_rows import CallsiteKey, Rows
from mpiprof.account.variance_components import CONFIDENCE
from mpiprof.trace.batch import Batch
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Float, Int

ESTIMATED_SUMS = ("elapsed", "wait")

# A set of instances with joint numbering: the communicator's index and a second number. The second
# number is the negative sequence number of a persistent operation, or distinguishes communicators
# that share a row of the tables.
Population = tuple[int, int]


@dataclass
class SampledInstances:
    """Sampled instances of each population, and sums of each call site by population."""

    every: int
    counts: Counter[Population] = field(default_factory=Counter)  # sampled instances
    last: dict[Population, int] = field(default_factory=dict)  # number of the last sampled instance
    # By call site: instances, then sums and sums of squares of each of ESTIMATED_SUMS.
    parts: dict[int, dict[Population, Float]] = field(default_factory=dict)
    # By call site: sums of ESTIMATED_SUMS of calls that are recorded in any case (MPI_*_init of
    # persistent operations and MPI_Finalize).
    always: dict[int, Float] = field(default_factory=dict)
    init_calls: Counter[int] = field(default_factory=Counter)  # MPI_*_init calls by communicator

    def add(self, batch: Batch, rows: Rows, callsites: Sequence[CallsiteKey]) -> None:
        """Add the instances of a batch."""
        ids, site = np.unique(rows.callsite, return_inverse=True)
        keys = [callsites[callsite] for callsite in ids.tolist()]
        started = np.array([key.started for key in keys], np.bool_)[site]
        makes = np.array([k.operation.endswith("_init") and not k.started for k in keys])[site]
        alone = makes | np.array([key.operation == "finalize" for key in keys])[site]
        # The starts of each persistent operation have their own numbers.
        within = np.where(started, -1 - batch.sequence, batch.start)
        number = np.where(started, batch.start, batch.sequence + 1)
        values = np.stack([np.nan_to_num(getattr(rows, name)) for name in ESTIMATED_SUMS])
        index = batch.communicator.index
        for i in np.unique(site[alone]).tolist():
            at_callsite = site == i
            self.always[int(ids[i])] = self.always.get(int(ids[i]), 0.0) + values[
                :, at_callsite
            ].sum(1)
        if makes.any():
            self.init_calls[index] += int(makes.sum())
        if not alone.all():
            usual = ~alone
            self._add(index, within[usual], number[usual], ids[site[usual]], values[:, usual])

    def _add(self, index: int, within: Int, number: Int, callsite: Int, values: Float) -> None:
        order = np.lexsort((callsite, within))
        within, callsite, values = within[order], callsite[order], values[:, order]
        changes = np.diff(within, prepend=within[0] - 1) | np.diff(callsite, prepend=-1)
        begins = np.flatnonzero(changes)
        each = np.concatenate([np.ones((1, len(order))), values, values**2])
        sums = np.add.reduceat(each, begins, axis=1)
        last = np.maximum.reduceat(number[order], begins)
        groups = zip(within[begins].tolist(), callsite[begins].tolist(), last.tolist(), strict=True)
        for i, (which, number_of_callsite, number_of_last) in enumerate(groups):
            population = (index, which)
            self.counts[population] += int(sums[0, i])
            self.last[population] = max(self.last.get(population, 0), number_of_last)
            parts = self.parts.setdefault(number_of_callsite, {})
            parts[population] = parts.get(population, 0.0) + sums[:, i]

    def add_sampled(self, samples: SampledInstances, callsites: Int) -> None:
        """Add the samples of another object; its call site i is callsites[i] in this object."""
        self.counts.update(samples.counts)
        self.init_calls.update(samples.init_calls)
        for population, last in samples.last.items():
            self.last[population] = max(self.last.get(population, 0), last)
        for site, parts in samples.parts.items():
            parts_of_callsite = self.parts.setdefault(int(callsites[site]), {})
            for population, sums in parts.items():
                parts_of_callsite[population] = parts_of_callsite.get(population, 0.0) + sums
        for site, sums in samples.always.items():
            number = int(callsites[site])
            self.always[number] = self.always.get(number, 0.0) + sums

    def estimate_instances(self, population: Population) -> float:
        """Return the estimated number of instances, excluding calls that are always recorded."""
        always = self.init_calls[population[0]] if population[1] == 0 else 0
        return float(max(self.last[population] + self.every - 1 - always, self.counts[population]))

    def estimate_scales(self, callsites: int, most_ns: float) -> Float:
        """Return the number of instances that each recorded instance of a call site represents.

        most_ns: time of all ranks, an upper bound for the time in all calls.
        """
        scale, elapsed = np.ones(callsites), np.zeros(callsites)
        for callsite, parts in self.parts.items():
            count = [float(sums[0]) for sums in parts.values()]
            weight = [
                self.estimate_instances(population) / self.counts[population]
                for population in parts
            ]
            scale[callsite] = np.average(weight, weights=count)
            elapsed[callsite] = sum(float(sums[1]) for sums in parts.values())
        estimated = float((scale * elapsed).sum())
        limit_ns = most_ns - sum(float(sums[0]) for sums in self.always.values())
        if estimated > limit_ns:
            scale *= max(limit_ns, 0.0) / estimated
        return np.maximum(scale, 1.0)

    def estimate_interval(
        self, name: str, value: float, callsites: Sequence[int], most_ns: float
    ) -> tuple[float, float]:
        """Return the confidence interval of the sum of one of ESTIMATED_SUMS over some call sites.

        value: estimate of the sum. most_ns: upper bound of the sum.
        """
        from scipy import special

        at = ESTIMATED_SUMS.index(name)
        joined: dict[Population, Float] = {}
        for callsite in callsites:
            for population, sums in self.parts.get(callsite, {}).items():
                joined[population] = joined.get(population, 0.0) + sums
        always = sum(
            float(self.always[callsite][at]) for callsite in callsites if callsite in self.always
        )
        recorded = sum(float(sums[1 + at]) for sums in joined.values())
        if recorded <= 0:
            return value, value
        total = variance = 0.0
        for population, sums in joined.items():
            squares = float(sums[1 + len(ESTIMATED_SUMS) + at])
            part, doubt = self._estimate(population, float(sums[1 + at]), squares)
            total += part
            variance += doubt
        free = max(sum(int(sums[0]) for sums in joined.values()) - 1, 1)
        quantile = float(special.stdtrit(free, (1 + CONFIDENCE) / 2))
        half = quantile * math.sqrt(variance) / total
        factor = math.exp(min(half, 700.0))
        estimated = value - always
        low = always + max(estimated / factor, recorded)
        return min(low, value), max(min(always + estimated * factor, most_ns), value)

    def _estimate(
        self, population: Population, total: float, squares: float
    ) -> tuple[float, float]:
        """Return the estimated sum over all instances of a population, and its variance."""
        # The variance has two terms. One is the spread of the sampled values, with 0 for instances
        # of other call sites. The other is the unknown number of instances after the last sample.
        count, instances = self.counts[population], self.estimate_instances(population)
        mean = total / count
        spread = max(squares - count * mean**2, 0.0) / max(count - 1, 1)
        of_sample = instances**2 * max(1 - count / instances, 0.0) * spread / count
        return instances * mean, of_sample + mean**2 * self.every * (self.every - 1)


def callsite_scales(trace: Trace) -> Float:
    """Return the number of instances that each recorded instance of a call site represents."""
    sums, keys = trace.aggregate
    if sums.sampled is None:
        return np.ones(len(keys))
    scales: Float = sums.sampled.estimate_scales(len(keys), float(trace.process_time_ns))
    return scales


def interval_columns(trace: Trace, totals: Mapping[str, Float]) -> dict[str, Int]:
    """Return the columns with the confidence limits of estimated sums."""
    sampled, columns = trace.aggregate[0].sampled, {}
    for name, values in totals.items():
        low = high = values
        if sampled is not None:
            max_ns = float(trace.process_time_ns)
            rows = enumerate(values.tolist())
            pairs = [sampled.estimate_interval(name, value, [i], max_ns) for i, value in rows]
            low, high = np.array(pairs).reshape(-1, 2).T
        columns[f"total_{name}_low_ns"] = low.astype(np.int64)
        columns[f"total_{name}_high_ns"] = high.astype(np.int64)
    return columns
