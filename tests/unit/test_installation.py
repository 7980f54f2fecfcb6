"""Commands that install this mpiprof again, by its source."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest
from support import ROOT
from support.jobs import clean_environment

import mpiprof
from mpiprof.__main__ import main
from mpiprof.interface import installation
from mpiprof.interface.installation import (
    DISTRIBUTION,
    install_command,
    library_folder,
    reinstall_command,
)
from mpiprof.interface.shell_hints import python_name

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def installed(folder: Path, name: str, number: str, origin: Any = None) -> Path:
    """Write pip's files of a distribution; returns the folder for sys.path."""
    info = folder / f"{name.replace('-', '_')}-{number}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(
            origin if isinstance(origin, str) else json.dumps(origin)
        )
    return folder


def words_of(command: str) -> list[str]:
    """Return the words after `python -m pip install` in a command, as a shell reads them."""
    words = shlex.split(command)
    assert words[:4] == [*shlex.split(python_name()), "-m", "pip", "install"]
    return words[4:]


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, [f"{DISTRIBUTION}[pack,dask]"]),
        ("{", [f"{DISTRIBUTION}[pack,dask]"]),
        ("[]", [f"{DISTRIBUTION}[pack,dask]"]),
        ({"url": "file:///gone/away", "dir_info": {}}, [f"{DISTRIBUTION}[pack,dask]"]),
        ({"url": "HERE", "dir_info": {}}, ["PATH[pack,dask]"]),
        ({"url": "HERE", "dir_info": {"editable": True}}, ["--editable", "PATH[pack,dask]"]),
        (
            {"url": "https://host/m.whl", "archive_info": {}},
            [f"{DISTRIBUTION}[pack,dask] @ https://host/m.whl"],
        ),
        (
            {"url": "https://host/m.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            [f"{DISTRIBUTION}[pack,dask] @ git+https://host/m.git@{COMMIT}"],
        ),
        (
            {
                "url": "HERE",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
                "subdirectory": "below",
            },
            [f"{DISTRIBUTION}[pack,dask] @ git+HERE@{COMMIT}#subdirectory=below"],
        ),
    ],
)
def test_the_command_names_where_it_came_from(
    origin: Any, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PEP 610 describes direct_url.json; for a folder with a space and a quote."""
    source = tmp_path / "it's a clone"
    source.mkdir()
    url = source.as_uri()
    if isinstance(origin, dict):
        origin = {name: url if value == "HERE" else value for name, value in origin.items()}
    monkeypatch.syspath_prepend(str(installed(tmp_path / "site", DISTRIBUTION, "9.9", origin)))
    wanted = [word.replace("PATH", str(source)).replace("HERE", url) for word in expected]
    assert words_of(install_command("pack", "dask")) == wanted
    bare = [word.replace("[pack,dask]", "") for word in wanted]
    assert words_of(install_command()) == bare
    assert words_of(reinstall_command()) == ["--force-reinstall", "--no-deps", *bare]


def test_pip_reads_the_command_of_this_installation() -> None:
    """Pip resolves it without another source from installed packages only, and changes nothing."""
    words = words_of(install_command("pack"))
    assert "mpiprof[" not in " ".join(words)
    (extra,) = re.findall(r"\[(.*)\]", " ".join(words))
    assert extra == "pack"
    assert version(DISTRIBUTION) == mpiprof.__version__


def test_libraries_of_other_sources_are_refused(tmp_path: Path) -> None:
    """The error has one line, with the file that differs and a command that builds again.

    The copy of the package finds the libraries of this environment, as an editable install does
    after a pull.
    """
    copy = tmp_path / "mpiprof"
    shutil.copytree(ROOT / "mpiprof", copy, ignore=shutil.ignore_patterns("__pycache__"))
    search_path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    # Without `site`, the finder of an editable install is absent, so the copy is imported.
    command = [sys.executable, "-S", "-m", "mpiprof", "algorithms", "barrier"]

    def list_algorithms() -> subprocess.CompletedProcess[str]:
        environment = clean_environment() | {"PYTHONPATH": search_path}
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
        )

    equal = list_algorithms()
    assert (equal.returncode, equal.stderr) == (0, "") and "dissemination" in equal.stdout
    source = copy / "core/schedule/schedule.h"
    text = source.read_text()
    for change in (text + "\n", None):
        if change is None:
            source.unlink()
        else:
            source.write_text(change)
        refused = list_algorithms()
        assert refused.returncode == 1 and refused.stdout == ""
        (line,) = refused.stderr.splitlines()
        assert line.startswith(f"mpiprof: {source} differs from the source of the libraries in ")
        assert "--force-reinstall" in line
    source.write_text(text)
    hashes = library_folder() / "sources.sha256"
    listed = {line.split("  ", 1)[1] for line in hashes.read_text().splitlines()}
    c_files = {str(path.relative_to(copy / "core")) for path in (copy / "core").rglob("*.[ch]")}
    assert c_files < listed and {"CMakeLists.txt", "../facts/operations.py"} < listed


def test_every_extra_that_is_named_exists() -> None:
    extras = {
        extra
        for line in requires(DISTRIBUTION) or ()
        for extra in re.findall(r"extra == .(\w+)", line)
    }
    used = set()
    for path in [*(ROOT / "mpiprof").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")]:
        used |= set(re.findall(r"install_command\(\s*['\"](\w+)['\"]", path.read_text()))
    assert {"bench", "dashboard", "dask", "export", "otf2", "pack"} == used <= extras


SOURCES = [
    *(ROOT / "mpiprof").rglob("*.py"),
    *(ROOT / "dashboard").rglob("*.py"),
    *(path for path in (ROOT / "docs").rglob("*.md") if "_made" not in path.parts),
    *(ROOT / ".ci").glob("*"),
    *ROOT.glob("*.md"),
    ROOT / "pyproject.toml",
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_text_names_the_other_project_to_install(path: Path) -> None:
    """The `mpiprof` on PyPI is another project."""
    text = path.read_text("utf-8")
    assert not re.search(r"(?<!/)mpiprof\[|pip install ['\"]?mpiprof\b(?!-)", text)


def test_a_hint_is_made_for_this_interpreter() -> None:
    """No line of the package contains a literal pip command."""
    own = ROOT / "mpiprof" / "interface" / "installation.py"
    for path in {*(ROOT / "mpiprof").rglob("*.py"), *(ROOT / "dashboard").rglob("*.py")} - {own}:
        assert "pip install" not in path.read_text("utf-8"), path


@pytest.mark.heavy
def test_doctor_detects_the_other_project(tmp_path: Path) -> None:
    folder = installed(tmp_path, installation.NAMESAKE, "0.2.2")
    words = [sys.executable, "-m", "mpiprof", "doctor"]
    environment = clean_environment({"PYTHONPATH": str(folder)})
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    line = next(line for line in lines if "another project" in line)
    assert line.startswith("TODO  mpiprof 0.2.2 ")
    for printed in (line, lines[-1]):
        assert "-m pip uninstall mpiprof`" in printed and f"`{reinstall_command()}`" in printed
    assert lines[-1].startswith("next: ")


def test_doctor_is_silent_without_the_other_project(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpiprof.launch.mpiexec.find_candidates", lambda *_: iter(()))
    assert main(["doctor"]) == 1
    assert "another project" not in capsys.readouterr().out


def test_a_checkout_that_is_not_installed_names_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert f"{ROOT}[pack]" in install_command("pack")
