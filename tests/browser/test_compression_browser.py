"""Transfers to the browser: responses are compressed, and scripts are transferred once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.dashboard_server import LOOK_MS, Browser, view
from support.dashboard_traces import plain
from support.wait_until import HANG_S

pytestmark = pytest.mark.slow

PAGES = ("/", "/callsites?callsite=0", "/timeline", "/algorithms?of=bcast&name=chain&p=6")
MOST_AGAIN, MOST_FIRST = 300_000, 300_000  # bytes


def test_a_reload_moves_little(tmp_path: Path, page: Any) -> None:
    with view([plain(tmp_path / "plain")]) as running:
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        moved: dict[str, float] = {}
        requested: set[str] = set()
        network.on("Network.requestWillBeSent", lambda e: requested.add(e["requestId"]))
        network.on(
            "Network.loadingFinished",
            lambda e: moved.update({e["requestId"]: e["encodedDataLength"]}),
        )
        network.on("Network.loadingFailed", lambda e: moved.update({e["requestId"]: 0.0}))

        def bytes_since() -> float:
            """Return the bytes of all requests since the last call, after all have ended."""
            deadline = time.monotonic() + HANG_S
            while requested - moved.keys():
                assert time.monotonic() < deadline, requested - moved.keys()
                page.wait_for_timeout(LOOK_MS)
            total = sum(moved.values())
            moved.clear()
            requested.clear()
            return total

        browser = Browser(page, running)
        assert 100_000 < bytes_since() < MOST_FIRST
        for path in PAGES:
            browser.open(path)
            bytes_since()
            page.reload()
            browser.settled()
            assert 1_000 < bytes_since() < MOST_AGAIN, path
        assert not browser.complaints


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_which_responses_a_browser_may_cache(tmp_path: Path, encoding: str) -> None:
    pytest.importorskip("flask_compress")
    from mpiprof.dashboard import app as apps
    from mpiprof.dashboard.trace_data import TraceContext

    app = apps.make(TraceContext([plain(tmp_path / "plain")], [tmp_path]), "token", ["127.0.0.1"])
    client = app.server.test_client(use_cookies=False)
    plotly = "/_dash-component-suites/plotly/package_data/plotly.min.js"

    def ask(path: str, **headers: str) -> tuple[int, dict[str, str], int]:
        cookie = {"Host": "localhost:1", "Cookie": "mpiprof-1=token", "Accept-Encoding": encoding}
        answer = client.get(path, headers={**cookie, **headers})
        return answer.status_code, dict(answer.headers), len(answer.data)

    ask("/")  # registers the files of Dash's packages
    status, headers, length = ask(plotly)
    assert (status, headers["Content-Encoding"]) == (200, encoding)
    assert length < 2_000_000
    assert "no-cache" in headers["Cache-Control"] and "private" in headers["Cache-Control"]
    status, again, length = ask(plotly, **{"If-None-Match": headers["ETag"]})
    assert (status, length) == (304, 0) and again["ETag"] == headers["ETag"]
    assert "immutable" in ask("/assets/style.css?m=1.5")[1]["Cache-Control"]
    assert "immutable" not in ask("/assets/style.css")[1]["Cache-Control"]
    for path in ("/", "/_dash-layout", "/timeline-data?what=overview&px=800"):
        assert ask(path)[1]["Cache-Control"] == "no-store", path
