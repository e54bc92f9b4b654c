"""The files that every agent of a state directory is denied (H-15)."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from interlock.box.host import survey
from interlock.runner.session.session_box import Boxing

STAGED_NAME = "staged"


def boxing_of(state: Path, home: Path | None = None) -> Boxing:
    """Return what no agent may access: this state directory, and the default one, if that is another. Tries the host's
    walls, in some 50 ms. `home` is the directory of the runner that stages changes below it; None stages none."""
    usual = platformdirs.user_state_path("interlock", appauthor=False)
    hidden = tuple(dict.fromkeys((str(state.resolve()), str(usual.resolve()))))
    if home is None:
        return Boxing(survey(), hidden)
    return Boxing(survey(str(home.resolve())), hidden, str(home.resolve() / STAGED_NAME))
