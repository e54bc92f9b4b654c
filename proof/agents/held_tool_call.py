"""A real third-party agent (goose, over ACP) is held at one tool call, and runs it only after the grant (A-5, P-6).

Two runs against a model server on loopback: in the first the call is held for more than 90 s, longer than agents' own
callbacks wait, and granted; in the second it is denied, and the file that it would have written must not be there.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from proof import REPOSITORY
from proof.processes.stack import Stack

HOLD_S = 92.0
"""Longer than the 60 s after which a known agent's own permission callback gives up."""
WAIT_S = 60.0

sys.path.insert(0, str(REPOSITORY / "tests"))


class Unmet(Exception):
    """What should have been so, and was not."""


def goose_config(command: Path, home: Path, model_url: str) -> str:
    """`[agents.goose]` as a user would write it."""
    from agents.third_party import goose_environment

    env = ", ".join(f'{name} = "{value}"' for name, value in goose_environment(home, model_url).items())
    return f'\n[agents.goose]\nadapter = "acp"\ncommand = "{command}"\nargs = ["acp"]\nenv = {{ {env} }}\n'


def hold_once(command: Path, hold_s: float, decision: str) -> dict[str, Any]:
    """One run: returns {held_s, ran_before, ran_after, command_state, approval_state}. Raises Unmet."""
    from interlock.model_stand_in import running_model_server

    with tempfile.TemporaryDirectory(prefix="interlock-hold-") as place, running_model_server() as model:
        home = Path(place) / "home"
        home.mkdir()
        stack = Stack(Path(place), goose_config(command, home, model.url))
        try:
            stack.up()
            return hold_until_answered(stack, "goose", hold_s, decision)
        finally:
            stack.down()


def hold_until_answered(stack: Stack, agent_id: str, hold_s: float, decision: str) -> dict[str, Any]:
    """Have the agent ask for one tool call, leave it unanswered for `hold_s` seconds, answer. Raises Unmet."""
    written = stack.workspace / "written.txt"
    command_id = _submit(stack, agent_id, "[[tool:echo held > written.txt; cat written.txt]]")
    approval = _wait(lambda: next(iter(stack.get("/v1/approvals", state="pending")["items"]), None),
                     "the tool call was never asked for")
    time.sleep(hold_s)
    ran_before = written.exists()
    still = stack.get(f"/v1/approvals/{approval['id']}")["state"]
    if still != "pending":
        raise Unmet(f"the approval became {still} while nobody had answered")
    answer = stack.post(f"/v1/approvals/{approval['id']}/grants", {"decision": decision}, "proof-hold-the-vote")
    if answer.status_code not in (200, 201):
        raise Unmet(f"the vote was refused: {answer.text}")
    ended = _wait(lambda: _ended(stack, command_id), "the command never ended")
    return {"held_s": hold_s, "ran_before": ran_before, "ran_after": written.exists(),
            "command_state": ended["state"],
            "approval_state": stack.get(f"/v1/approvals/{approval['id']}")["state"]}


def met(run: dict[str, Any], decision: str) -> bool:
    """Whether a run shows what it should."""
    granted = decision == "grant"
    return (not run["ran_before"] and run["ran_after"] == granted and run["command_state"] == "succeeded"
            and run["approval_state"] == ("consumed" if granted else "denied"))


def _submit(stack: Stack, agent_id: str, prompt: str) -> str:
    body = {"type": "execute", "target": {"agent_id": agent_id, "workspace": str(stack.workspace)},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": prompt}]}]}}
    answer = stack.post("/v1/commands", body, "proof-hold-the-command")
    if answer.status_code != 202:
        raise Unmet(f"the command was refused: {answer.text}")
    return str(answer.json()["id"])


def _ended(stack: Stack, command_id: str) -> dict[str, Any] | None:
    command = stack.get(f"/v1/commands/{command_id}")
    return command if command.get("ended_at") else None


def _wait(look: Any, sentence: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KeyError):
            found = look()
            if found is not None:
                return found
        time.sleep(0.05)
    raise Unmet(sentence)


def run(seed: int, rounds: int | None) -> bool:
    """Hold, then grant; hold shortly, then deny."""
    from installed import find_goose

    command = find_goose()
    if command is None:
        print("goose is not installed; run .ci/install-agents")
        return False
    passed = True
    for decision, hold_s in (("grant", HOLD_S), ("deny", 2.0)) * (rounds or 1):
        try:
            seen = hold_once(command, hold_s, decision)
        except Unmet as unmet:
            print(f"{decision}: {unmet}")
            passed = False
            continue
        print(f"{decision}: " + ", ".join(f"{name} {value}" for name, value in seen.items()))
        passed &= met(seen, decision)
    print("passed" if passed else "FAILED")
    return passed
