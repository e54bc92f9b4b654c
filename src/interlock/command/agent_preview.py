"""An agent's own display of its call, read from the bytes that a yes covers (J-12). Pure."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from interlock.protocol.limits import PREVIEW_CHARS_MAX, PREVIEW_PARTS_MAX
from interlock.protocol.payloads import InteractionSubject
from interlock.protocol.resources import AgentPreview, Approval, PreviewPart

_SUBJECT = msgspec.json.Decoder(InteractionSubject)


def preview_of(approval: Approval) -> AgentPreview | None:
    """Return the agent's own diffs and texts, in its order; None if it has no readable one."""
    if not isinstance(approval.subject, msgspec.Raw):
        return None
    try:
        content = _SUBJECT.decode(approval.subject).content
        shown: Any = msgspec.json.decode(content) if isinstance(content, msgspec.Raw) else None
    except msgspec.MsgspecError:
        return None
    listed = cast("list[Any]", shown) if isinstance(shown, list) else []
    parts = [part for one in listed if isinstance(one, dict) and (part := _part(cast("dict[str, Any]", one)))]
    kept: list[PreviewPart] = []
    room = PREVIEW_CHARS_MAX
    for part in parts[:PREVIEW_PARTS_MAX]:
        kept.append(cut := _cut(part, room))
        room -= len(cut.text) + len(cut.old_text or "")
    return AgentPreview(parts=kept, left_out=len(parts) - len(kept)) if kept else None


def _part(shown: dict[str, Any]) -> PreviewPart | None:
    """Read an element of ACP's content: a diff, or a block with a text."""
    path, old, new = (shown.get(name) for name in ("path", "oldText", "newText"))
    if shown.get("type") == "diff" and isinstance(path, str) and isinstance(new, str) and isinstance(old, str | None):
        return PreviewPart(kind="diff", path=path, old_text=old, text=new)
    block = shown.get("content")
    text = cast("dict[str, Any]", block).get("text") if isinstance(block, dict) else None
    return PreviewPart(kind="text", text=text) if isinstance(text, str) and text else None


def _cut(part: PreviewPart, room: int) -> PreviewPart:
    """Return a part cut to at most `room` characters: a diff's old and new text in equal shares."""
    old = part.old_text or ""
    if len(old) + len(part.text) <= room:
        return part
    each = room // 2 if part.old_text is not None else room
    truncated = max(0, len(old) - each) + max(0, len(part.text) - each)
    return msgspec.structs.replace(part, old_text=part.old_text and old[:each], text=part.text[:each],
                                   truncated=truncated)
