"""Numbers of call sites if memory is refused: programs/callsite_ids.c."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.compilation import of_the_core
from support.jobs import run

PARTS = (
    "callsite/site",
    "base/map",
    "base/memory",
    "base/recorder",
    "base/signal_guard",
    "base/text",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's call sites into a separate program."""
    executable = tmp_path_factory.mktemp("sites") / "site_ids"
    return of_the_core(
        executable, [*PARTS, "base/hash"], "-Wl,--wrap=calloc", source="callsite_ids.c"
    )


@pytest.mark.heavy
@pytest.mark.parametrize("plan", ["....", ".m.", "m..", ".w.", ".mw.m."])
def test_a_number_stands_for_one_site(plan: str, program: Path) -> None:
    lines = run([program, plan], check=True).stdout.splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    named = [row["site"] for row in rows if row["site"] > 0]
    assert len(set(named)) == len(named)
    had = [int(line) for line in lines if not line.startswith("{")]
    assert [number > 0 for number in had] == [step == "." for step in plan]
    assert set(had) - {0} <= set(named)
