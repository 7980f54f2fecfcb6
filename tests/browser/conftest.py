"""Fixtures of the tests in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.dashboard_server import chromium


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    """Start Chromium once for the tests of a module."""
    with chromium() as started:
        yield started
