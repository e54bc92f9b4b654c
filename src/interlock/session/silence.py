"""Silence: a reply that begins with NO_REPLY is not delivered, and no part of the token ever leaks (Q-1, Q-2).

One automaton filters every output surface. It holds a reply back while the text so far may still become the token; at
the first difference all of it is delivered. Frames, ledger and transcript are never altered.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal, cast

import msgspec

from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import TextDelta, TextDone

TOKEN = "NO_REPLY"
MAX_REMEMBERED = 64
"""Closed blocks whose verdict is kept, since a continuing block shares the verdict of the previous one."""

SILENT = "silent"
"""In a frame's `metadata`: true in a turn whose prompt requested silence, so that none of it is delivered (Z-5)."""
MARK = b'"silent"'
"""Occurs in the bytes of every frame with the mark, and in hardly any other: most need not be decoded."""

_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
"""Characters that make the token a part of a longer word. ASCII only: Korean and Chinese put no space after a foreign
word, so `NO_REPLY\uc785\ub2c8\ub2e4` still begins with the exact token."""

_NO_FILE = {"name": "", "media_type": "application/octet-stream", "size": 0, "content": "",
            "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
"""A file without a byte, and its checksum: shown instead of each chunk of a file that is not delivered."""

Verdict = Literal["hold", "speak", "silent"]


def judge(text: str, ended: bool) -> Verdict:
    """Return the verdict on a reply whose text so far is `text` (Q-1)."""
    visible = _visible(text)
    if visible.startswith(TOKEN):
        after = visible[len(TOKEN):len(TOKEN) + 1]
        if not after:
            return "silent" if ended else "hold"
        return "speak" if after in _WORD else "silent"
    if not ended and TOKEN.startswith(visible):
        return "hold"
    return "speak"


def _visible(text: str) -> str:
    """Return `text` from its first visible character on: a byte order mark or a zero-width character before the token
    is as invisible as white space, and models write both."""
    text = text.lstrip()
    while text and not text[0].isascii() and unicodedata.category(text[0]) == "Cf":
        text = text[1:].lstrip()
    return text


def plain_speech(text: str, metadata: dict[str, Any]) -> bool:
    """Return whether a closed block is delivered regardless of earlier blocks: it continues none, and is not silent."""
    return "continues" not in metadata and metadata.get(SILENT) is not True and _visible(text) != "" \
        and judge(text, ended=True) == "speak"


def emptied(kind: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return a durable frame of a silent turn without its content, so that it keeps its place (Z-5); None for one that
    is shown unchanged. Texts are judged separately, since a continuation shares its block's verdict."""
    match kind:
        case "control.prompt.request":
            return {**_without(payload, "content", "system_append", "context", "options"), "input_type": "text",
                    "text": ""}
        case "agent.thinking.done":
            return {**payload, "text": ""}
        case "tool.invoke.request":
            return {**_without(payload, "title"), "input": {}}
        case "tool.invoke.result":
            return {**_without(payload, "truncated"), "output_type": "empty", "output": ""}
        case "agent.file.transfer":
            return {"transfer_id": payload.get("transfer_id", ""), "purpose": payload.get("purpose", ""), **_NO_FILE}
        case "x-interlock.plan.changed":
            return {**_without(payload, "left_out"), "steps": []}
        case "agent.interaction.request":
            return {**payload, "title": "", "context": _without(payload.get("context", {}), "input")}
        case _:
            return None


def is_silent(kind: str, payload: Any, metadata: Any) -> bool:
    """Return whether a frame belongs to a silent turn: its metadata states it, or it is the prompt that requests it
    (Z-5)."""
    if kind == "control.prompt.request":
        return isinstance(payload, dict) and cast("dict[str, Any]", payload).get("silent") is True
    return isinstance(metadata, dict) and cast("dict[str, Any]", metadata).get(SILENT) is True


def _without(members: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key not in names}


class _Reply:
    """The state of one block: its verdict, and the text that is held back."""

    def __init__(self, verdict: Verdict = "hold") -> None:
        self.verdict: Verdict = verdict
        self.held = ""


class Delivered:
    """The delivered view of one session's frames, for one viewer, from the start of its blocks."""

    def __init__(self) -> None:
        self._replies: dict[str, _Reply] = {}
        self._closed: dict[str, Verdict] = {}
        self._spoken: deque[str] = deque(maxlen=MAX_REMEMBERED)
        """Blocks that closed as plain speech, as nearly all do; `_closed` has the others, and takes precedence."""

    def delta(self, frame: Frame) -> Frame | None:
        """Process a transient frame; returns the part of the reply to deliver now, or None. Other frames pass, except
        in a silent turn."""
        payload = frame.payload
        if frame.type != "agent.text.delta" or not isinstance(payload, TextDelta):
            return None if frame.metadata.get(SILENT) is True else frame
        reply = self._reply(payload.block_id, frame.metadata)
        if reply.verdict != "hold":
            return frame if reply.verdict == "speak" else None
        if payload.offset <= len(reply.held):
            reply.held = reply.held[:payload.offset] + payload.text
            reply.verdict = judge(reply.held, ended=False)
        if reply.verdict != "speak":
            return None
        whole = msgspec.structs.replace(payload, offset=0, text=reply.held)
        reply.held = ""
        return msgspec.structs.replace(frame, payload=whole)

    def suppresses(self, block_id: str, text: str, metadata: dict[str, Any]) -> bool:
        """Process a block's `.done`; returns whether its text is hidden from this view."""
        if self._replies:
            self._replies.pop(block_id, None)
        # The closed text is authoritative, whatever was held; only the verdict of the block that it continues overrides
        # it.
        parent: Verdict = self._verdict(str(metadata["continues"])) if "continues" in metadata else "hold"
        parent = "silent" if metadata.get(SILENT) is True else parent
        verdict: Verdict = parent if parent != "hold" else judge(text, ended=True)
        self._closed[block_id] = verdict if _visible(text) else parent
        if len(self._closed) > MAX_REMEMBERED:
            del self._closed[next(iter(self._closed))]
        return verdict == "silent"

    def spoke(self, blocks: Sequence[str]) -> None:
        """Process the `.done` of blocks that are all `plain_speech`."""
        self._spoken.extend(blocks)
        for block_id in blocks if self._replies or self._closed else ():
            self._replies.pop(block_id, None)
            self._closed.pop(block_id, None)

    def _verdict(self, block_id: str) -> Verdict:
        return self._closed.get(block_id) or ("speak" if block_id in self._spoken else "hold")

    def done(self, frame: Frame) -> Frame:
        """Process a `.done` frame as a struct; a suppressed one keeps its place, with text "" (Q-1)."""
        payload = frame.payload
        if frame.type != "agent.text.done" or not isinstance(payload, TextDone):
            return frame
        if not self.suppresses(payload.block_id, payload.text, frame.metadata):
            return frame
        return msgspec.structs.replace(frame, payload=msgspec.structs.replace(payload, text=""),
                                       metadata={**frame.metadata, "suppressed": True})

    def _reply(self, block_id: str, metadata: dict[str, Any]) -> _Reply:
        reply = self._replies.get(block_id)
        if reply is None:
            parent: Verdict = "silent" if metadata.get(SILENT) is True \
                else self._verdict(str(metadata.get("continues", "")))
            reply = self._replies[block_id] = _Reply(parent)
        return reply

    def turn_ended(self) -> None:
        """Drop blocks that were never closed."""
        self._replies.clear()
