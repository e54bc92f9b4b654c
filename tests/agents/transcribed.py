"""The gateway's part for a stage: the transcript of what was received, and the context that is sent with a prompt
(B-1)."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from interlock.protocol.envelope import Frame
from interlock.session.context.context import context
from interlock.session.transcript.entries import Draft, entry_line, header_line, new_entry_id
from interlock.session.transcript.transcript import TranscriptFold, prompt_draft
from interlock.session.transcript.tree import Tree, read_object, read_tree
from runner.stage import Stage

AT = "2026-11-21T00:00:00.000Z"


class Transcribed:
    """Keeps the transcript of one session as a gateway does."""

    def __init__(self, scene: Stage) -> None:
        self.scene = scene
        self.lines: list[bytes] = [header_line(scene.session_id, AT, str(scene.workspace))]
        self.ids: list[str] = []
        self._fold = TranscriptFold("own")
        self._fed = 0

    def append(self, draft: Draft) -> str:
        entry_id = new_entry_id(set(self.ids), secrets.token_bytes)
        self.lines.append(entry_line(draft, entry_id, self.ids[-1] if self.ids else None, AT))
        self.ids.append(entry_id)
        return entry_id

    def take(self) -> None:
        """Apply the frames that the runner has sent since."""
        fresh, self._fed = self.scene.received[self._fed :], len(self.scene.received)
        for frame in fresh:
            if frame.seq is not None:
                for draft in self._fold.feed(frame, 0):
                    self.append(draft)

    @property
    def tree(self) -> Tree:
        self.take()
        return read_tree(self.lines)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What the transcript puts before a model."""
        return context(self.tree).messages

    def all_entries(self) -> list[dict[str, Any]]:
        """{id, message} of the entries that contribute; a compaction comes first."""
        tree = self.tree
        found: list[dict[str, Any]] = []
        for node in tree.nodes:
            entry = tree.entry(tree.at[node.id])
            if node.type == "message":
                found.append({"id": node.id, "message": entry["message"]})
            elif node.type == "compaction":
                kept = next(at for at, one in enumerate(found) if one["id"] == entry["firstKeptEntryId"])
                summary = {"role": "compactionSummary", "summary": entry["summary"]}
                found = [{"id": node.id, "message": summary}, *found[kept:]]
        return found

    def context(self, base: str | None = None) -> dict[str, Any]:
        """What goes with a prompt or a plan for an agent that has all up to `base`."""
        all_entries = self.all_entries()
        at = next((at for at, one in enumerate(all_entries, 1) if one["id"] == base), 0)
        leaf = all_entries[-1]["id"] if all_entries else None
        return {"base": base if at else None, "entries": all_entries[at:], "leaf": leaf}

    async def prompt(self, text: str, base: str | None = None, **fields: Any) -> Frame:
        """Send a prompt with its context, its own entry written first as a gateway does (X-5)."""
        sent = self.context(base)
        frame = await self.scene.prompt(text, context=sent, **fields)
        self.append(prompt_draft(frame.payload, 0))
        return frame


def plain(messages: list[Any]) -> list[dict[str, Any]]:
    """Messages without what names or dates them."""
    kept = ("role", "content", "toolCallId", "toolName", "isError")
    copied = msgspec.json.decode(msgspec.json.encode(messages))
    return [{name: message[name] for name in kept if name in message} for message in copied]


def read(line: bytes) -> dict[str, Any]:
    return read_object(line) or {}
