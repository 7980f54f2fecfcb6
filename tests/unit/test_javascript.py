"""The modules of the dashboard in node: geometry, paint, search and state of the timeline."""

from __future__ import annotations

import subprocess

import pytest
from support import ROOT

driver = pytest.importorskip("playwright._impl._driver")

FOLDER = ROOT / "tests" / "javascript"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.test.mjs"))
TIMEOUT_S = 120


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 4


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_passes(name: str) -> None:
    """Run a script by the node of Playwright, which the tests in a browser require anyway."""
    node, _ = driver.compute_driver_executable()
    command = [node, "--test", "--test-reporter=spec", str(FOLDER / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail 0" in done.stdout
