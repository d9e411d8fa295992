"""Where things lie: this checkout, and the real data beside it."""

from __future__ import annotations

from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
DATA = ROOT.parent / "shared" / "data"
