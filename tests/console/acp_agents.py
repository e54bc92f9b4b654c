"""Tables of a config for the ACP agents of these tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def agent(name: str, *words: str) -> str:
    """The table of an agent that is this Python with these words."""
    return (f'[agents.{name}]\nadapter = "acp"\ncommand = {json.dumps(sys.executable)}\n'
            f"args = {json.dumps(words)}\n")


def agents_of(**modules: str) -> str:
    """The tables of agents, each of which is `main` of a module beside this one."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.console import %s as one; one.main()"
    return "".join(agent(name, "-c", start % module) for name, module in modules.items())
