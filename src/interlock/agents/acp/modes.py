"""The modes in which each known ACP agent asks before its tools (H-11). Pure.

The table lists modes that ask, never modes that do not: a mode with a new name, or of an unknown agent, counts as
asking only once a check has seen it ask, or the agent's config names it in `asking_modes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

_NONE: Mapping[str, Any] = MappingProxyType({})


class ModeTable(NamedTuple):
    """The conditions under which an agent asks. Mode ids are in lower case."""

    modes: frozenset[str] = frozenset()
    open_in: str = ""
    """The mode for an agent that opens in one outside `modes` and has none in its config."""
    options: Mapping[str, str] = _NONE
    """Config options, by their id, and the one value of each with which it asks."""
    env: Mapping[str, str] = _NONE
    """Variables that it must be started with: without them its modes prove nothing."""
    meta: Mapping[str, Any] = _NONE
    """Put into `_meta` of its `session/new`: makes it ask also before commands that it considers read-only."""
    known: bool = True
    """Whether the agent is in the table."""


def _modes(*ids: str, open_in: str = "", options: Mapping[str, str] = _NONE,
           env: Mapping[str, str] = _NONE, meta: Mapping[str, Any] = _NONE) -> ModeTable:
    return ModeTable(frozenset(ids), open_in, options, env, meta)


_COPILOT = "https://agentclientprotocol.com/protocol/session-modes#"
_ALL = '{"*":"ask"}'
_OWN_SETTINGS = "CLAUDE_MODEL_CONFIG"
"""With this variable claude-agent-acp makes settings of its own, which settings in `_meta` would replace."""
KNOWN: Mapping[str, ModeTable] = MappingProxyType({
    "@agentclientprotocol/claude-agent-acp": _modes(
        "default", "plan", open_in="default",
        # A rule to ask precedes each rule to allow, and follows each rule to deny: the user's own stay as strict.
        meta={"claudeCode": {"options": {"settings": {"permissions": {"ask": ["Bash"]}}}}}),
    "@agentclientprotocol/codex-acp": _modes("read-only", open_in="read-only"),
    "@mistralai/mistral-vibe": _modes("ask", open_in="ask"),
    "copilot": _modes(f"{_COPILOT}agent", f"{_COPILOT}plan", open_in=f"{_COPILOT}agent", options={"allow_all": "off"}),
    "gemini-cli": _modes("default", "plan", open_in="default"),
    "goose": _modes("approve", open_in="approve"),
    "hermes-agent": _modes(),
    "kilo": _modes("code", "ask", "plan", env={"KILO_PERMISSION": _ALL}),
    "kimi code cli": _modes("default", "plan", open_in="default"),
    "opencode": _modes("build", "plan", env={"OPENCODE_PERMISSION": _ALL}),
    "pi-acp": _modes(),
    "qwen-code": _modes("default", "plan", open_in="default"),
})
"""By `agentInfo.name` in lower case. Each mode was seen asking, or refusing, before the agent's shell and its edits:
`tests/agents/test_lab_modes.py` drives the real ones. goose's `chat` is missing: it reports calls that it skips as
completed, so they look as if they had run."""


def asking_of(agent_name: str, environment: Mapping[str, str], seen: Iterable[str] = ()) -> ModeTable:
    """Return when this agent asks. `seen` are the modes that a check saw asking, or that the agent's config names."""
    found = KNOWN.get(agent_name.casefold(), ModeTable(known=False))
    modes = found.modes
    if any(environment.get(name) != value for name, value in found.env.items()):
        modes = frozenset[str]()
    meta = _NONE if environment.get(_OWN_SETTINGS) else found.meta
    return found._replace(meta=meta, modes=modes | {mode.casefold() for mode in seen})


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge two values of `_meta`: objects member by member, for anything else the second."""
    both = {name: merged(cast("Mapping[str, Any]", under[name]), cast("Mapping[str, Any]", over[name]))
            for name in under.keys() & over.keys()
            if isinstance(under[name], Mapping) and isinstance(over[name], Mapping)}
    return {**under, **over, **both}
