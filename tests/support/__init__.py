"""Helpers of several tests; this package has no tests."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
IN_CI = os.environ.get("CI") == "true"
