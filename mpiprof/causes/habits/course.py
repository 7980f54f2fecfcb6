"""Courses: lateness of some ranks that is constant, changes abruptly, or changes gradually.

    levels   ▁▁▁███▁▁▁   constant between abrupt changes
    course   ▁▁▁▂▄▆███   constant up to an onset, then one of SHAPES

Among these shapes, and levels, the Bayesian information criterion decides (Schwarz 1978): a more
complex course must fit so much better that chance does not explain it. A course must also exceed
the slow fluctuations of the series, because a wandering rank follows a shape, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mpiprof.account.message_volume import column_means
from mpiprof.causes.habits.series import find_best_cut, find_running_median, segment_columns
from mpiprof.causes.habits.significance import (
    MAD_SCALE,
    p_of_course,
    persistence_ratio,
    stretch_means,
    tame,
)
from mpiprof.causes.habits.work_matrix import column_medians
from mpiprof.trace.types import Float, Int

STEADY, LEVEL, LEVELLING, SQUARE = "steady", "level", "levelling", "square"
SHAPES = (STEADY, LEVEL, LEVELLING, SQUARE)

MIN_INSTANCES = 24
ONSETS = 16  # positions at which a trend may begin
ENDS = 8  # positions at which a line may become constant
TIME_CONSTANTS = (1 / 20, 1 / 12, 1 / 8, 1 / 5, 1 / 3, 1 / 2)  # shares of the time from the onset
LEVELLED = 3.0  # time constants after which 95 % of a change has happened
MIN_RAMP = 8  # instances of a change; a faster one is abrupt
MIN_TIME_CONSTANT = 4.0  # instances
MIN_GROWTH = 1.5  # minimum ratio of the lateness at both ends
MAX_POINTS = 256  # means of stretches of a longer series, to which shapes are fitted
MEDIAN_WIDTH = 5
MIN_NOTABLE_SHARE = 0.01  # of the largest lateness, below which a delay has ended or not begun
NOISE_DEVIATIONS = 2.0  # the same in standard deviations of the noise
MIN_LEVEL = 2  # instances of a level, at least
LEVEL_PENALTY = 6.0  # of a change of level, in logarithms of the number of instances
EDGE_REACH = 16  # instances on both sides of an edge, searched for the exact edge
STRONG_EVIDENCE = 10.0  # difference of the criterion (Kass and Raftery 1995)
MIN_ROW_SHARE = 0.6  # minimum change of each row of a trend, over that of the first one


@dataclass(frozen=True)
class Course:
    """Course of a trend over `count` instances.

    onset: instance at which the change begins. length: instances of a line that ends, or the time
    constant of an approach to a level.
    """

    shape: str
    count: int
    onset: int = 0
    length: float = 0.0

    @property
    def parameters(self) -> int:
        """Number of parameters: constant and change, and those that are not 0."""
        return 2 + (self.onset > 0) + (self.length > 0)

    @property
    def until(self) -> int | None:
        """Instance from which the lateness is nearly constant, or None if it is to the end."""
        times = {LEVEL: 1.0, LEVELLING: LEVELLED}.get(self.shape, np.inf)
        end = self.onset + times * self.length
        return round(end) if self.length and end < self.count - 1 else None

    def values(self, at: Float) -> Float:
        """Return the course at some instances: 0 up to the onset, about 1 at its end."""
        since = np.maximum(at - self.onset, 0.0)
        if self.shape == LEVEL:
            return np.minimum(since / self.length, 1.0)
        if self.shape == LEVELLING:
            return 1.0 - np.exp(-since / self.length)
        share = since / max(self.count - 1 - self.onset, 1)
        return share**2 if self.shape == SQUARE else share


@dataclass(frozen=True)
class Trend:
    """A gradual change of rows of the work matrix that are late together.

    fitted: their lateness, rows x columns in ns. columns: those with notable lateness. ends:
    lateness in the first of these and at the end, mean of the rows, 0 if it is not notable.
    is_better: whether levels fit worse. p: p-value.
    """

    rows: Int
    course: Course
    fitted: Float
    columns: Int
    ends: tuple[float, float]
    is_better: bool
    p: float


def find_trend(work_ns: Float, rows: Int, sure: float, noise_ns: float) -> Trend | None:
    """Return the trend of the mean lateness of some rows after the other rows, or None.

    sure: maximum p-value. noise_ns: lateness that is not notable.
    """
    ranks, count = work_ns.shape
    if count < MIN_INSTANCES or len(rows) >= ranks or np.isnan(work_ns).any():
        return None
    each = work_ns[rows] - column_medians(np.delete(work_ns, rows, 0))
    late = tame_accidents(column_means(each))
    best, is_better = _choose_course(late)
    simplest, count_tried = Course(STEADY, count), len(list(_list_courses(count)))
    for course in dict.fromkeys((best, simplest)):
        fitted = _fit_rows(each, course)
        if fitted is None:
            continue
        tests = 1 if course == simplest else count_tried
        shape = course.values(np.arange(count, dtype=np.float64))
        p = min(2 * ranks * tests * p_of_course(late, shape), 1.0)
        if p > sure:
            continue
        mean = fitted.mean(0)
        min_late_ns = max(noise_ns, NOISE_DEVIATIONS * _deviation(late - mean))
        min_late_ns = max(min_late_ns, MIN_NOTABLE_SHARE * float(mean.max()))
        columns = _notable_columns(mean, course, min_late_ns)
        if len(columns):
            first, last = np.where(mean > min_late_ns, mean, 0.0)[[columns[0], -1]].tolist()
            better = is_better and course == best
            return Trend(rows, course, fitted, columns, (first, last), better, p)
    return None


def split_levels(late: Float) -> list[Int]:
    """Return the columns of each level of some lateness, in order; one level without changes.

    A series that wanders has changes, too. Its slow fluctuations count as noise.
    """
    count = len(late)
    if count < 2 * MIN_LEVEL:
        return [np.arange(count)]
    tamed = tame_accidents(late)
    width = -(-count // MAX_POINTS)
    (values,) = stretch_means(tamed[None], MAX_POINTS)
    noise = _deviation(np.diff(tamed)) / np.sqrt(2)
    scale = max(noise * np.sqrt(persistence_ratio(tamed) / width), 1.0)
    cuts = segment_columns(values[:, None] / scale, LEVEL_PENALTY * np.log(count), MIN_LEVEL)
    edges = [round(cut * count / len(values)) for cut in cuts.tolist()]
    return np.split(np.arange(count), _refine_edges(tamed, edges))


def _refine_edges(late: Float, edges: Sequence[int]) -> list[int]:
    """Return edges between levels at the columns where a change fits best."""
    refined: list[int] = []
    for number, edge in enumerate(edges):
        before = refined[-1] if refined else 0
        after = edges[number + 1] if number + 1 < len(edges) else len(late)
        low, high = max(edge - EDGE_REACH, before), min(edge + EDGE_REACH, after)
        if high - low >= 2:
            refined.append(low + find_best_cut(late[low:high, None]))
    return sorted({edge for edge in refined if 0 < edge < len(late)})


def _choose_course(late: Float) -> tuple[Course, bool]:
    """Return the course that fits best, and whether levels with abrupt changes fit worse."""
    (values,) = stretch_means(late[None], MAX_POINTS)
    (at,) = stretch_means(np.arange(len(late), dtype=np.float64)[None], MAX_POINTS)
    best, _ = _best_of(list(_list_courses(len(late))), values, at)
    best, criterion = _best_of([best, *_refine(best)], values, at)
    return best, criterion + STRONG_EVIDENCE < _criterion_of_levels(values, best, at)


def tame_accidents(late: Float) -> Float:
    """Return lateness without large deviations of single instances, which are no course.

    A running median keeps abrupt changes.
    """
    usual = find_running_median(late, MEDIAN_WIDTH, "reflect")
    return np.asarray(usual + tame(late - usual))


def _list_courses(count: int) -> Iterator[Course]:
    """Yield the courses that a series may follow, the simplest first."""
    yield Course(STEADY, count)
    yield Course(SQUARE, count)
    onsets = np.arange(ONSETS) * count // ONSETS if count >= 2 * MIN_INSTANCES else np.zeros(1)
    for onset in onsets.astype(int).tolist():
        remaining = count - onset
        if remaining < MIN_INSTANCES:
            return
        if onset:
            yield Course(STEADY, count, onset)
            yield Course(SQUARE, count, onset)
        for end in range(1, ENDS):
            if remaining * end / ENDS >= MIN_RAMP:
                yield Course(LEVEL, count, onset, remaining * end / ENDS)
        for share in TIME_CONSTANTS:
            if remaining * share >= MIN_TIME_CONSTANT:
                yield Course(LEVELLING, count, onset, remaining * share)


def _refine(course: Course) -> Iterator[Course]:
    """Yield courses with onsets and lengths between those of _list_courses."""
    reach = course.count / ONSETS
    onsets = {round(course.onset + reach * part / 8) for part in range(-8, 9)}
    for onset in sorted(onsets) if course.onset else [0]:
        if not 0 <= onset <= course.count - MIN_INSTANCES:
            continue
        if not course.length:
            yield replace(course, onset=onset)
            continue
        end = course.onset + course.length
        for factor in np.linspace(0.7, 1.4, 15).tolist():
            length = course.length * factor
            if course.shape == LEVEL:  # the end stays independent of the onset
                length = end + course.length * (factor - 1) / 2 - onset
            if length >= (MIN_RAMP if course.shape == LEVEL else MIN_TIME_CONSTANT):
                yield replace(course, onset=onset, length=length)


def _best_of(courses: list[Course], values: Float, at: Float) -> tuple[Course, float]:
    """Return the course with the least criterion."""
    shapes = np.array([course.values(at) for course in courses])
    shapes -= shapes.mean(1, keepdims=True)
    centred = values - values.mean()
    explained = (shapes @ centred) ** 2 / np.maximum((shapes**2).sum(1), 1e-12)
    squares = float(centred @ centred) - explained
    parameters = np.array([course.parameters for course in courses])
    criterion = _criterion(squares, len(values), parameters)
    best = int(np.argmin(criterion))
    return courses[best], float(criterion[best])


def _criterion(squares: Float, count: int, parameters: Int) -> Float:
    """Return the Bayesian information criterion, apart from a constant; squares are in ns^2."""
    misfit = count * np.log(np.maximum(squares, 1.0) / count)
    return np.asarray(misfit + parameters * np.log(count))


def _criterion_of_levels(values: Float, course: Course, at: Float) -> float:
    """Return the criterion of the levels with abrupt changes that fit best.

    A change between two levels counts as two parameters: position and level.
    """
    residual = values - _fit(values, course.values(at))
    scale = max(float(residual.std()), 1.0)
    penalty = 2 * np.log(len(values))
    cuts = segment_columns(values[:, None] / scale, penalty, MIN_LEVEL)
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(values, cuts))
    return float(_criterion(np.array(squares), len(values), np.array(1 + 2 * len(cuts))))


def _fit(values: Float, shape: Float) -> Float:
    """Return the multiple of a shape plus a constant with the least squares of errors."""
    model = np.stack([np.ones(len(shape)), shape], axis=1)
    return np.asarray(model @ np.linalg.lstsq(model, values, rcond=None)[0])


def _fit_rows(each: Float, course: Course) -> Float | None:
    """Return the lateness of each row by the course, or None if they do not change together."""
    shape = course.values(np.arange(each.shape[1], dtype=np.float64))
    fitted = np.array([_fit(row, shape) for row in each])
    change = fitted[:, -1] - fitted[:, 0]
    mean = fitted.mean(0)
    smallest, largest = sorted((mean[0], mean[-1]))
    if largest <= 0 or smallest * MIN_GROWTH > largest:
        return None
    change = change * np.sign(mean[-1] - mean[0])
    if change.min() < MIN_ROW_SHARE * change.max():
        return None
    return np.asarray(np.maximum(fitted, 0.0))


def _deviation(values: Float) -> float:
    """Return the standard deviation, which single large values do not change."""
    return MAD_SCALE * float(np.median(np.abs(values - np.median(values))))


def _notable_columns(fitted: Float, course: Course, min_late_ns: float) -> Int:
    """Return the instances with notable lateness: from the onset if there was none before."""
    notable = np.flatnonzero(fitted > min_late_ns)
    if not len(notable):
        return notable
    grows = fitted[-1] > fitted[0]
    begin = course.onset if grows and fitted[0] <= min_late_ns else 0
    return np.arange(begin, len(fitted) if grows else int(notable[-1]) + 1)
