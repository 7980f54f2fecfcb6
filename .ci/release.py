"""Make a release (`make release`): source archive and wheels in dist, built from a clean clone.

The script first requires a clean checkout, and a dated entry of this version in CHANGELOG.md. The
wheels are built from the source archive, which proves that the archive is complete.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLONE = ROOT / "build" / "release"
DIST = ROOT / "dist"


def said(*words: str, folder: Path = ROOT) -> str:
    """Run a command in a folder and return its output; raises CalledProcessError if it fails."""
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


def version() -> str:
    """Return the version of this checkout."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "mpiprof/__init__.py").read_text(), re.M)
    if found is None:
        raise SystemExit("mpiprof/__init__.py has no __version__")
    return found[1]


def check(number: str) -> None:
    """Raise SystemExit unless this version can be released."""
    if said("git", "status", "--porcelain"):
        raise SystemExit("something is uncommitted: a release is what a clone has; commit it first")
    if f"v{number}" in said("git", "tag").split():
        raise SystemExit(f"v{number} is released: give mpiprof/__init__.py another __version__")
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    match = re.fullmatch(rf"{re.escape(number)} \((\d{{4}}-\d\d-\d\d)\)", next(iter(headings), ""))
    if match is None:
        raise SystemExit(
            f"CHANGELOG.md does not begin with this version: change its first heading to "
            f"`## {number} ({datetime.date.today()})`"
        )


def main() -> None:
    """Check, build, and print a summary."""
    number = version()
    check(number)
    for folder in (CLONE, DIST):
        shutil.rmtree(folder, ignore_errors=True)
    said("git", "clone", "--quiet", "--no-local", str(ROOT), str(CLONE))
    said(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", str(DIST), folder=CLONE)
    archive = DIST / f"mpiprof_arrivals-{number}.tar.gz"
    print(archive.relative_to(ROOT), flush=True)
    with tarfile.open(archive) as packed:
        packed.extractall(CLONE.parent, filter="data")
    source = CLONE.parent / f"mpiprof_arrivals-{number}"
    words = [sys.executable, str(ROOT / ".ci/wheels.py"), "--source", str(source), "-o", "dist"]
    subprocess.run(words, cwd=ROOT, check=True)
    shutil.rmtree(source)
    files = sorted(p for p in DIST.iterdir() if p.suffix in (".gz", ".whl"))
    sums = "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files)
    (DIST / "SHA256SUMS").write_text(sums)
    print(f"dist/SHA256SUMS: {len(files)} files of mpiprof {number}")
    print(f"next: git tag -a v{number} -m 'mpiprof {number}'; then publish what is in dist")


if __name__ == "__main__":
    main()
