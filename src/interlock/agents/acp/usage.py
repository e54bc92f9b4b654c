"""The tokens of a turn, from the different places in which agents report them (T-2). Pure."""

from __future__ import annotations

from typing import Any, cast

from interlock.agents.acp.wire import Prompted
from interlock.ports.agent import TurnUsage

ACCUMULATING = frozenset({"Copilot", "@mistralai/mistral-vibe", "hermes-agent"})
"""Agents, by their `agentInfo.name`, whose results report the totals of the session; all others report the turn's."""
_NAMES = {
    "input_tokens": ("inputTokens", "input_tokens"),
    "output_tokens": ("outputTokens", "output_tokens"),
    "cache_read_tokens": ("cachedReadTokens", "cachedInputTokens", "cached_read_tokens"),
    "cache_write_tokens": ("cachedWriteTokens", "cacheWriteInputTokens", "cached_write_tokens"),
    "thinking_tokens": ("thoughtTokens", "reasoningOutputTokens", "thought_tokens"),
}
"""Each figure with its names: ACP's, that of codex-acp's and claude-agent-acp's quota, gemini's."""


class Tokens:
    """The tokens of one session of an agent, counted turn by turn."""

    def __init__(self, agent_name: str) -> None:
        """`agent_name` is `agentInfo.name`."""
        self._accumulates = agent_name in ACCUMULATING
        self._before = TurnUsage()
        self._chunks = TurnUsage()

    def begin(self) -> None:
        """Start a turn."""
        self._chunks = TurnUsage()

    def chunk(self, meta: dict[str, Any] | None) -> TurnUsage | None:
        """Add the tokens of one model request that a chunk reports (qwen). Return the turn's totals so far, or None if
        the chunk reports none."""
        figures = _figures((meta or {}).get("usage"))
        if figures is None:
            return None
        self._chunks = _added(self._chunks, figures)
        return self._chunks

    def result(self, result: Prompted) -> TurnUsage:
        """Return the turn's tokens: from its result, else from its `_meta.quota` (gemini), else the sum of its chunks.
        """
        reported = _figures(result.usage) or _figures(_quota(result.meta))
        if reported is None:
            return self._chunks
        if not self._accumulates:
            return reported
        before, self._before = self._before, reported
        return _grown(before, reported)


def _quota(meta: dict[str, Any] | None) -> Any:
    quota = (meta or {}).get("quota")
    return cast("dict[str, Any]", quota).get("token_count") if isinstance(quota, dict) else None


def _figures(reported: Any) -> TurnUsage | None:
    """Return the counts of tokens among an object's members; None if there is none."""
    if not isinstance(reported, dict):
        return None
    members = cast("dict[str, Any]", reported)
    found: dict[str, int] = {}
    for field, names in _NAMES.items():
        figure = next((members[name] for name in names if name in members), None)
        if type(figure) is int and figure >= 0:
            found[field] = figure
    return TurnUsage()._replace(**found) if found else None


def _added(total: TurnUsage, more: TurnUsage) -> TurnUsage:
    sums = {field: (getattr(total, field) or 0) + figure for field in _NAMES
            if (figure := getattr(more, field)) is not None}
    return total._replace(**sums)


def _grown(before: TurnUsage, now: TurnUsage) -> TurnUsage:
    """Return the growth of the session's totals. Totals that shrank restarted, in an agent that lost its session."""
    grown: dict[str, int] = {}
    for field in _NAMES:
        figure, earlier = getattr(now, field), getattr(before, field) or 0
        if figure is not None:
            grown[field] = figure - earlier if figure >= earlier else figure
    return now._replace(**grown)
