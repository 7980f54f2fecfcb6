"""Quantiles by call site, from counts of instances in exponential buckets.

This is a DDSketch (Masson, Rim and Lee 2019, https://doi.org/10.14778/3352063.3352135). Each power
of two has 64 buckets: doubles with equal exponent and equal first 6 bits of the fraction. So a
quantile, the middle of its bucket, is within 0.8 % of the exact value. Values below 1 ns count as
0. Buckets are fixed and counts are integers, so the result is independent of the order of
partitions. The package ddsketch adds one value per call, and other sketches (KLL, t-digest) depend
on the order.
"""

from __future__ import annotations

import numpy as np

from mpiprof.account.instance_rows import Rows
from mpiprof.trace.types import Array, Float, Int

# Values of each instance: mean time inside, wait and time inside without wait, sums over ranks.
QUANTITIES = ("elapsed", "wait", "transfer")
LEVELS = {"p50": 50, "p90": 90, "p99": 99}  # percent
COLUMNS = ("elapsed", "wait")  # the quantities in the table of call sites
NAMES = tuple(f"{quantity}_{level}_ns" for quantity in COLUMNS for level in LEVELS)

BITS = 6  # of the fraction
SHIFT = 52 - BITS
BELOW = (1023 << BITS) - 1  # offset, so that bucket 1 begins at 1 ns
WIDE = 17  # bits of a bucket's number
FULL = 1 << 16  # entries that may be pending before parts are joined

# Counting in cells beats sorting up to SPARSE_FACTOR cells per number, plus DENSE_CELLS.
SPARSE_FACTOR = 8
DENSE_CELLS = 1 << 14


def count_distinct(numbers: Int, cells: int) -> tuple[Int, Int]:
    """Return the distinct numbers, ascending, and their counts. All numbers are below `cells`."""
    if cells > SPARSE_FACTOR * numbers.size + DENSE_CELLS:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers.ravel(), minlength=1)
    used = np.flatnonzero(counts)
    return used, counts[used]


def bucket_numbers(values: Float) -> Int:
    """Return the buckets of non-negative numbers."""
    return np.asarray(np.maximum((np.ascontiguousarray(values).view(np.int64) >> SHIFT) - BELOW, 0))


def bucket_middles(buckets: Int) -> Float:
    """Return the middles of buckets."""
    low, high = (((buckets + BELOW + offset) << SHIFT).view(np.float64) for offset in (0, 1))
    return np.where(buckets > 0, (low + high) / 2, 0.0)


def make_key(callsite: Int, quantity: Int, bucket: Int) -> Int:
    """Return a number for a call site, an index into QUANTITIES and a bucket, in this order."""
    return (callsite * len(QUANTITIES) + quantity << WIDE) + bucket


class Quantiles:
    """Counts by key."""

    def __init__(self) -> None:
        self.parts: list[tuple[Int, Array]] = []  # keys and counts
        self.waiting = 0

    def add(self, rows: Rows, callsites: Int, where: Int) -> None:
        """Add complete instances; `where` is the index of each one's call site in `callsites`."""
        transfer = np.maximum(rows.elapsed - rows.wait, 0.0)
        values = np.stack([rows.mean_elapsed, rows.wait, transfer])
        if not rows.complete.all():
            values, where = np.compress(rows.complete, values, axis=1), where[rows.complete]
        if not values.size:
            return
        buckets = bucket_numbers(values)
        low = int(buckets.min())
        span = int(buckets.max()) - low + 1
        buckets -= low
        buckets += where * (len(QUANTITIES) * span)
        buckets += np.arange(len(QUANTITIES))[:, None] * span
        used, counts = count_distinct(buckets, len(callsites) * len(QUANTITIES) * span)
        group, bucket = np.divmod(used, span)
        site, quantity = np.divmod(group, len(QUANTITIES))
        self._append_counts(make_key(callsites[site], quantity, bucket + low), counts)

    def add_counts(self, part: Quantiles, callsites: Int) -> None:
        """Add the counts of another object; its call site i is callsites[i] in this object."""
        for keys, counts in part.parts:
            group, bucket = np.divmod(keys, 1 << WIDE)
            site, quantity = np.divmod(group, len(QUANTITIES))
            self._append_counts(make_key(callsites[site], quantity, bucket), counts)

    def make_table(self, callsites: int) -> dict[str, Float]:
        """Return NAMES with one value per call site; NaN without complete instances."""
        return {
            f"{name}_{level}_ns": self.find_quantile(name, percent, callsites)
            for name in COLUMNS
            for level, percent in LEVELS.items()
        }

    def find_quantile(self, quantity: str, percent: int, callsites: int) -> Float:
        """Return a quantile of each call site; NaN without complete instances.

        Of n instances in ascending order, p90 is number 0.9 n, rounded up.
        """
        quantiles = np.full(callsites, np.nan)
        site, buckets, counts = self._select(quantity)
        if len(site):
            passed = np.cumsum(counts)
            sites, first = np.unique(site, return_index=True)
            before = passed[first] - counts[first]
            total = np.append(before[1:], passed[-1]) - before
            number = -(-total * percent // 100)
            at = np.searchsorted(passed, before + number)
            quantiles[sites] = bucket_middles(buckets[at])
        return quantiles

    def sum_excess(self, quantity: str, factor: float, callsites: int) -> Float:
        """Return the sum of the times above the median of each call site.

        Only instances that exceed the median by the factor count.
        """
        site, buckets, counts = self._select(quantity)
        values = bucket_middles(buckets)
        usual = self.find_quantile(quantity, 50, callsites)[site]
        excess = np.where(values > factor * usual, values - usual, 0.0)
        return np.bincount(site, counts * excess, callsites).astype(np.float64)

    def _select(self, quantity: str) -> tuple[Int, Int, Int]:
        """Return the call sites, buckets and counts of a quantity, in this order."""
        self._merge_counts()
        if not self.parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys, counts = self.parts[0]
        site, number = np.divmod(keys >> WIDE, len(QUANTITIES))
        chosen = number == QUANTITIES.index(quantity)
        return site[chosen], keys[chosen] & ((1 << WIDE) - 1), counts[chosen]

    def _append_counts(self, keys: Int, counts: Array) -> None:
        self.parts.append((keys, counts.astype(np.int64)))
        self.waiting += len(keys)
        if self.waiting > max(FULL, 2 * len(self.parts[0][0])):
            self._merge_counts()

    def _merge_counts(self) -> None:
        """Join all parts to one, sorted by key."""
        if self.waiting:
            keys = np.concatenate([keys for keys, _ in self.parts])
            counts = np.concatenate([counts for _, counts in self.parts])
            keys, number = np.unique(keys, return_inverse=True)
            sums = np.bincount(number.reshape(-1), counts, len(keys)).astype(np.int64)
            self.parts = [(keys, sums)]
        self.waiting = 0
