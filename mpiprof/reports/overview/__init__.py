"""Contents and style of the overview, for the dashboard, the HTML report and notebooks alike.

The modules compute texts, numbers and pictures; a page only lays them out.
"""

from pathlib import Path


def read_style() -> str:
    """Return the style sheet of the overview, which uses the variables of the tokens."""
    return Path(__file__).with_name("overview.css").read_text(encoding="utf-8")
