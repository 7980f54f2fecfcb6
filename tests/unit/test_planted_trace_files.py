"""Links, pipes and devices in the place of a trace's files: readers never open them."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import mutants
from support.wait_until import HANG_S

import mpiprof
from mpiprof.__main__ import main
from mpiprof.errors import TraceError
from mpiprof.interface import untrusted_files
from mpiprof.trace.dataset import FILE_NAME as DATASET
from mpiprof.trace.pack import FILE_NAME as PACK

SECRET = "TOP-SECRET-NAME"
FILES = (
    *("meta.json", "rank-000001.log", "rank-000001.tables", "selection.jsonl", "switches.txt"),
    *(".first-end", ".watch", PACK, DATASET),
)


@pytest.fixture(autouse=True)
def limited_time() -> Iterator[None]:
    """Interrupt a test that blocks on a pipe."""

    def fail(*_: object) -> None:
        pytest.fail("a file blocks")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def run_verbs(folder: Path) -> str:
    """Run some verbs that read all files of a trace, and return their output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        for words in (["report", "--all"], ["status"], ["history"], ["tune", "--found"]):
            main([*words, str(folder)])
    return output.getvalue()


@pytest.mark.heavy
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "zero", "link", "folder"])
def test_only_regular_files_of_a_trace_are_opened(tmp_path: Path, name: str, kind: str) -> None:
    folder = mutants.write_seed(tmp_path / "trace")
    path = folder / name
    content = path.read_bytes() if path.exists() else b"SwitchName=%s Nodes=n0" % SECRET.encode()
    path.unlink(missing_ok=True)
    secret = tmp_path / "secret"
    secret.write_bytes(content.replace(b"cfd3d", SECRET.encode()))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else secret)
    output = run_verbs(folder)
    assert "Traceback" not in output and SECRET not in output


def test_a_link_in_place_of_the_metadata_is_named(tmp_path: Path) -> None:
    folder = mutants.write_seed(tmp_path / "trace")
    (folder / "meta.json").rename(tmp_path / "meta.json")
    (folder / "meta.json").symlink_to(tmp_path / "meta.json")
    assert "meta.json cannot be read: it is a symbolic link" in mpiprof.open(folder).problems


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    mutants.write_seed(tmp_path / "trace")
    (tmp_path / "link").symlink_to(tmp_path / "trace")
    assert mpiprof.open(tmp_path / "link").program == "cfd3d"


def test_a_file_of_a_data_set_lies_inside_of_it(tmp_path: Path) -> None:
    """The names of its files are in a table, so somebody else may have written them."""
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    folder, out = mutants.write_seed(tmp_path / "trace"), tmp_path / "data"
    assert main(["export", "--to", "dataset", "-o", str(out), str(folder)]) == 0
    blocks = out / "definitions" / "blocks.parquet"
    table = parquet.read_table(blocks)
    names = [f"../data/{name}" for name in table.column("file").to_pylist()]
    at = table.column_names.index("file")
    parquet.write_table(table.set_column(at, "file", pa.array(names)), blocks)
    with pytest.raises(TraceError, match="damaged"):
        mpiprof.open(out).callsites  # noqa: B018


def test_a_user_may_name_a_link_but_not_an_endless_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[1]")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert untrusted_files.read_named_json(tmp_path / "link") == [1]
    with pytest.raises(OSError, match="too large"):
        untrusted_files.read_named_file(Path("/dev/zero"), 1 << 20)
