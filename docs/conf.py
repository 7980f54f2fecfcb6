"""Sphinx configuration of `make docs`. Each build regenerates the pages that come from the code."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))

import graph  # noqa: E402 (in docs/tools)
import pages  # noqa: E402

from mpiprof import __version__  # noqa: E402

project = "mpiprof"
author = "the mpiprof authors"
copyright = f"2026, {author}"  # noqa: A001 (name required by Sphinx)
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_made/*.md", "tools"]
highlight_language = "none"  # most blocks are output; blocks of code name their language
source_suffix = {".md": "markdown"}

html_theme = "furo"
html_title = f"mpiprof {release}"
html_copy_source = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"

MADE = HERE / "_made"
pages.write(MADE)
graph.write(HERE.parent, MADE / "folders.svg", MADE / "core.svg")

# `make man`: the page of the verbs is the man page.
man_pages = [("reference/verbs", "mpiprof", "show who is late at MPI collectives", author, 1)]
