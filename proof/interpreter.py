"""How the processes of a house are started: with bytecode that was compiled once, as an installation has it.

Where the interpreter is told to write no bytecode, every part of a house would compile a thousand modules again, which
takes as long as the rest of its start.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache

WRITES_NONE = "PYTHONDONTWRITEBYTECODE"


@cache
def environment() -> dict[str, str]:
    """The environment of a part. Its bytecode is in a directory of this process, if it would be nowhere."""
    variables = dict(os.environ)
    if variables.pop(WRITES_NONE, ""):
        place = tempfile.mkdtemp(prefix="interlock-bytecode-")
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        variables["PYTHONPYCACHEPREFIX"] = place
    return variables
