"""What every agent of a state directory is kept from (H-15)."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from interlock.box.host import survey
from interlock.runner.boxing import Boxing


def boxing_of(state: Path) -> Boxing:
    """Return what no agent is to reach: this state directory, and the usual one, if that is another. Tries the host's
    walls, in some 50 ms."""
    usual = platformdirs.user_state_path("interlock", appauthor=False)
    return Boxing(survey(), tuple(dict.fromkeys((str(state.resolve()), str(usual.resolve())))))
