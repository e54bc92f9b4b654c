"""Every screen of the console, with something on it: for axe-core, and for pictures."""

from __future__ import annotations

import json
from typing import Any

from tests.console.acp_agents import agents_of
from tests.console.pages import answered, asked, origin, ran

from proof.processes.stack import Stack

SIZES = ({"width": 360, "height": 740}, {"width": 768, "height": 1024}, {"width": 1440, "height": 900})
SCHEMES = ("light", "dark")
EDIT = {"kind": "edit", "title": "an edit", "rawInput": {
    "file_path": "a.py", "old_string": "".join(f"{n}\n" for n in range(99)), "new_string": "one\ntwo\n"}}
MARKDOWN = ["# Title\n\n#### Part\n\n[a](https://example.org) `code`\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
            "```\ncode\n```\n\n- [x] done"]
RULE = """[[policy.rules]]
name = "takes a tap"
effect = "ask"
door = "tool"
command = "touch signed"
signed = "passkey"
"""
PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PLANNED = [
    {"sessionUpdate": "agent_message_chunk", "content": {
        "type": "image", "mimeType": "image/gif", "uri": "file:///drawn.gif", "data": PIXEL}},
    {"sessionUpdate": "plan", "entries": [
        {"content": f"Step {n} of what is to be done, in the agent's own words",
         "priority": "high" if n == 2 else "low",
         "status": "completed" if n < 2 else "in_progress" if n == 2 else "pending"} for n in range(9)]},
]
NAMES = ("inbox", "edit", "waiting", "signed", "decided", "denied", "sessions", "spoken", "planned", "ran", "begin",
         "commands", "command", "runners", "usage", "access", "settings", "policy", "audit")


def config() -> str:
    """An agent that repeats its prompt, one that asks for the call in its prompt, one that sends its updates, and a
    rule for signed votes."""
    return RULE + agents_of(writer="text_agent", forger="forging_agent", updater="update_agent")


def fill(stack: Stack) -> dict[str, tuple[str, str]]:
    """Have agents do something of each kind. The path of each screen, and what it shows once it is complete."""
    ran(stack, "writer", json.dumps(MARKDOWN), "spoken")
    ran(stack, "updater", json.dumps(PLANNED), "planned")
    ran(stack, "shell", "seq 40", "ran")
    edit = asked(stack, json.dumps(EDIT), "edit", "forger")
    waiting = asked(stack, "touch waits", "waits")
    signed = asked(stack, "touch signed", "signed")
    denied = asked(stack, "touch denied", "denied")
    answered(stack, denied, "deny", "not now")
    sessions = {one["session_key"].rpartition(":")[2]: one["session_id"] for one in stack.get("/v1/sessions")["items"]}
    command = stack.get("/v1/commands")["items"][0]["id"]
    screens = {
        "inbox": ("/console/", ".cards a"),
        "edit": (f"/console/a/{edit}", ".answer"),
        "waiting": (f"/console/a/{waiting}", ".answer"),
        "signed": (f"/console/a/{signed}", "main p a[href='/console/access']"),
        "decided": ("/console/decided", ".cards a"),
        "denied": (f"/console/a/{denied}", ".notice strong"),
        "sessions": ("/console/sessions", ".cards a"),
        "spoken": (f"/console/sessions/{sessions['spoken']}", ".block.markup pre"),
        "planned": (f"/console/sessions/{sessions['planned']}", ".file img"),
        "ran": (f"/console/sessions/{sessions['ran']}", ".tool pre[aria-label]"),
        "begin": ("/console/sessions/new", ".rule strong"),
        "commands": ("/console/commands", "main a"),
        "command": (f"/console/commands/{command}", ".timeline li"),
        "runners": ("/console/runners", ".runners li li"),
        "usage": ("/console/usage", ".figures td"),
        "access": ("/console/access", "#keys li"),
        "settings": ("/console/settings", "#theme"),
        "policy": ("/console/policy?agent=shell&tool=shell&command=ls", "#rules li"),
        "audit": ("/console/audit", ".records li"),
    }
    assert tuple(screens) == NAMES
    return screens


def show(page: Any, stack: Stack, screen: tuple[str, str]) -> None:
    """Open a screen, and wait until it is complete."""
    path, complete = screen
    page.goto(f"{origin(stack)}{path}")
    page.locator(complete).first.wait_for()


def open_folds(page: Any) -> None:
    """Show what is folded."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
