"""Agents that are found by the name of their program, and how each is driven; every entry was tried or is
documented."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from interlock.protocol.extras import install

_NO_ENV: Mapping[str, str] = MappingProxyType({})
_ASK_FOR_ALL = '{"*":"ask"}'


class KnownAgent(NamedTuple):
    """A known agent: its id, its program, and its table of the config."""

    agent_id: str
    program: str
    adapter: str
    args: tuple[str, ...]
    asks: bool
    """Whether it asks before each tool call that changes something, set up as printed; otherwise the whole command
    waits for approval (A-10)."""
    remark: str = ""
    env: Mapping[str, str] = _NO_ENV
    mode: str = ""
    """The mode to open it in, if its default mode runs tools without asking."""


KNOWN: tuple[KnownAgent, ...] = (
    KnownAgent("claude", "claude", "claude", (), True, f"driven by the Claude Agent SDK: {install('agents')}; "
               "without `command` its own Claude Code is used"),
    KnownAgent("claude-acp", "claude-agent-acp", "acp", (), True, mode="default"),
    KnownAgent("codex", "codex", "exec", ("exec", "--", "{prompt}"), False,
               "each command is held for a yes; codex-acp over `acp` asks"),
    KnownAgent("codex-acp", "codex-acp", "acp", (), True, "commands that its own read-only sandbox allows run unasked",
               {"INITIAL_AGENT_MODE": "read-only"}, "read-only"),
    KnownAgent("gemini", "gemini", "acp", ("--acp",), True, "commands that it takes for reading run unasked"),
    KnownAgent("goose", "goose", "acp", ("acp",), True, "its sub-agents (`delegate`) do not ask",
               {"GOOSE_MODE": "approve"}, "approve"),
    KnownAgent("opencode", "opencode", "acp", ("acp",), True,
               "questions of its sub-agents are never sent: such a turn hangs",
               {"OPENCODE_PERMISSION": _ASK_FOR_ALL}),
    KnownAgent("qwen", "qwen", "acp", ("--acp",), True, "commands that it takes for reading run unasked",
               mode="default"),
    KnownAgent("copilot", "copilot", "acp", ("--acp",), True, "a prompt `/yolo` or `/allow-all on` ends its asking"),
    KnownAgent("vibe", "vibe-acp", "acp", (), True, env={"VIBE_TOOLS": '{"bash":{"allowlist":[]}}'}, mode="ask"),
    KnownAgent("kimi", "kimi", "acp", ("acp",), True, "reading, fetching and delegating are not asked about"),
    KnownAgent("kilo", "kilo", "acp", ("acp",), True, "questions of its sub-agents are never sent: such a turn hangs",
               {"KILO_PERMISSION": _ASK_FOR_ALL}),
    KnownAgent("hermes", "hermes-acp", "acp", (), False, "asks before edits and dangerous commands only"),
    KnownAgent("pi", "pi-acp", "acp", (), False, "asks for nothing"),
    KnownAgent("cline", "cline", "acp", ("--acp",), False, "needs a Cline account; not tried any further"),
    KnownAgent("auggie", "auggie", "acp", ("--acp",), False, "needs an account; not tried"),
)


def found_on_path() -> list[tuple[KnownAgent, str]]:
    """Return each known agent whose program is on PATH, with the program's path."""
    return [(known, path) for known in KNOWN if (path := shutil.which(known.program)) is not None]


def snippet(known: KnownAgent) -> str:
    """Return the config table for the agent: TOML that can be appended to any config without that table."""
    import msgspec

    def text(value: object) -> str:
        return msgspec.json.encode(value).decode()  # A JSON string or array of strings is also valid TOML.

    lines = [f"[agents.{known.agent_id}]", f"adapter = {text(known.adapter)}", f"command = {text(known.program)}"]
    if known.args:
        lines.append(f"args = {text(known.args)}")
    if known.env:
        lines.append("env = { " + ", ".join(f"{name} = {text(value)}" for name, value in known.env.items()) + " }")
    if known.mode:
        lines.append(f"mode = {text(known.mode)}")
    if not known.asks and known.adapter != "exec":
        lines.append("asks = false")
    return "\n".join(lines) + "\n"
