"""The terms of a policy rule: what is decided on, who caused it, how much of it is remembered (P-1, H-8)."""

from __future__ import annotations

from typing import Literal

Door = Literal["command", "tool", "workspace"]
"""What is decided on: a command, a tool call, files that configure an agent (H-13)."""
Origin = Literal["user", "agent", "cron", "hook", "flush", "system"]
Permission = Literal["asks", "never"]
Width = Literal["exact", "program", "below", "described"]
"""How much an "always" covers: this very input; this program and first word; this tool below this directory; every call
of this kind that the agent only describes, in this session."""

VERBS = ("cancel", "pause", "resume", "close", "compact", "reset", "patch", "archive", "restore", "release", "drain",
         "undrain", "discard", "label", "branch", "fork", "import", "repair")
"""Requests that are answered at once. A cancel is never held (C-2)."""
COMMAND_TYPES = ("execute", *VERBS)
"""Values of a rule's `type`. A rule without one applies to commands that start work (execute), and to none of the
verbs."""
