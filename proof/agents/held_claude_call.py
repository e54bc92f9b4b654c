"""Claude Code, through its SDK, is held at one tool call for longer than its callbacks wait; the no still holds (A-5).

Meanwhile the user's own settings allow everything: a rule that allows the tool, and hooks that answer at once. Held for
more than 70 s and denied, the file must not be there; held shortly and granted, it must.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from proof import REPOSITORY
from proof.agents.held_tool_call import Unmet, hold_until_answered, met
from proof.processes.stack import Stack

HOLD_S = 75.0
"""Longer than the 60 s after which a permission callback of Claude Code is known to have given up."""

sys.path.insert(0, str(REPOSITORY / "tests"))


def claude_config(home: Path, model_url: str) -> str:
    """`[agents.claude]` as a user would write it."""
    from agents.third_party import claude_environment

    env = ", ".join(f'{name} = "{value}"' for name, value in claude_environment(home, model_url).items())
    return f'\n[agents.claude]\nadapter = "claude"\nenv = {{ {env} }}\n'


def write_auto_allow(home: Path) -> None:
    """Settings of the user that allow every request of Claude Code."""
    from agents.claude_settings import AUTO_ALLOW, write_settings

    write_settings(home, AUTO_ALLOW)


def hold_once(hold_s: float, decision: str) -> dict[str, Any]:
    """One run: returns {held_s, ran_before, ran_after, command_state, approval_state}. Raises Unmet."""
    from interlock.model_stand_in import running_model_server

    with tempfile.TemporaryDirectory(prefix="interlock-hold-claude-") as place, running_model_server() as model:
        home = Path(place) / "home"
        home.mkdir()
        write_auto_allow(home)
        stack = Stack(Path(place), claude_config(home, model.url))
        try:
            stack.up()
            seen = hold_until_answered(stack, "claude", hold_s, decision)
        finally:
            stack.down()
        if left := stack.leftovers():
            raise Unmet(f"processes of the agent are left: {left}")
        return seen


def run(seed: int, rounds: int | None) -> bool:
    """Hold, then deny; hold shortly, then grant."""
    from installed import find_claude

    if find_claude() is None:
        print("the Claude Agent SDK is not installed; run: pip install 'interlock[agents]'")
        return False
    passed = True
    for decision, hold_s in (("deny", HOLD_S), ("grant", 2.0)) * (rounds or 1):
        try:
            seen = hold_once(hold_s, decision)
        except Unmet as unmet:
            print(f"{decision}: {unmet}")
            passed = False
            continue
        print(f"{decision}: " + ", ".join(f"{name} {value}" for name, value in seen.items()), flush=True)
        passed &= met(seen, decision)
    print("passed" if passed else "FAILED")
    return passed
