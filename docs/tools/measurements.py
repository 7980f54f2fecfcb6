"""The measurements of docs/results: each with its page, its commands and its output format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CLUSTER = "--cluster 16x100mbit"
STUDY = "-o {out}/study"  # CSV of a study


@dataclass(frozen=True)
class Columns:
    """Columns of a study's CSV that form a row, for a study without requirements.

    what: columns of the subject. measured: columns of results, each with its requirement or "".
    where: values that a row must have.
    """

    what: tuple[str, ...]
    measured: Mapping[str, str]
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pattern:
    """A number in a command's output: its subject, its requirement, and a regular expression."""

    what: str
    asked: str
    expression: str


@dataclass(frozen=True)
class Measurement:
    """Commands that measure promises of one page.

    commands: words after `python -m`; {out} is a scratch folder, {samples} the folder of samples.
    minutes: expected duration on two idle processors. long: measured only if it is named.
    drawn: the picture of the page has these rows.
    """

    name: str
    page: str
    commands: tuple[str, ...]
    minutes: float
    mpi: str = "openmpi"
    long: bool = False
    drawn: bool = True
    columns: Columns | None = None
    patterns: tuple[Pattern, ...] = ()


def bench(words: str) -> tuple[str]:
    """Return the command of a study."""
    return (f"mpiprof bench {words} {STUDY}",)


ROBUST = (
    Pattern("settings within 1.01 of the best after probing", "all", r"of the best: (\d+ of \d+)"),
    Pattern("settings with a whole run of at least 0.99 of native", "all", r"native: (\d+ of \d+)"),
    Pattern("native / auto of the slowest whole run", "at least 0.99", r"the least ([\d.]+)"),
    Pattern("probing instances, median", "at most 10", r"instances, median: ([\d.]+)"),
)
ARRIVAL = Columns(
    ("computation ms", "bytes"), {"exit ω/T": "", "computation ω/T": "", "arrival ω/T": ""}
)
REPLAYED = (
    Pattern("instances with arrivals within 50 µs", "", r"; (\d+%) of the instances within"),
    Pattern("error of arrivals, median", "", r"imposed within ([\d.]+ \w+) \(median\)"),
)

MODEL = (
    Pattern(
        "error of predicted times in %, median",
        "at most 10",
        r"all operations, transport: median error ([\d.]+) %",
    ),
    Pattern(
        "rank correlation of predicted and measured times, median",
        "at least 0.9",
        r"all operations, transport: .*median rank correlation ([\d.]+)",
    ),
    Pattern(
        "rank correlation of alternate repetitions, median",
        "",
        r"all operations: median rank correlation of alternate repetitions ([\d.]+)",
    ),
    Pattern(
        "pairs of algorithms that differ by 5 %, predicted in their order",
        "",
        r"all operations, transport: .*; (\d+ of \d+) clear pairs",
    ),
    Pattern(
        "time of the algorithm that is predicted to be the fastest, over the fastest, mean",
        "",
        r"all operations, transport: .*mean regret ([\d.]+)",
    ),
    Pattern(
        "error without transport in %, median",
        "",
        r"all operations, plain: median error ([\d.]+) %",
    ),
    Pattern(
        "rank correlation without transport, median",
        "",
        r"all operations, plain: .*median rank correlation ([\d.]+)",
    ),
    Pattern(
        "time of the algorithm chosen without transport, over the fastest, mean",
        "",
        r"all operations, plain: .*mean regret ([\d.]+)",
    ),
    Pattern(
        "groups in which `auto` measures the fastest algorithm",
        "all",
        r"all operations, transport: .*fastest in (\d+ of \d+) groups",
    ),
    Pattern(
        "groups in which `auto` measures the fastest algorithm, without transport",
        "",
        r"all operations, plain: .*fastest in (\d+ of \d+) groups",
    ),
    Pattern(
        "algorithms that `auto` measures",
        "",
        r"all operations, transport: .*measures (\d+ of \d+) algorithms",
    ),
    Pattern(
        "algorithms that `auto` measures, without transport",
        "",
        r"all operations, plain: .*measures (\d+ of \d+) algorithms",
    ),
)
ADAPTIVE = bench(f"adaptive {CLUSTER}")
SIZES = bench(f"robust {CLUSTER} --repetitions 300 --only bcast,allreduce --sizes 16K,64K")
GRID = bench(f"robust {CLUSTER} --repetitions 300 --only alltoall --sizes 64K --full")

MEASUREMENTS = (
    Measurement(
        "call-cost", "call-cost", ("benchmarks.overhead --batches 20 --alternations 3",), 2
    ),
    Measurement("call-cost-messages", "call-cost", ("benchmarks.message_overhead",), 1),
    Measurement("where-cost", "where-cost", ("benchmarks.where_cost",), 13, long=True),
    Measurement("arrival-error", "reported-delays", ("benchmarks.arrival_error",), 0.5),
    Measurement("planted-causes", "planted-causes", ("benchmarks.planted_causes",), 8),
    Measurement("live-causes", "live-causes", ("benchmarks.live_causes",), 10, long=True),
    Measurement("delay-reasons", "delay-reasons", ("benchmarks.delay_reasons",), 6),
    Measurement("delay-speed", "delay-speed", ("benchmarks.delay_speed --calls 1M",), 0.3),
    Measurement("delay-speed-10M", "delay-speed", ("benchmarks.delay_speed --calls 10M",), 1),
    Measurement(
        "many-ranks",
        "many-ranks",
        ("benchmarks.scale --ranks 64 --rounds 10 --laps 3 --kills 0",),
        1.5,
    ),
    Measurement(
        "rank-memory",
        "many-ranks",
        (
            "benchmarks.scale --ranks 4 --rounds 3 --laps 0 --kills 0 --memory "
            "--modes events,summary,ring",
        ),
        0.2,
    ),
    Measurement(
        "kills", "many-ranks", ("benchmarks.scale --ranks 16 --rounds 20 --laps 0 --kills 20",), 1
    ),
    Measurement("messages", "many-ranks", ("benchmarks.messages",), 0.1),
    Measurement(
        "ranks-512",
        "many-ranks",
        ("benchmarks.scale --ranks 512 --rounds 5 --laps 1 --kills 0",),
        15,
        long=True,
    ),
    Measurement(
        "kills-200",
        "many-ranks",
        ("benchmarks.scale --ranks 16 --rounds 20 --laps 0 --kills 200",),
        10,
        long=True,
    ),
    Measurement("hangs", "hangs", ("benchmarks.watch --faults 20 --minutes 0",), 2.5),
    Measurement(
        "hangs-200", "hangs", ("benchmarks.watch --faults 200 --minutes 0",), 25, long=True
    ),
    Measurement(
        "alarms", "hangs", ("benchmarks.watch --faults 0 --minutes 60 --limit 3",), 12, long=True
    ),
    Measurement("reading", "reading", ("benchmarks.reading --events 4000000",), 0.3),
    Measurement(
        "reading-packed", "reading", ("benchmarks.reading --events 4000000 --packed",), 0.3
    ),
    Measurement(
        "reading-20M",
        "reading",
        (
            "benchmarks.reading --events 20000000 --ranks 64",
            "benchmarks.reading --events 20000000 --ranks 64 --packed",
        ),
        2,
        long=True,
    ),
    Measurement("otf2", "reading", ("benchmarks.otf2 --events 1000000",), 0.5),
    Measurement("dashboard", "dashboard", ("benchmarks.view --events 10M",), 4),
    Measurement(
        "dashboard-4096",
        "dashboard",
        ("benchmarks.view --events 100M --ranks 4096",),
        15,
        long=True,
    ),
    Measurement("damage", "damage", ("benchmarks.damage --traces 1000 --seed 7",), 0.7),
    Measurement(
        "damage-packed", "damage", ("benchmarks.damage --traces 500 --packed --seed 5",), 0.5
    ),
    Measurement(
        "damage-100000", "damage", ("benchmarks.damage --traces 100000 --seed 11",), 60, long=True
    ),
    Measurement("dataset", "dataset", ("benchmarks.dataset --events 10M",), 1),
    Measurement("dataset-100M", "dataset", ("benchmarks.dataset --events 100M",), 3, long=True),
    Measurement(
        "dataset-1000M",
        "dataset",
        ("benchmarks.dataset --events 1000M --workers 2 --laps 1",),
        10,
        long=True,
    ),
    Measurement("message-times", "message-times", ("benchmarks.message_times --runs 4",), 1),
    Measurement(
        "message-times-mpich",
        "message-times",
        ("benchmarks.message_times --runs 10",),
        3,
        mpi="mpich",
        long=True,
        drawn=False,
    ),
    Measurement("cases", "cases", bench(f"cases {CLUSTER}"), 2),
    Measurement(
        "cases-mpich", "cases", bench(f"cases {CLUSTER}"), 2, mpi="mpich", long=True, drawn=False
    ),
    Measurement("auto", "auto", bench(f"adaptive {CLUSTER} --only allgatherv,intergroup"), 4),
    Measurement("auto-all", "auto", ADAPTIVE, 20, long=True),
    Measurement("auto-all-mpich", "auto", ADAPTIVE, 20, mpi="mpich", long=True, drawn=False),
    Measurement("auto-robust", "auto", SIZES, 30, long=True, drawn=False, patterns=ROBUST),
    Measurement(
        "auto-robust-mpich", "auto", SIZES, 30, mpi="mpich", long=True, drawn=False, patterns=ROBUST
    ),
    Measurement("auto-grid", "auto", GRID, 60, long=True, drawn=False, patterns=ROBUST),
    Measurement(
        "auto-grid-mpich", "auto", GRID, 60, mpi="mpich", long=True, drawn=False, patterns=ROBUST
    ),
    Measurement(
        "simulator-8", "simulator", bench("model --cluster 8x25mbit"), 15, long=True, patterns=MODEL
    ),
    Measurement(
        "simulator-16",
        "simulator",
        bench("model --cluster 16x25mbit"),
        25,
        long=True,
        patterns=MODEL,
    ),
    Measurement("programs", "programs", bench(f"apps {CLUSTER} --only ft"), 1),
    Measurement(
        "programs-all", "programs", bench(f"apps {CLUSTER} --only ft,fft2d,is,ntube2"), 6, long=True
    ),
    Measurement("coupled", "programs", bench(f"apps {CLUSTER} --only coupled"), 6, long=True),
    Measurement(
        "coupled-mpich",
        "programs",
        bench(f"apps {CLUSTER} --only coupled"),
        4,
        mpi="mpich",
        long=True,
        drawn=False,
    ),
    Measurement(
        "intergroup",
        "intergroup",
        bench("intergroup --simulate 2048 --per-node 32 --sizes 256K"),
        1,
        columns=Columns(
            ("setting", "groups"), {"root gathering / this": ""}, {"algorithm": "kang"}
        ),
    ),
    Measurement("arrival", "arrival", bench("arrival --quick"), 1, columns=ARRIVAL),
    Measurement("arrival-full", "arrival", bench("arrival"), 16, long=True, columns=ARRIVAL),
    Measurement(
        "replay",
        "replay",
        (
            "mpiprof run -q -n 2 -o {out}/trace {samples}/nbody.py --steps 100",
            "mpiprof tune {out}/trace --replay -n 2 --budget 30s",
        ),
        1,
        patterns=REPLAYED,
    ),
)
