"""Sets of ranks that are late or early together: from mean work, with significance tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.account.variance_components import nodes_differ
from mpiprof.causes.habits.significance import p_above, p_apart_from_others
from mpiprof.causes.habits.work_matrix import WorkMatrix, column_medians
from mpiprof.trace.types import Float, Int

MAX_SPLITS = 4  # gaps between the ranks' mean work, at which ranks are divided
MIN_LINEAR_SHARE = 0.9  # minimum share of the variance that a line along the ranks explains
MIN_LINEAR_RANKS = 4  # ranks
MAX_LEVEL_SHARE = 0.6  # minimum lateness of each rank of a set, as a share of the first one's
MIN_CORRELATION = 0.9  # between the lateness of all ranks in both halves of a run
MAX_P = 0.002  # maximum p-value, corrected for all tests
MIN_MULTIPLE = 2.0  # of the work of all other ranks, which ranks that wander hardly reach
COMPLEXITY = {"rank": 1.1, "early": 1.1, "node": 1.1, "gradient": 1.05, "each": 1.2}
MAX_TRIED = 16  # larger sets are not tested rank by rank
MIN_RANK_GAIN = 0.02  # minimum share of the set's wait that each of its ranks must explain
LEVEL_TOLERANCE = 0.15  # share of the whole range within which ranks count as equal


@dataclass(frozen=True)
class RankSet:
    """Ranks that differ from the other ranks.

    kind: "rank", "early", "node", "gradient", or "each" if all ranks differ and the rows are the
    latest ones. rows: rows of the work matrix, the most different first. late_ns: difference of
    the first row. shift: time that each row would have to work less, negative for more.
    p: p-value.
    """

    kind: str
    rows: Int
    late_ns: float
    shift: Float
    p: float
    node: str | None = None


def find_rank_sets(
    matrix: WorkMatrix, work_ns: Float, least_work_ns: Float, sure: float
) -> Iterator[RankSet]:
    """Yield the sets of ranks that differ significantly, the simplest first.

    work_ns: columns of the instances to examine. least_work_ns: of a rank in these columns, which
    work_ns does not contain. sure: maximum p-value.
    """
    if work_ns.shape[1] < 2:
        return
    centred = work_ns - column_medians(work_ns)
    mean = find_trimmed_means(centred)
    of_node, p = _find_node_effect(matrix, centred, mean)
    if p > sure:
        of_node[:] = 0.0
    if of_node.any():
        yield _find_slow_nodes(matrix, of_node, p)
    for rank_set in (
        _find_costliest_rank(matrix, centred, mean),
        *_find_splits(matrix, centred - of_node[:, None], mean - of_node),
        _find_gradient(matrix, centred, mean),
        _every_rank_set(matrix, centred, mean),
    ):
        if rank_set is None:
            continue
        if rank_set.kind == "rank" and rank_set.p > sure:
            p = _find_chance_of_multiple(work_ns + least_work_ns, rank_set.rows)
            rank_set = replace(rank_set, p=min(rank_set.p, p))
        if rank_set.p <= sure:
            yield rank_set


def find_trimmed_means(centred: Float) -> Float:
    """Return the mean of the middle half of each row's values, which ignores single spikes."""
    counts = (~np.isnan(centred)).sum(1)
    order = np.sort(centred, axis=1)  # NaN is sorted last
    low = counts // 4
    high = np.maximum(counts - low, low + 1)
    sums = np.hstack([np.zeros((len(order), 1)), np.cumsum(np.nan_to_num(order), axis=1)])
    row = np.arange(len(order))
    high = np.minimum(high, order.shape[1])
    return np.asarray((sums[row, high] - sums[row, low]) / np.maximum(high - low, 1))


def _find_splits(matrix: WorkMatrix, centred: Float, mean: Float) -> list[RankSet | None]:
    """Return divisions of the ranks in two, at the gaps that explain most."""
    order = np.argsort(-mean, kind="stable")
    values = mean[order]
    ranks = len(values)
    size = np.arange(1, ranks)
    above = np.cumsum(values)[:-1] / size
    below = (values.sum() - np.cumsum(values)[:-1]) / (ranks - size)
    between = size * (ranks - size) * (above - below) ** 2
    gaps = values[:-1] - values[1:]
    chosen = [
        *np.argsort(-between, kind="stable")[:MAX_SPLITS],
        *np.argsort(-gaps, kind="stable")[:1],
    ]
    at = [c for c in dict.fromkeys(map(int, chosen)) if gaps[c] > 0]
    return [_divide(matrix, centred, mean, order[: c + 1], order[c + 1 :]) for c in at]


def _find_costliest_rank(matrix: WorkMatrix, centred: Float, mean: Float) -> RankSet | None:
    """Return the rank that causes most wait, if other ranks may be late with no rank waiting."""
    caused = matrix.compute_caused_waits()
    worst = np.argmax(caused, keepdims=True)
    if not caused[worst] > 0:
        return None
    return _divide(matrix, centred, mean, worst, np.setdiff1d(np.arange(len(mean)), worst))


def _divide(
    matrix: WorkMatrix, centred: Float, mean: Float, upper: Int, lower: Int
) -> RankSet | None:
    """Return the smaller of two sets of ranks as late or early, or None if it is not separate."""
    few = upper if len(upper) <= len(lower) else lower
    other_rows = lower if few is upper else upper
    sign = 1.0 if few is upper else -1.0
    apart = centred[few] - column_medians(centred[other_rows])
    shift = np.zeros(len(mean))
    if np.isnan(centred).any():  # ranks of other instances are not comparable
        shift[few] = find_trimmed_means(apart)
    else:
        shift[few] = mean[few] - float(np.median(mean[other_rows]))
    few = few[np.argsort(-sign * shift[few], kind="stable")]
    amount = sign * float(shift[few[0]])
    smallest = sign * float(shift[few[-1]])
    if smallest <= max(matrix.least_ns, MAX_LEVEL_SHARE * amount):
        return None
    p_apart = p_apart_from_others(sign * mean[few], sign * mean[other_rows])
    p = min(float(p_above(sign * apart, p_apart, len(mean)).max()), 1.0)
    return RankSet("rank" if sign > 0 else "early", few, amount, shift, p)


def _find_chance_of_multiple(work_ns: Float, rows: Int) -> float:
    """Return the p-value that some rows have several times the work of all others so often.

    Under the null hypothesis, the rows of a column are exchanged at random. In contrast to the
    other tests, this one needs no memory of the ranks, because ranks that wander do not differ by
    MIN_MULTIPLE. So it decides for few columns.
    """
    from scipy import special

    most_of_others = np.delete(work_ns, rows, 0).max(0)
    hits = work_ns[rows].min(0) >= MIN_MULTIPLE * most_of_others  # False without a value
    sets = float(special.comb(len(work_ns), len(rows)))
    return min(float(special.bdtrc(int(hits.sum()) - 1, len(hits), 1 / sets)) * sets, 1.0)


def _find_node_effect(matrix: WorkMatrix, centred: Float, mean: Float) -> tuple[Float, float]:
    """Return the lateness of each rank's node (0 if the node is not slow), and its p-value.

    A node's lateness is the median of its ranks, so that one late rank does not make a slow node.
    """
    node_lateness = np.zeros_like(mean)
    counts = np.bincount(matrix.node)
    if len(counts) < 2 or counts.max() < 2:
        return node_lateness, 1.0
    median = np.array([np.median(mean[matrix.node == node]) for node in range(len(counts))])
    order = np.argsort(median, kind="stable")
    gap = int(np.argmax(np.diff(median[order])))
    slow = np.isin(matrix.node, order[gap + 1 :])
    apart = float(median[order[gap + 1]] - median[order[gap]])
    difference = column_medians(centred[slow]) - column_medians(centred[~slow])
    p = min(float(p_above(difference[None, :])[0]) * len(counts), 1.0)
    if apart > matrix.least_ns and nodes_differ(mean, matrix.node, matrix.least_ns):
        node_lateness[slow] = np.median(mean[slow]) - np.median(mean[~slow])
    return node_lateness, p


def _find_slow_nodes(matrix: WorkMatrix, of_node: Float, p: float) -> RankSet:
    """Return the ranks of the slow nodes."""
    rows = np.flatnonzero(of_node)
    names = {matrix.nodes[node] for node in matrix.node[rows]}
    node = names.pop() if len(names) == 1 else None
    return RankSet("node", rows, float(of_node.max()), of_node, p, node)


def _find_gradient(matrix: WorkMatrix, centred: Float, mean: Float) -> RankSet | None:
    """Return a gradient if a line along the ranks explains nearly all lateness."""
    ranks = len(mean)
    if ranks < MIN_LINEAR_RANKS:
        return None
    along = np.arange(ranks) - (ranks - 1) / 2
    slope = float(along @ mean / (along @ along))
    total = float(((mean - mean.mean()) ** 2).sum())
    if total <= 0 or slope**2 * float(along @ along) < MIN_LINEAR_SHARE * total:
        return None
    line = slope * along
    top = ranks - 1 if slope > 0 else 0
    shift = line - line.min()
    if shift[top] <= matrix.least_ns:
        return None
    slopes = np.sign(slope) * (along @ np.nan_to_num(centred))
    p = float(p_above(slopes[None, :])[0])
    return RankSet("gradient", np.array([top]), float(shift[top]), shift, p)


def _every_rank_set(matrix: WorkMatrix, centred: Float, mean: Float) -> RankSet | None:
    """Return the set "each": every rank has a different, constant lateness over the whole run.

    Wandering ranks differ at any time, too, but in another order in the second half.
    """
    if len(mean) < MIN_LINEAR_RANKS or _count_on_level(mean) >= len(mean) / 2:
        return None
    if centred.shape[1] < matrix.instance_count:
        return None
    first, second = (find_trimmed_means(half) for half in np.array_split(centred, 2, axis=1))
    if not (np.ptp(first) and np.ptp(second)):
        return None
    if float(np.corrcoef(first, second)[0, 1]) < MIN_CORRELATION:
        return None
    shift = mean - mean.min()
    lateness = mean - np.median(mean)
    order = np.argsort(-mean, kind="stable")
    rows = order[lateness[order] >= lateness.max() / 2]
    if not len(rows) or lateness[rows[-1]] <= matrix.least_ns:
        return None
    p = min(float(p_above(centred[rows]).max()) * len(mean), 1.0)
    late = float(mean[rows[0]] - np.median(np.delete(mean, rows)))
    return RankSet("each", rows, late, shift, p)


def _count_on_level(mean: Float) -> int:
    """Return the maximum number of ranks with nearly equal lateness."""
    values = np.sort(mean)
    reach = LEVEL_TOLERANCE * (values[-1] - values[0])
    return int((np.searchsorted(values, values + reach, "right") - np.arange(len(values))).max())


def compute_gain(matrix: WorkMatrix, work_ns: Float, shift: Float, waits: Float) -> float:
    """Return the wait that vanishes if ranks work less by `shift`."""
    return float((waits - matrix.compute_waiting(work_ns - shift)).sum())


def find_costliest_set(
    matrix: WorkMatrix, work_ns: Float, waits: Float, columns: Int, tests: int
) -> RankSet | None:
    """Return the rank set that explains most of the wait of some instances."""

    def gain(rank_set: RankSet) -> float:
        shift = np.zeros_like(work_ns)
        shift[:, columns] = rank_set.shift[:, None]
        return compute_gain(matrix, work_ns, shift, waits)

    best, max_gain = None, 0.0
    examined = work_ns[:, columns], matrix.least_work_ns[columns]
    for rank_set in find_rank_sets(matrix, *examined, MAX_P / tests):
        explained = gain(rank_set)
        # A more complex set must explain more wait.
        if explained > (COMPLEXITY[rank_set.kind] * max_gain if best is not None else 0.0):
            best, max_gain = rank_set, explained
    return _needed_ranks(best, max_gain, gain) if best is not None else None


def _needed_ranks(rank_set: RankSet, max_gain: float, gain: Callable[[RankSet], float]) -> RankSet:
    """Remove the ranks from a set for which nobody waits, as in a broadcast."""
    if rank_set.kind not in ("rank", "early") or not 1 < len(rank_set.rows) <= MAX_TRIED:
        return rank_set
    for row in rank_set.rows.tolist():
        shift = rank_set.shift.copy()
        shift[row] = 0.0
        rows = rank_set.rows[rank_set.rows != row]
        less = replace(rank_set, rows=rows, shift=shift, late_ns=abs(float(shift[rows[0]])))
        if gain(less) >= max_gain * (1 - MIN_RANK_GAIN):
            return _needed_ranks(less, max_gain, gain)
    return rank_set
