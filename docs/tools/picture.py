"""Extract the timeline from an exported page as a stand-alone SVG file.

python -m mpiprof export TRACE --to html -o page.html
python docs/tools/picture.py page.html docs/pictures/name.svg
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Colours of the page's light theme, and a background, because viewers differ in theirs.
STYLE = """<style>svg { background: #fff; font: 12px system-ui, sans-serif } text { fill: #1f2730 }
.grid { stroke: #d9dee4; fill: none } .ground { fill: #f6f7f9 }</style>"""


def timeline(page: str) -> str:
    """Return the picture of a page that shows all ranks over time."""
    found = re.search(r"<svg [^>]*timeline of all ranks.*?</svg>", page, re.DOTALL)
    if found is None:
        raise SystemExit("picture.py: no timeline in that page; export a trace with events")
    drawn = found[0].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return drawn.replace(">", f">{STYLE}", 1) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(timeline(Path(sys.argv[1]).read_text("utf-8")), "utf-8")
