"""Report denied calls to the model of an agent, in the text of the session's next prompt (Y-5).

The answer to ACP's `session/request_permission` is an option or "cancelled", and a turn has one prompt. So the agent
receives the denial, but its model receives neither its source nor its reason. The next prompt reaches the model of
every agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from interlock.agents.acp import wire

MAX_NAMED = 5
"""Denied calls that one prompt names, the last ones; the others are counted."""
MAX_CALL_CHARS = 160
HEAD = "Note of Interlock, which starts you and asks people about your tool calls:"


class DeniedCalls:
    """Calls that were denied since the last prompt that named them. Stays empty for an agent that reads
    `_meta.interlock.denied` itself."""

    def __init__(self, reads_meta: bool = False) -> None:
        self._reads_meta = reads_meta
        self._sentences: list[str] = []
        self._more = 0

    def add(self, call: str, why: str) -> None:
        """Add a denied call, by its title, with the sentence that names who denied it and why."""
        if self._reads_meta:
            return
        named = " ".join(call.split())[:MAX_CALL_CHARS]
        self._sentences.append(f"- {named}: {why}" if named else f"- {why}")
        if len(self._sentences) > MAX_NAMED:
            del self._sentences[0]
            self._more += 1

    def appended(self, content: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a prompt's blocks with an additional one that names the calls. A prompt that is a command of the agent
        (`/compact`) is unchanged, since the text would be its arguments: the next prompt names them."""
        if not self._sentences or not content or _is_command(content):
            return list(content)
        more = [f"- and {self._more} more before these"] if self._more else []
        count = len(self._sentences) + self._more
        head = f"{HEAD} {count} of them {'was' if count == 1 else 'were'} denied and did not run."
        text = "\n".join([head, *more, *self._sentences])
        self._sentences, self._more = [], 0
        return [*content, {"type": "text", "text": text}]


def reads_denials(offered: wire.AgentCapabilities) -> bool:
    """Return whether an agent declares that it reads `_meta.interlock.denied`, as our own does."""
    meta: Any = offered.meta
    ours = cast("dict[str, Any]", meta).get("interlock") if isinstance(meta, dict) else None
    return isinstance(ours, dict) and cast("dict[str, Any]", ours).get("denied") is True


def _is_command(content: Sequence[dict[str, Any]]) -> bool:
    first = next((block.get("text") for block in content if block.get("type") == "text"), None)
    return isinstance(first, str) and first.lstrip().startswith("/")
