"""Fixture for the documented example of `examples/dps-agent`, which needs Node.js.

It skips where Node.js is absent, unless `INTERLOCK_CI=1`: there its absence is a failure.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dps-agent" / "agent.mjs"
REASON = "the example agent is JavaScript and needs `node` (18 or newer) on PATH"


def node() -> str:
    """The path of `node`; skips, or fails where everything must be there."""
    found = shutil.which("node")
    if found is None:
        if os.environ.get("INTERLOCK_CI") == "1":
            pytest.fail(REASON)
        pytest.skip(REASON)
    return found
