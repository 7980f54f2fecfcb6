"""Figures of the studies, drawn by matplotlib as SVG, PNG or PDF.

A study returns descriptions of its figures, so that only the process that writes them imports
matplotlib.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpiprof.errors import MpiprofError
from mpiprof.interface.format_units import format_share, unit_of
from mpiprof.interface.installation import install_command
from mpiprof.interface.tokens import BLUE, CYCLE, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FORMATS = ("svg", "png", "pdf")
DOTS_PER_INCH = 200
PANEL_SIZE = (3.4, 2.6)  # inches
MAX_INSIDE = 6  # entries of a legend inside its panel
ROW_HEIGHT = 0.2  # inches, of a map
MIN_RATIO_RANGE = 1.5  # so that ratios near 1 are pale
# Journals reject PDF files with the default fonts, of type 3.
FONTS: dict[Any, Any] = {"svg.fonttype": "none", "pdf.fonttype": 42}


@dataclass(frozen=True)
class Series:
    """A line: its name, its points, and optionally half of the interval of each y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float] = ()
    # Numbers of a paper, beside measured or simulated ones.
    dashed: bool = field(default=False, kw_only=True)

    @classmethod
    def of_points(
        cls, name: str, points: Iterable[tuple[float, float]], *, dashed: bool = False
    ) -> Series:
        """Return the line through some points."""
        return cls(name, *map(list, zip(*points, strict=True)), dashed=dashed)


def make_curves(points: Iterable[tuple[str, float, float]]) -> list[Series]:
    """Return a line for each name through its points (name, x, y), in ascending order of x."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, x, y in points:
        curves.setdefault(name, []).append((x, y))
    return [Series.of_points(name, sorted(curve)) for name, curve in curves.items()]


@dataclass(frozen=True)
class Lines:
    """Series over an axis; `ticks` formats the values of the x axis, at which the ticks are."""

    title: str
    series: Sequence[Series]
    x_label: str
    y_label: str
    x_scale: str = "log"
    y_scale: str = "log"
    ticks: Callable[[float], str] | None = None

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        axes.set(xscale=self.x_scale, yscale=self.y_scale)
        for series in self.series:
            half = series.half if len(series.half) else None
            style: dict[str, Any] = {"marker": "" if series.dashed else "o", "markersize": 3}
            style["linestyle"] = "--" if series.dashed else "-"
            axes.errorbar(series.x, series.y, half, label=series.name, capsize=2, **style)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.y_scale == "linear":
            axes.set_ylim(bottom=0)
        if self.ticks is not None:
            values = sorted({x for series in self.series for x in series.x})
            axes.set_xticks(values, [self.ticks(x) for x in values])
            axes.minorticks_off()
        axes.grid(alpha=0.4)
        axes.legend(fontsize="small")


@dataclass(frozen=True)
class Bars:
    """Groups of bars, one per series; `text` formats the values of the y axis."""

    title: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float]]
    y_label: str
    text: Callable[[float], str]

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        import pandas as pd

        bars = pd.DataFrame(self.series, index=list(self.groups))
        bars.plot.bar(ax=axes, rot=0, color=list(CYCLE), ylabel=self.y_label)
        if self.text is format_share:
            axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda value, _: self.text(value))
        axes.grid(axis="y", alpha=0.4)
        axes.legend(fontsize="small")


@dataclass(frozen=True)
class Map:
    """A name in each cell of a table, with one colour for each name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        names = sorted({name for _, cells in self.rows for name in cells})
        for row, (_, cells) in enumerate(self.rows):
            for column, name in enumerate(cells):
                colour = CYCLE[names.index(name) % len(CYCLE)]
                axes.bar(column, 0.9, 0.9, row - 0.45, color=colour, label=name)
        axes.set_xticks(range(len(self.columns)), self.columns)
        axes.set_yticks(range(len(self.rows)), [head for head, _ in self.rows])
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True))  # each name once
        axes.legend(entries.values(), entries, loc="upper left", bbox_to_anchor=(1, 1))


@dataclass(frozen=True)
class RatioMap:
    """A ratio in each cell of a table: blue above 1, red below 1, and grey if unknown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    label: str

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        import numpy as np
        from matplotlib.colors import LogNorm

        ratios = np.ma.masked_invalid([list(cells) for _, cells in self.rows])
        largest = max(ratios.max(), 1 / ratios.min(), MIN_RATIO_RANGE) if ratios.count() else 2.0
        axes.set_facecolor(GREY)
        image = axes.imshow(ratios, "RdBu", norm=LogNorm(1 / largest, largest), aspect="auto")
        for (row, column), ratio in np.ndenumerate(ratios.filled(np.nan)):
            if np.isfinite(ratio):
                colour = "white" if max(ratio, 1 / ratio) > largest**0.6 else "black"
                text = f"{ratio:.3g}"
                axes.text(column, row, text, ha="center", va="center", size=6, color=colour)
        axes.set_xticks(range(len(self.columns)), self.columns, rotation=45)
        axes.set_yticks(range(len(self.rows)), [head for head, _ in self.rows])
        bar = axes.figure.colorbar(image, ax=axes, label=self.label)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        bar.ax.yaxis.set_minor_formatter(lambda *_: "")


@dataclass(frozen=True)
class SpaceTime:
    """Messages of processes in ns: `sends` are (process, start, end), `ends` by process."""

    title: str
    sends: Sequence[tuple[int, float, float]]
    ends: Sequence[float]

    def draw(self, axes: Axes) -> None:
        """Draw the figure."""
        from matplotlib.ticker import MaxNLocator

        axes.barh(range(len(self.ends)), self.ends, color=GREY, alpha=0.3, label="idle")
        rows, starts, ends = zip(*self.sends, strict=True) if self.sends else ((), (), ())
        spans = [end - start for start, end in zip(starts, ends, strict=True)]
        axes.barh(rows, spans, left=starts, color=BLUE, edgecolor="white", linewidth=0.3)
        unit, scale = unit_of(max(self.ends, default=1.0))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / scale:g}")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=unit, ylabel="process")
        axes.invert_yaxis()


@dataclass(frozen=True)
class Panels:
    """Several figures on one canvas, in rows of `columns`."""

    title: str
    figures: Sequence[Lines | Bars | SpaceTime]
    columns: int

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return -(-len(self.figures) // self.columns)


CellMap = Map | RatioMap
Figure = Lines | Bars | CellMap | SpaceTime | Panels


def require_package(name: str, purpose: str) -> None:
    """Raise MpiprofError if a package of the extra `bench` is not installed."""
    if importlib.util.find_spec(name) is None:
        raise MpiprofError(f"{purpose} require {name}: {install_command('bench')}")


def make_canvas(figure: Figure) -> Canvas:
    """Return a drawn figure of matplotlib."""
    from matplotlib.figure import Figure as Canvas

    if not isinstance(figure, Panels):
        height = max(3.8, ROW_HEIGHT * len(figure.rows)) if isinstance(figure, CellMap) else 3.8
        canvas = Canvas(figsize=(6.4, height), layout="constrained")
        _draw_on(canvas.subplots(), figure)
        return canvas
    size = (PANEL_SIZE[0] * figure.columns, PANEL_SIZE[1] * figure.row_count)
    canvas = Canvas(figsize=size, layout="constrained")
    canvas.suptitle(figure.title, fontsize="medium")
    grid = canvas.subplots(figure.row_count, figure.columns, squeeze=False).flatten()
    last = len(figure.figures) - 1
    for number, (axes, panel) in enumerate(zip(grid, figure.figures, strict=False)):
        axes.tick_params(labelsize="x-small")
        axes.tick_params(axis="x", rotation=45)
        _draw_on(axes, panel)
        ends_row = number == last or (number + 1) % figure.columns == 0
        _place_legend(axes, ends_row=ends_row)
    for axes in grid[len(figure.figures) :]:
        axes.set_visible(False)
    return canvas


def _place_legend(axes: Axes, *, ends_row: bool) -> None:
    """Make a panel's legend small; a long one is outside, and only once in a row of panels."""
    legend = axes.get_legend()
    if legend is None:
        return
    if len(legend.get_texts()) <= MAX_INSIDE:
        axes.legend(fontsize="xx-small")
    elif ends_row:
        axes.legend(fontsize="xx-small", loc="upper left", bbox_to_anchor=(1, 1))
    else:
        legend.remove()


def _draw_on(axes: Axes, figure: Lines | Bars | CellMap | SpaceTime) -> None:
    axes.set_prop_cycle(color=CYCLE)
    figure.draw(axes)
    axes.set_title(figure.title, fontsize="medium")


def draw(figure: Figure, file: Path | io.BytesIO, form: str) -> None:
    """Write a figure in one of FORMATS; texts in SVG stay texts."""
    import matplotlib

    with matplotlib.rc_context(FONTS):
        make_canvas(figure).savefig(file, format=form, dpi=DOTS_PER_INCH)


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element for a page."""
    file = io.BytesIO()
    draw(figure, file, "svg")
    text = file.getvalue().decode()
    return text[text.index("<svg") :]
