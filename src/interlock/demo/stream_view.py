"""A viewer's state from a session's stream: the text, the questions, the tool calls that ran, and who allowed them.
Pure.

It shares no code with the gateway, so that it can contradict it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

Document = dict[str, Any]


class StreamView:
    """Applies events in the order in which a viewer receives them; live ones and those of a history alike."""

    def __init__(self) -> None:
        self.last_n = 0
        self.durable = 0
        """Durable frames of the runner."""
        self.refused = 0
        self.holes = 0
        """Times that live text did not continue the known text."""
        self.torn = 0
        """Blocks whose record does not begin with the text that was seen."""
        self.live: dict[str, str] = {}
        """Text of open blocks; a tool's is named by its invocation."""
        self.closed: list[str] = []
        self.held: dict[str, str] = {}
        """interaction → approval that a person is asked for."""
        self.asked: dict[str, Document] = {}
        """interaction → the question's payload."""
        self.outcome: dict[str, str] = {}
        """interaction → the outcome sent to the agent."""
        self.unpermitted: list[str] = []
        """Titles of tool calls that were allowed without a recorded yes."""
        self.resting = False
        """The agent is idle after a turn."""
        self._yes: set[str] = set()

    @property
    def text(self) -> str:
        """Return all recorded text, in order."""
        return "".join(self.closed)

    def shown(self, invocation_id: str | None) -> str:
        """Return the seen output of a tool call that is still open."""
        return self.live.get(invocation_id or "", "")

    def take(self, event: Document) -> None:
        """Apply one event of the stream."""
        n = event.get("n")
        if isinstance(n, int):
            if n <= self.last_n:
                return
            self.last_n = n
        if event.get("kind") == "refused":
            self.refused += 1
            return
        frame = event.get("frame")
        if not isinstance(frame, dict):
            return
        members = cast("Document", frame)
        if n is not None and event.get("kind") == "C":
            self.durable += 1
        self._frame(str(members.get("type")), members.get("payload") or {}, members.get("metadata") or {})

    def _frame(self, kind: str, payload: Document, metadata: Document) -> None:
        match kind:
            case "agent.text.delta":
                self._grow(payload["block_id"], payload, metadata)
            case "tool.invoke.stream":
                self._grow(payload["invocation_id"], payload, metadata)
            case "agent.text.done":
                self._close(payload["block_id"], payload["text"])
            case "tool.invoke.result":
                output = payload["output"]
                self._close(payload["invocation_id"],
                            output if isinstance(output, str) else msgspec.json.encode(output).decode())
            case "agent.state.changed":
                self.resting = payload["state"] == "idle"
            case _:
                self._permission(kind, payload)

    def _permission(self, kind: str, payload: Document) -> None:
        interaction_id = str(payload.get("interaction_id"))
        match kind:
            case "agent.interaction.request":
                self.asked[interaction_id] = payload
            case "x-interlock.interaction.held":
                self.held[interaction_id] = payload["approval_id"]
            case "control.interaction.response" if payload["decision"] == "allow":
                self._yes.add(interaction_id)
            case "x-interlock.interaction.resolved":
                self.outcome[interaction_id] = payload["outcome"]
                if payload["outcome"] == "allowed" and interaction_id not in self._yes:
                    self.unpermitted.append(str(self.asked.get(interaction_id, {}).get("title", interaction_id)))
            case _:
                pass

    def _grow(self, block: str, payload: Document, metadata: Document) -> None:
        """Write text at its offset; known text is skipped (E-4)."""
        have, offset, text = self.live.get(block, ""), int(payload["offset"]), str(payload["text"])
        if offset > len(have):
            self.holes += "omitted" not in metadata
            self.live[block] = have + text
        else:
            self.live[block] = have + text[len(have) - offset:]

    def _close(self, block: str, text: str) -> None:
        self.torn += not text.startswith(self.live.pop(block, ""))
        self.closed.append(text)
