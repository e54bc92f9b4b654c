"""Start of a stack's processes with bytecode that was compiled once, as in an installation.

If the interpreter writes no bytecode, every component of a stack would compile a thousand modules again, which
takes as long as the rest of its start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache

WRITES_NONE = "PYTHONDONTWRITEBYTECODE"


def environment() -> dict[str, str]:
    """Return the environment of a component: this process's now, with a place for bytecode if it writes none."""
    variables = dict(os.environ)
    if variables.pop(WRITES_NONE, ""):
        variables["PYTHONPYCACHEPREFIX"] = _bytecode_place()
    return variables


@cache
def _bytecode_place() -> str:
    place = tempfile.mkdtemp(prefix="interlock-bytecode-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
