"""The link that algorithms plan with, read from a machine table in any JSON formatting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.compilation import of_the_core
from support.jobs import run

SLOW = {
    "alpha_ns": 40000.0,
    "beta_ns_per_byte": 0.25,
    "pace_ns_per_byte": 3.5,
    "buffer_bytes": 123456.0,
    "sizes": [0, 8, 1024],
}
FAST = dict.fromkeys(SLOW, 1.0) | {"sizes": [0]}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the recorder's reader into a separate program."""
    executable = tmp_path_factory.mktemp("slowest") / "slowest"
    return of_the_core(
        executable,
        ["timing/alpha_beta_fit", "base/text", "base/memory"],
        source="timing_slowest_link.c",
    )


@pytest.mark.heavy
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize(
    ("within", "between", "wanted"),
    [
        (FAST, SLOW, "40000 0.25 3.5 123456"),
        (SLOW, None, "40000 0.25 3.5 123456"),
        (None, SLOW, "40000 0.25 3.5 123456"),
        ({k: v for k, v in SLOW.items() if "pace" not in k}, None, "40000 0.25 0 123456"),
        (None, None, "0 0 0 0"),
        (SLOW | {"undisturbed_rounds": [12, 4, 60]}, None, "40000 0.25 3.5 123456"),
        (SLOW | {"undisturbed_rounds": [12, 3, 60]}, None, "0 0 0 0"),
        (SLOW | {"undisturbed_rounds": [0, 0]}, None, "0 0 0 0"),
        (SLOW | {"undisturbed_rounds": []}, None, "40000 0.25 3.5 123456"),
        (None, SLOW | {"undisturbed_rounds": [0, 0]}, "40000 0.25 3.5 123456"),
    ],
)
def test_the_slowest_link(
    indent: int | None,
    order: bool,
    within: dict[str, Any] | None,
    between: dict[str, Any] | None,
    wanted: str,
    program: Path,
    tmp_path: Path,
) -> None:
    """Formatted as by `json.dumps`, and as by `jq` with and without -S."""
    table = {"source": "calibrate", "within": within, "between": between, "gamma": 0.5}
    (tmp_path / "table").write_text(json.dumps(table, indent=indent, sort_keys=order))
    with (tmp_path / "table").open() as file:
        assert run([program], stdin=file, check=True).stdout.strip() == wanted
