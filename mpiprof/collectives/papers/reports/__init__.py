"""One report for each paper: its tables, figures, formulas and claims, beside its own numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpiprof.collectives.papers.reports.exhibits import Paper

PAPERS = {
    "faraj": "process arrival patterns (Faraj et al. 2008)",
    "rabenseifner": "reductions (Rabenseifner and Adamidis 2004)",
    "traff": "irregular allgathers (Träff et al. 2009)",
    "kang": "allgather between groups (Kang et al. 2019)",
}


def import_paper(name: str) -> Paper:
    """Return a paper by its name on the command line."""
    from mpiprof.collectives.papers.reports.paper_file import read_paper

    return read_paper(name)
