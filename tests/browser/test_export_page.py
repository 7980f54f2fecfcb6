"""Exported HTML page: known values in its pictures, no scripts, and a bounded size."""

from __future__ import annotations

import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dashboard_server import chromium
from support.export_trace import HOSTILE, export, mixed
from support.synthetic import Synthetic

import mpiprof
from mpiprof.metrics import raster_data
from mpiprof.operations import base_operation
from mpiprof.reports import charts, html
from mpiprof.trace import Trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed(tmp_path_factory.mktemp("export") / "trace")


@pytest.fixture(scope="module")
def trace(folder: Path) -> Trace:
    return mpiprof.open(folder)


def test_shares_of_time_equal_the_planted_shares(tmp_path: Path) -> None:
    """Two ranks, ten columns: one barrier in half a column and one unfinished barrier."""
    synthetic = Synthetic(2)
    synthetic.started_ns, synthetic.ended_ns = 0, 1_000
    for rank, times in ((0, (550, 875)), (1, (725, 0))):
        synthetic.add(rank, synthetic.add_shape(rank, "barrier", "world"), 0, *times)
    synthetic.add(0, synthetic.add_shape(0, "bcast", "world", root=0), 1, 900, 925)
    trace = mpiprof.open(synthetic.write(tmp_path / "trace"))
    shares = raster_data.compute_time_shares(trace, 10, 8, lambda _: None)
    assert shares.operations == ("barrier", "bcast")
    barrier = [[0, 0, 0, 0, 0, 0.5, 1, 1, 0.75, 0], [0, 0, 0, 0, 0, 0, 0, 0.75, 1, 1]]
    np.testing.assert_allclose(shares.cells[:, :, 0], barrier)
    assert shares.cells[:, :, 1].sum() == pytest.approx(0.25)
    np.testing.assert_allclose(
        raster_data.compute_time_shares(trace, 10, 1, lambda _: None).cells[0], shares.cells.mean(0)
    )


def test_waiting_equals_the_planted_waiting(trace: Trace, folder: Path, tmp_path: Path) -> None:
    """Cells sum to the wait time of call sites, and show it before the late rank's arrival."""
    shares = raster_data.compute_time_shares(trace, 40, 4, lambda _: None)
    assert (shares.waiting <= shares.cells + 1e-12).all()
    waited = shares.waiting.sum((0, 1)) * trace.duration_ns / 40
    kinds = trace.callsites["operation"].map(base_operation)
    known = trace.callsites.groupby(kinds)["total_wait_ns"].sum()
    for operation, ns in zip(shares.operations, waited.tolist(), strict=True):
        assert ns == pytest.approx(known[operation])
    allreduce = shares.waiting[:, :, shares.operations.index("allreduce")].sum(1)
    assert allreduce[0] > 0 and allreduce[2] == 0  # rank 2 arrives last
    assert export(folder, "--to", "html", "-o", tmp_path / "t.html").returncode == 0
    text = Elements((tmp_path / "t.html").read_text()).text
    assert "pale is waiting for other ranks" in text
    assert re.search(r"allreduce \(.*% of it waiting", text)


def test_lateness_equals_the_planted_lateness(trace: Trace) -> None:
    chosen = int(trace.callsites.loc[trace.callsites["operation"] == "bcast", "callsite"].iloc[0])
    site = raster_data.make_sites(trace, [chosen], 7, 100, lambda _: None)[chosen]
    late = [0, 3_001, 20_007, 500]
    np.testing.assert_allclose(site.lateness, np.tile(np.array(late)[:, None], 7))
    np.testing.assert_allclose(site.late, late)
    assert (site.instances, site.last.tolist()) == (30, [0, 0, 30, 0])
    arrivals, _ = trace.matrix(chosen)
    np.testing.assert_allclose(site.worst_imbalance, np.ptp(arrivals, axis=1)[:7])
    assert int(site.ranges.sum()) == 30
    # A late rank stays visible if other ranks share its row.
    site = raster_data.make_sites(trace, [chosen], 7, 2, lambda _: None)[chosen]
    np.testing.assert_allclose(site.lateness, np.tile([[3_001], [20_007]], 7))


def test_a_png_is_read_back() -> None:
    pixels = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
    made = charts.png(pixels, [(0, 0, 0, 0), (1, 2, 3, 255), (4, 5, 6, 9)])
    parts, at = {}, 8
    while at < len(made):
        length = int.from_bytes(made[at : at + 4])
        kind, data = made[at + 4 : at + 8], made[at + 8 : at + 8 + length]
        assert int.from_bytes(made[at + 8 + length : at + 12 + length]) == zlib.crc32(kind + data)
        parts[kind] = data
        at += 12 + length
    assert parts[b"IHDR"][:8] == (3).to_bytes(4) + (2).to_bytes(4)
    assert zlib.decompress(parts[b"IDAT"]) == b"\0\0\1\2\0\2\1\0"
    assert (parts[b"PLTE"], parts[b"tRNS"]) == (b"\0\0\0\1\2\3\4\5\6", b"\0\xff\x09")


class Elements(HTMLParser):
    """Collects the elements of a page, their attributes, and the page's text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Record a text."""
        self.text += data


def test_the_page_stands_alone_and_runs_nothing(folder: Path, tmp_path: Path) -> None:
    done = export(folder, "--to", "html", "-o", tmp_path / "t.html")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "t.html").read_text()
    elements = Elements(page)
    assert HOSTILE in elements.text
    tags = {tag for tag, _ in elements.found}
    assert {"svg", "image", "table"} <= tags
    assert not tags & {"script", "link", "iframe", "img", "object", "embed", "form", "meta-refresh"}
    for _, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name == "src"]
        address = attributes.get("href") or "#"
        assert address.startswith(("#", "data:image/png;base64,"))
    assert not re.search(r"url\(|@import", page)
    ids = {a["id"] for _, a in elements.found if "id" in a}
    links = {a["href"][1:] for _, a in elements.found if (a.get("href") or "").startswith("#")}  # type: ignore[index]
    assert links <= ids
    assert len([i for i in links if i and i.startswith("site-")]) >= 4
    assert "Verdict" in elements.text


def test_the_page_stays_small(tmp_path: Path) -> None:
    """Many ranks, more call sites than are listed, names of 300 and of 100 000 characters."""
    random, ranks, calls = np.random.default_rng(0), 100, html.MAX_LISTED + 10
    synthetic = Synthetic(ranks)
    for i in range(calls):
        arrivals = 1_000_000 * i + random.integers(10_000, 500_000, (1, ranks))
        name = "x" * (100_000 if i % 20 == 0 else 300)
        exits = np.full_like(arrivals, 900_000 + 1_000_000 * i)
        synthetic.add_collective("barrier", arrivals, exits, site=f"a:{i}:{name}")
    synthetic.ended_ns = 1_000_000 * (calls + 1)
    page = html.make_page(mpiprof.open(synthetic.write(tmp_path / "trace")), "", lambda _: None)
    assert len(page) < 1_000_000


def test_pictures_of_noise_stay_small() -> None:
    """Incompressible noise is the worst case of size."""

    def noise(rows: int, columns: int) -> int:
        pixels = np.random.default_rng(0).integers(0, 255, (rows, columns), np.uint8)
        return len(charts.png_address(charts.png(pixels, [(0, 0, 0, 0)] * 255)))

    sites = html.MAX_DRAWN * noise(html.SITE_ROWS, html.SITE_COLUMNS)
    assert sites + noise(html.ROWS, html.COLUMNS) < 2_000_000


def test_a_summary_has_a_page(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    folder = synthetic.write(tmp_path / "trace")
    assert export(folder, "--to", "html", "-o", tmp_path / "t").returncode == 0
    done = export(folder, "--to", "csv", "-o", tmp_path / "t")
    assert done.returncode == 1
    assert "recorded as summary" in done.stderr


def test_the_page_in_a_browser(folder: Path, tmp_path: Path) -> None:
    """Opened as a file, in both themes and on a phone: no requests, no overflow."""
    assert export(folder, "--to", "html", "-o", tmp_path / "t.html").returncode == 0
    with chromium() as browser:
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 400)):
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
            requested: list[Any] = []
            printed: list[Any] = []
            page.on("request", lambda one, to=requested: to.append(one))
            page.on("console", lambda one, to=printed: to.append(one))
            page.goto((tmp_path / "t.html").as_uri())
            assert [r.url for r in requested if not r.url.startswith("data:")] == [page.url]
            assert printed == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
                "rgb(23, 27, 32)" if scheme == "dark" else "rgb(255, 255, 255)"
            )
            boxes = [image.bounding_box() for image in page.locator("svg image").all()]
            assert len(boxes) >= 9
            assert all(box["width"] > 40 and box["height"] > 3 for box in boxes)
            page.close()
