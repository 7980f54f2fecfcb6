"""Early checks that an output file can be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mpiprof.errors import UsageError
from mpiprof.interface.output_files import check_output


@pytest.mark.parametrize(
    ("locked", "replaced", "refused"),
    [
        ("file", False, True),
        ("file", True, False),
        ("folder", False, False),
        ("folder", True, True),
    ],
)
def test_a_file_that_is_replaced_needs_its_folder(
    locked: str, replaced: bool, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.touch()
    closed = path if locked == "file" else tmp_path
    monkeypatch.setattr(
        os, "access", lambda requested, _: requested != closed
    )  # root may write anywhere
    if not refused:
        check_output("-o", path, "plan.json", replaced=replaced)
        return
    with pytest.raises(UsageError, match="cannot be written: pass a file in another folder"):
        check_output("-o", path, "plan.json", replaced=replaced)
