"""Fixtures of the tests in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.dashboard_server import chromium


@pytest.fixture(scope="package")
def chrome() -> Iterator[Any]:
    """Start Chromium once for all tests of a worker."""
    with chromium() as started:
        yield started


@pytest.fixture
def page(chrome: Any) -> Iterator[Any]:
    """Return an empty page of 1280 x 900 pixels without cookies."""
    context = chrome.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()
