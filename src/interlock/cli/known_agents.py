"""Agents that are found by their program's name, and how each would be driven: facts, each tried or documented."""

from __future__ import annotations

import shutil
from typing import NamedTuple

from interlock.protocol.extras import install


class Known(NamedTuple):
    """One agent: its id, its program, and what stands in the config for it."""

    agent_id: str
    program: str
    adapter: str
    args: tuple[str, ...]
    asks: bool
    """Whether it asks before each tool call, so that a call can be held; else the whole command is held (A-10)."""
    remark: str = ""


KNOWN: tuple[Known, ...] = (
    Known("claude", "claude", "claude", (), True, f"driven by the Claude Agent SDK: {install('agents')}"),
    Known("claude-acp", "claude-agent-acp", "acp", (), True),
    Known("codex", "codex", "exec", ("exec", "--", "{prompt}"), False,
          "each command is held for a yes; codex-acp over `acp` asks"),
    Known("codex-acp", "codex-acp", "acp", (), True),
    Known("gemini", "gemini", "acp", ("--acp",), True),
    Known("goose", "goose", "acp", ("acp",), True, "set GOOSE_MODE=approve, else it asks for nothing"),
    Known("opencode", "opencode", "acp", ("acp",), True),
    Known("qwen", "qwen", "acp", ("--acp",), True),
    Known("copilot", "copilot", "acp", ("--acp",), True),
)


def found_on_path() -> list[tuple[Known, str]]:
    """Give each known agent whose program is on PATH, with its path."""
    return [(known, path) for known in KNOWN if (path := shutil.which(known.program)) is not None]


def snippet(known: Known) -> str:
    """Write the config's table that drives it."""
    import msgspec

    args = f"args = {msgspec.json.encode(known.args).decode()}\n" if known.args else ""
    env = 'env = { GOOSE_MODE = "approve" }\n' if known.agent_id == "goose" else ""
    return f'[agents.{known.agent_id}]\nadapter = "{known.adapter}"\ncommand = "{known.program}"\n{args}{env}'
