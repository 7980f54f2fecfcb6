"""Make the pictures of docs/pictures from the current pages: `make pictures`.

Writes traces like those of the tutorial's program, serves them with `view`, and takes screenshots
with Chromium. The traces are computed, so that the pictures do not depend on the machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from support.dashboard_server import CHROMIUM, Browser, chromium, view
from support.synthetic import Synthetic

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
FRAMES, TILES, TILE_BYTES = 50, 32, 8192  # as in docs/tutorial/tiles.py
US, MS = 1_000, 1_000_000
# Each screenshot: file, size, and path of the page.
SHOTS = (
    ("tiles-timeline", (1200, 500), "/timeline?trace=before"),
    ("overview", (1200, 1000), "/?trace=before"),
    ("timeline", (1200, 760), "/timeline?trace=16-ranks&from=100000000&to=200000000"
     "&select=130000000-160000000"),
)  # fmt: skip


def work_ns(ranks: int, deal: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the time of each rank for its tiles of a frame, as in docs/tutorial/tiles.py."""
    tile = np.arange(TILES)
    times = 4 * MS * np.exp(-((tile - 12) ** 2) / 20) + 0.2 * MS
    grid = times.reshape(-1, ranks) if deal else times.reshape(ranks, -1).T
    return np.asarray(grid.sum(axis=0))


def write(folder: Path, ranks: int, nodes: int = 1, *, deal: bool = False) -> None:
    """Write the trace of a run; each frame has an allgather and an allreduce."""
    random = np.random.default_rng(1)
    trace = Synthetic(ranks, nodes=[rank * nodes // ranks for rank in range(ranks)],
                      offsets=[0] * nodes, drifts=[0.0] * nodes)  # fmt: skip
    trace.meta |= {"program": "tiles.py", "command": ["tiles.py"], "mpi": "Open MPI v5.0.11"}
    trace.meta |= {"abi": "openmpi"}
    now = np.full(ranks, 10.0 * MS)
    times: dict[str, list[Any]] = {name: [] for name in ("from", "to", "begin", "end")}
    for _ in range(FRAMES):
        now = now + work_ns(ranks, deal) * random.normal(1, 0.03, ranks)
        for first, last, mean in (("from", "to", 150 * US), ("begin", "end", 30 * US)):
            times[first].append(now)
            now = now.max() + mean * random.uniform(0.9, 1.1, ranks)
            times[last].append(now)
            now = now + 20 * US * random.uniform(0.5, 1.5, ranks)
    size = TILES // ranks * TILE_BYTES
    arrays = {name: np.array(rows).astype(np.int64) for name, rows in times.items()}
    trace.add_collective("allgather", arrays["from"], arrays["to"], sent=size,
                         received=size * ranks, site="tiles.py:48:main")  # fmt: skip
    trace.add_collective("allreduce", arrays["begin"], arrays["end"], site="tiles.py:49:main")
    trace.ended_ns = int(now.max() + 10 * MS)
    folder.mkdir()
    trace.write(folder)


def shoot(started: Any, shown: Any) -> None:
    """Take all screenshots of a running `view`."""
    for name, (width, height), path in SHOTS:
        page = started.new_page(viewport={"width": width, "height": height})
        browser = Browser(page, shown)
        browser.open(path)
        page.screenshot(path=PICTURES / f"{name}.png")
        page.close()
        print(f"docs/pictures/{name}.png", flush=True)


def main() -> None:
    """Write traces, and take screenshots of their pages."""
    if not Path(CHROMIUM).exists():
        raise SystemExit(f"pictures.py: no {CHROMIUM}: apt-get install chromium-headless-shell")
    with tempfile.TemporaryDirectory(prefix="mpiprof-pictures-") as name:
        folder = Path(name)
        write(folder / "before", 4)
        write(folder / "after", 4, deal=True)
        write(folder / "16-ranks", 16, nodes=4)
        # The commands on the pages name `python`, not the path of this interpreter.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        traces = [Path("before"), Path("after"), Path("16-ranks")]
        with view(traces, cwd=folder) as shown, chromium() as started:
            shoot(started, shown)


if __name__ == "__main__":
    main()
