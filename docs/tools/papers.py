"""Make the reports of the four papers and the page with their claims: `make papers`.

    PYTHONPATH=tests python docs/tools/papers.py [--quick]

Chromium prints the reports to docs/results/papers as PDF. The tables of claims are written between
the markers of docs/results/papers.md. Results of finished runs are stored in build/papers, so that
an interrupted run continues.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from markers import replace_between
from support.dashboard_server import chromium

from mpiprof.collectives.papers.reports import PAPERS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGE, REPORTS, PRODUCTS = RESULTS / "papers.md", RESULTS / "papers", ROOT / "build" / "papers"
BEGIN, END = "<!-- claims: made by `make papers` -->", "<!-- end of claims -->"


def print_page(page: Path, path: Path) -> None:
    """Print a report as PDF, with an outline of its exhibits."""
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto(page.as_uri())
        opened.pdf(path=path, prefer_css_page_size=True, outline=True, tagged=True)


def make_report(name: str, quick: bool) -> str:
    """Make the report of a paper, store its PDF, and return its tables."""
    words = [sys.executable, "-m", "mpiprof", "bench", "paper", name, "-o", str(PRODUCTS)]
    subprocess.run([*words, *["--quick"] * quick], cwd=ROOT, check=True)
    print_page(PRODUCTS / f"{name}.html", REPORTS / f"{name}.pdf")
    tables = (PRODUCTS / f"{name}.md").read_text("utf-8")
    heading, _, rest = tables.partition("\n")
    return f"{heading}\n\n[The report with all figures](papers/{name}.pdf)\n{rest}"


def main() -> None:
    """Make all reports, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="quick runs, about 10 minutes")
    quick = parser.parse_args().quick
    REPORTS.mkdir(exist_ok=True)
    tables = "\n".join(make_report(name, quick) for name in PAPERS)
    replace_between(PAGE, BEGIN, END, tables.rstrip("\n"))


if __name__ == "__main__":
    main()
