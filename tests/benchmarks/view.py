"""Speed of `view` on a large trace: `python -m benchmarks.view [--events N] [--ranks N]`.

The benchmark writes a synthetic trace and starts `view`. It measures through the HTTP server: the
preparation of the timeline, the first page, zooming, panning, and the peak memory of the server. A
second pass measures the same with the cache filled. A third one measures the timeline in a browser
(view_browser.py).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks import view_browser
from benchmarks.checks import Row, store
from benchmarks.memory import peak_mb
from benchmarks.reading import write

PIXELS = 1400
MOVES = 300
DEEPEST = 14  # times the window is halved
UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}
# From 10 million events on: the first page after the first opening (s), median and 95th percentile
# of a move (s), the largest answer and memory (MB). What the dashboard promises.
LIMITED = 10**7
LIMITS = (2.0, 0.060, 0.150, 1.0, 1000)
MIN_RATE = 3.0  # million segments/s of the preparation, from LIMITED_RATE events on
LIMITED_RATE = 10**8
POLL_S = 0.05


@dataclass(frozen=True)
class Measured:
    """Times (s), largest timeline response (MB), and peak memory of the server (MB)."""

    page: float
    pictures: float
    ready: float
    moves: list[float]
    largest: float
    peak: float


class Served:
    """A `view` server of a trace, and a connection with the token's cookie."""

    def __init__(self, folder: Path) -> None:
        self.began = time.perf_counter()
        words = ["-m", "mpiprof", "view", str(folder), "--no-browser", "--port", "0"]
        self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        address = urlsplit(self.process.stdout.readline().strip())
        self.connection = http.client.HTTPConnection(str(address.hostname), address.port or 80)
        self.headers = {"Accept-Encoding": "identity"}
        self.largest = 0  # bytes of an answer of /timeline-data
        self.other_peak = 0.0  # MB of a process that prepares the timeline
        self.connection.request("GET", f"/?{address.query}", headers=self.headers)
        answer = self.connection.getresponse()
        answer.read()
        self.headers["Cookie"] = (answer.getheader("Set-Cookie") or "").partition(";")[0]

    def get(self, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return status and content."""
        headers = self.headers | ({"Content-Type": "application/json"} if body else {})
        method, data = ("POST", json.dumps(body)) if body else ("GET", None)
        self.connection.request(method, path, data, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def first_page(self) -> tuple[float, float]:
        """Return the seconds until the overview and until its figures were complete."""
        for path in ("/", "/_dash-layout"):
            self.get(path)
        times_s = []
        for output in ("page.children", "overview-time.children"):
            self._callback(output)
            times_s.append(time.perf_counter() - self.began)
        return times_s[0], times_s[1]

    def _callback(self, output: str) -> None:
        """Request a part of the page from Dash, as the browser's script does."""
        callbacks = json.loads(self.get("/_dash-dependencies")[1])
        one = next(c for c in callbacks if output in c["output"])
        values = {"url.pathname": "/", "url.search": "", "scheme.data": "light", "version.data": ""}

        def filled(ids: list[dict[str, str]]) -> list[dict[str, Any]]:
            return [{**i, "value": values.get(f"{i['id']}.{i['property']}")} for i in ids]

        names = [name.rpartition(".") for name in one["output"].strip(".").split("...")]
        outputs = [{"id": name, "property": part} for name, _, part in names]
        body = {
            "output": one["output"],
            "outputs": outputs if one["output"].startswith("..") else outputs[0],
            "inputs": filled(one["inputs"]),
            "state": filled(one["state"]),
            "changedPropIds": [f"{one['inputs'][0]['id']}.{one['inputs'][0]['property']}"],
        }
        status, content = self.get("/_dash-update-component", body)
        if status != 200 or b'"children"' not in content:
            raise SystemExit(f"{output} failed: {status} {content[:300]!r}")

    def prepare(self) -> tuple[float, int, set[float]]:
        """Return the s until the timeline is ready, its segments, and all reports of progress."""
        begin, reports = time.perf_counter(), set[tuple[str, float]]()
        while (answer := self.get(f"/timeline-data?what=overview&px={PIXELS}"))[0] == 202:
            progress = json.loads(answer[1])
            reports.add((progress["what"], round(progress["progress"], 3)))
            self.note_processes()
            time.sleep(POLL_S)
        head = self.timeline(what="overview")
        return time.perf_counter() - begin, head["segments"], {share for _, share in reports}

    def note_processes(self) -> None:
        """Note the peak memory of the processes that prepare the timeline."""
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError, StopIteration):  # a process may end meanwhile
                for child in path.read_text().split():
                    self.other_peak = max(self.other_peak, peak_mb(child))

    def find_causes(self) -> None:
        """Wait until the causes of the delays are known, as their marks on the timeline need."""
        while self.get("/timeline-data?what=causes")[0] == 202:
            time.sleep(POLL_S)

    def timeline(self, **query: Any) -> dict[str, Any]:
        """Return the header of a /timeline-data response; waits until it has been computed."""
        while True:
            status, content = self.get("/timeline-data?" + urlencode({"px": PIXELS, **query}))
            if status == 200:
                self.largest = max(self.largest, len(content))
                length = int.from_bytes(content[:4], "little")
                head: dict[str, Any] = json.loads(content[4 : 4 + length])
                return head
            if status != 202:
                raise SystemExit(f"the timeline failed: {status} {content[:300]!r}")
            time.sleep(POLL_S)

    def close(self) -> None:
        """Stop the server."""
        self.process.terminate()
        self.process.wait()


def measure(folder: Path) -> Measured:
    """Open a trace and request random windows at all zooms and with all colours."""
    served = Served(folder)
    try:
        page, pictures = served.first_page()
        begin = time.perf_counter()
        length = served.timeline(what="overview")["length"]
        ready = time.perf_counter() - begin
        random = np.random.default_rng(1)
        moves = []
        for i in range(MOVES):
            span = length * 2.0 ** -random.uniform(0, DEEPEST)
            first = random.uniform(0, length - span)
            window = {"from": int(first), "to": int(first + span)}
            colour = ("operation", "algorithm", "waiting")[i % 3]
            begin = time.perf_counter()
            served.timeline(what="window", colour=colour, **window)
            moves.append(time.perf_counter() - begin)
        return Measured(
            page, pictures, ready, moves, served.largest / 1e6, peak_mb(served.process.pid)
        )
    finally:
        served.close()


def prepare(folder: Path, events: int) -> None:
    """Prepare timeline and tables of a trace, then the timeline alone, and report speeds."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    served = Served(folder)
    try:
        measured = served.prepare()
        served.find_causes()
        whole = time.perf_counter() - served.began
        peaks = peak_mb(served.process.pid), served.other_peak
    finally:
        served.close()
    report_rate("preparation of the timeline beside the tables", measured, events)
    for name in ("timeline-*", "tiles.*"):
        for path in (folder / "cache").glob(name):
            path.unlink()
    served = Served(folder)
    try:
        measured = served.prepare()
    finally:
        served.close()
    report_rate("preparation of the timeline alone", measured, events)
    count = len(measured[2])
    print(f"  {count} values of progress; {whole:.1f} s until the causes are known")
    store(Row("preparation: values of progress", "> 3", str(count), count > 3))
    store(Row("preparation: until the causes are known", "", f"{whole:.3g} s"))
    for name, peak in zip(("the server", "the timeline's process"), peaks, strict=True):
        print_result(f"preparation: memory of {name}", peak, "MB", 0)


def report_rate(title: str, measured: tuple[float, int, set[float]], events: int) -> None:
    """Print and store the calls per second of a preparation beside the limit."""
    seconds, segments, _ = measured
    limit = MIN_RATE if events >= 0.99 * LIMITED_RATE else 0.0
    rate = segments / seconds / 1e6
    goal = f">= {limit:g} million" if limit else ""
    missed = ": MISSED" if rate < limit else ""
    print(f"{title}: {seconds:.1f} s, {rate:.2f} million calls/s{missed}", flush=True)
    store(Row(f"{title}: calls/s", goal, f"{rate:.2f} million", rate >= limit))


def report(title: str, found: Measured, events: int) -> None:
    """Print and store the measurements beside their limits."""
    limits = LIMITS if events >= 0.99 * LIMITED else (0.0,) * len(LIMITS)
    page, median, high, largest, memory = limits
    ms = np.sort(np.array(found.moves)) * 1e3
    rows: list[tuple[str, float, str, float]] = [
        ("first page", found.page, "s", page if events < 99e6 or "again" in title else 0),
        ("first page with its pictures", found.pictures, "s", 0),
        ("timeline ready after another", found.ready, "s", 0),
        ("zoom or pan, median", float(np.median(ms)), "ms", median * 1e3),
        ("zoom or pan, 95th percentile", float(np.quantile(ms, 0.95)), "ms", high * 1e3),
        ("zoom or pan, slowest", float(ms[-1]), "ms", 0),
        ("largest answer", found.largest, "MB", largest),
        ("memory", found.peak, "MB", memory),
    ]
    print(title)
    for name, value, unit, limit in rows:
        print_result(f"{title}: {name}", value, unit, limit)


def print_result(name: str, value: float, unit: str, limit: float) -> None:
    """Print and store a measurement beside its limit, 0 if there is none."""
    judged = f"   limit {limit:g}{'' if value < limit else ': MISSED'}" if limit else ""
    print(f"  {name:44}{value:10.2f} {unit:3}{judged}", flush=True)
    goal = f"< {limit:g} {unit}" if limit else ""
    store(Row(name, goal, f"{value:.3g} {unit}", not limit or value < limit))


def number(text: str) -> int:
    """Return the number of a text such as 10M."""
    unit = text[-1:].upper()
    return int(float(text[:-1]) * UNITS[unit]) if unit in UNITS else int(float(text))


def main() -> None:
    """Write a trace, and measure it twice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=number, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--trace", type=Path, help="folder of a trace to reuse, or to write")
    parser.add_argument("--only", choices=("prepare", "browser"), help="measure a part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpiprof-bench-") as name:
        folder = options.trace or Path(name)
        if (folder / "meta.json").exists():
            events = options.events
        else:
            folder.mkdir(parents=True, exist_ok=True)
            events = write(folder, options.events, options.ranks)
        print(f"{events:,} events on {options.ranks} ranks, {MOVES} moves", flush=True)
        measure_parts(folder, events, options.only)


def measure_parts(folder: Path, events: int, only: str | None) -> None:
    """Measure the preparation, the server and the browser, or one of these parts."""
    if only != "browser":
        prepare(folder, events)
    if only is None:
        report("first opening", measure(folder), events)
        report("opened again", measure(folder), events)
        size = sum(p.stat().st_blocks * 512 for p in (folder / "cache").glob("*"))
        print(f"cache: {size / 1e6:,.0f} MB")
    if only != "prepare":
        found = view_browser.measure(folder)
        for result in view_browser.make_rows(found, limited=events >= 0.99 * LIMITED):
            print_result(*result)


if __name__ == "__main__":
    main()
