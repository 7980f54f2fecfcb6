"""Space-time diagrams: positions in the text, and a self-contained page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from support.uniform_machine import make_uniform

from mpiprof.collectives.draw import axis_ticks, draw_page, draw_text, name_processes
from mpiprof.collectives.schedule import Problem, find
from mpiprof.collectives.simulate import Timing, simulate

MACHINE = make_uniform(1000.0, 1.0)


def binomial(arrivals: tuple[float, ...] = ()) -> Timing:
    """Return a broadcast to 4 processes with messages of 10 µs each."""
    return simulate(find("bcast", "binomial"), Problem(4, 9000), MACHINE, arrivals, trace=True)


def test_text() -> None:
    lines = draw_text(binomial(), name_processes(4), 47).splitlines()
    # Two rounds of 20 characters: 0 to 1, then 0 to 2 and 1 to 3.
    assert lines[0] == "    0 →1──────────────────→2──────────────────┃"
    assert lines[3] == "      ←0──────────────────····················┃"
    assert lines[2] == "    1 ····················→3──────────────────┃"
    assert lines[7] == "      ····················←1──────────────────┃"
    assert max(len(line) for line in lines[:-1]) <= 47


def test_text_is_blank_before_an_arrival() -> None:
    lines = draw_text(binomial((0.0, 20_000.0, 0.0, 0.0)), name_processes(4), 47).splitlines()
    # Rank 1 arrives at 20 of 40 µs. The root sends in order, so it is late to rank 2 as well.
    assert lines[3] == "      " + " " * 20 + "←0────────··········┃"
    assert lines[5].startswith("      " + "·" * 30 + "←0")


def test_text_fits_16_processes_in_80_columns() -> None:
    timing = simulate(find("alltoall", "simple"), Problem(16, 900), MACHINE, trace=True)
    lines = draw_text(timing, name_processes(16), 80).splitlines()
    assert len(lines) == 2 * 16 + 2
    assert all(len(line) <= 80 for line in lines[:-1])
    for peer in range(1, 16):
        assert f"→{peer}" in lines[0]


def test_text_of_two_groups() -> None:
    kang = find("allgather", "kang", intercommunicator=True)
    timing = simulate(kang, Problem(3, 900, 0, 2, 900), MACHINE, trace=True)
    drawn = draw_text(timing, name_processes(3, 2), 100)
    assert "\n   r1 " in drawn
    assert "→r1" in drawn


def test_ticks_are_round() -> None:
    assert axis_ticks(950.0, 5) == [
        (0.0, "0 ns"),
        (200.0, "200 ns"),
        (400.0, "400 ns"),
        (600.0, "600 ns"),
        (800.0, "800 ns"),
    ]
    assert axis_ticks(2.5e6, 4)[1] == (1e6, "1 ms")


def test_page_stands_alone() -> None:
    timing = binomial()
    made = draw_page(timing, name_processes(4), "bcast <binomial>", ["alpha & beta"])
    assert "<script" not in made
    assert not re.search(r"(src|href)=|url\((?!#)|@import", made)
    assert "bcast &lt;binomial&gt;" in made
    assert "alpha &amp; beta" in made
    drawing = ElementTree.fromstring(made[made.index("<svg") : made.index("</svg>") + 6])
    bars = [e for e in drawing if e.get("class") == "m"]
    flows = [e for e in drawing if e.get("class") == "flow"]
    assert (len(bars), len(flows)) == (2 * 3, 3)
    notes = [e[0].text for e in flows]
    assert "round 1: 1 to 3, 9000 bytes, 10 µs to 20 µs" in notes
    peers = sorted(e.text or "" for e in drawing if e.get("class") in ("peer", "dark"))
    assert peers == sorted(["→1", "←0", "→2", "←0", "→3", "←1"])


def test_many_processes_have_narrow_lanes_without_names() -> None:
    timing = simulate(find("bcast", "binomial"), Problem(64, 9000), MACHINE, trace=True)
    made = draw_page(timing, name_processes(64), "bcast", [])
    assert 'class="peer"' not in made
    drawing = ElementTree.fromstring(made[made.index("<svg") : made.index("</svg>") + 6])
    height = float((drawing.get("viewBox") or "").split()[-1])
    lowest = max(float(e.get("y", 0)) + float(e.get("height", 0)) for e in drawing.iter("rect"))
    assert lowest < height < 64 * 30 + 100


def test_nothing_to_draw() -> None:
    alone = simulate(find("bcast", "binomial"), Problem(1, 9000), MACHINE, trace=True)
    assert "0" in draw_text(alone, name_processes(1), 60)
    assert "</svg>" in draw_page(alone, name_processes(1), "nothing", [])
