"""Views of a stream: `raw` is all of it, `delivered` what silence permits (S-6, Q-1); and their encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from interlock.engine.viewers.stream_items import Durable, Item, SharedItems, TransientItem
from interlock.gateway.rest import cursors, streams
from interlock.gateway.rest.routes import ApiRequest
from interlock.protocol import frames
from interlock.protocol.envelope import Frame
from interlock.session.silence import MARK, MAX_REMEMBERED, SILENT, Delivered, emptied, is_silent, plain_speech


class StreamViewFilter(Protocol):
    """A viewer's filter. Items must arrive in order, from the start of each open block."""

    sees_all: bool
    """Whether every item is seen, unaltered."""

    def __call__(self, item: Item) -> Item | None:
        """Return an item as the viewer sees it, or None."""
        ...

    def passes(self, run: SharedItems) -> bool:
        """Process a run that is seen unaltered; False if it has to be processed item by item."""
        ...


LINES_AN_EVENT = 4
"""`id`, `event`, `data` of one line, and the empty one."""
PRIME_EVENTS = 64
"""Events before the cursor that a view reads first, so that a continuing block finds the verdict of its start."""


def deliver(view: str, stream: str) -> StreamViewFilter:
    """Return the view of one viewer. Only a session's frames have two views."""
    return _SilencedFrames() if view == "delivered" and stream.startswith("s/") else _Whole()


def prime(view: StreamViewFilter, items: Sequence[Item]) -> None:
    """Process what was sent before, without output."""
    for item in items:
        view(item)


async def primed(call: ApiRequest, view: StreamViewFilter, wanted: streams.StreamQuery) -> StreamViewFilter:
    """Process what precedes the cursor."""
    if wanted.after:
        start = max(0, wanted.after - PRIME_EVENTS)
        events = await call.front.desk.ledger.events(call.principal.tenant_id, wanted.stream, start,
                                                     wanted.after - start)
        prime(view, [Durable(event.n, event.kind, event.body, event.at_ms) for event in events])
    return view


class _Whole:
    sees_all = True

    def __call__(self, item: Item) -> Item | None:
        return item

    def passes(self, run: SharedItems) -> bool:
        return True


class _SilencedFrames:
    sees_all = False

    def __init__(self) -> None:
        self._delivered = Delivered()

    def __call__(self, item: Item) -> Item | None:
        if isinstance(item, Durable):
            frame = item.closing()
            seen = item if frame is None else self._closed(item, frame)
            return _emptied(seen) if MARK in item.body and seen is item else seen
        shown = self._delivered.delta(item.frame)
        if shown is None or shown is item.frame:
            return item if shown is not None else None
        return TransientItem(frames.encode(shown), shown)

    def passes(self, run: SharedItems) -> bool:
        if run.views.spoken is msgspec.UNSET:
            run.views.spoken = _spoken(run)
        if run.views.spoken is None:
            return False
        self._delivered.spoke(run.views.spoken)
        return True

    def _closed(self, item: Durable, frame: Frame) -> Durable:
        if frame.type == "session.turn.end":
            self._delivered.turn_ended()
        if frame.type != "agent.text.done":
            return item
        if not self._delivered.suppresses(frame.payload.block_id, frame.payload.text, frame.metadata):
            return item
        # The other fields, known or not, are kept: only the text is removed.
        whole: dict[str, Any] = msgspec.json.decode(item.body)
        whole["payload"]["text"] = ""
        whole["metadata"] = {**whole.get("metadata", {}), "suppressed": True}
        return Durable(item.n, item.kind, msgspec.json.encode(whole), item.at_ms)


def _emptied(item: Durable) -> Durable:
    """Return what is seen of a frame that may be of a silent turn (Z-5)."""
    whole: dict[str, Any] = msgspec.json.decode(item.body)
    kind: str = whole.get("type", "")
    metadata: dict[str, Any] = whole.get("metadata") or {}
    if not is_silent(kind, whole.get("payload"), metadata):
        return item
    payload = emptied(kind, whole.get("payload", {}))
    if payload is None:
        return item
    whole["payload"] = payload
    whole["metadata"] = {**metadata, "suppressed": True}
    return Durable(item.n, item.kind, msgspec.json.encode(whole), item.at_ms)


def _spoken(run: SharedItems) -> list[str] | None:
    """Return the blocks that a run closes, the last of them, or None if a view must process each item."""
    spoken: list[str] = []
    for item in run:
        if isinstance(item, TransientItem):
            if item.frame.type == "agent.text.delta" or SILENT in item.frame.metadata:
                return None
            continue
        if MARK in item.body:
            return None
        frame = item.known if item.known is not msgspec.UNSET else item.closing()
        if frame is None or frame.type in ("agent.thinking.done", "tool.invoke.result"):
            continue
        if frame.type != "agent.text.done" or not plain_speech(frame.payload.text, frame.metadata):
            return None
        spoken.append(frame.payload.block_id)
    return spoken[-MAX_REMEMBERED:]


def frames_rendering(stream: str, see: StreamViewFilter) -> streams.Render:
    """Return a renderer that encodes a session's stream as server-sent events, as `see` shows it."""
    # Nearly all elements are frames in one line: the parts that differ are inserted into this.
    form = b'id: %b%%d\nevent: frame\ndata: {"n":%%d,"kind":"C","frame":%%b}\n\n' % cursors.lead(stream).encode()

    def render(item: Item) -> bytes | None:
        seen = see(item)
        return write(seen) if seen is not None else None

    def write(seen: Item) -> bytes:
        # Viewers share their items, so what is seen unaltered is encoded once for all of them.
        if seen.shown is None:
            if not isinstance(seen, Durable):
                seen.shown = streams.event("delta", frame_event(seen))
            elif seen.kind == "C" and b"\n" not in seen.body and b"\r" not in seen.body:
                seen.shown = form % (seen.n, seen.n, seen.body)
            else:
                seen.shown = streams.event(_sort(seen), frame_event(seen), cursors.stream_cursor(stream, seen.n))
        return seen.shown

    def write_all(burst: Sequence[Item]) -> list[bytes]:
        parts = [form % (seen.n, seen.n, seen.body) if isinstance(seen, Durable) and seen.kind == "C" else write(seen)
                 for seen in burst]
        written = b"".join(parts)
        # One scan of all of it is cheaper than one of each frame; a line end inside a frame shows in the count.
        plain = b"\r" not in written and written.count(b"\n") == LINES_AN_EVENT * len(parts)
        return parts if plain else [write(seen) for seen in burst]

    one_by_one = streams.each(render)

    def render_burst(burst: Sequence[Item]) -> list[bytes]:
        if not isinstance(burst, SharedItems):
            return write_all(burst) if see.sees_all else one_by_one(burst)
        if not see.passes(burst):
            return one_by_one(burst)
        if (shown := burst.views.shown) is None:
            shown = burst.views.shown = write_all(burst)
        return shown

    return render_burst


def frame_event(item: Item) -> bytes:
    """Encode one element of a session's stream as JSON: {n, kind, frame | notice}, the frame's bytes verbatim."""
    if not isinstance(item, Durable):
        return b'{"kind":"C","frame":' + item.body + b"}"
    name = b"notice" if item.kind == "notice" else b"frame"
    return b'{"n":%d,"kind":"%s","%s":%s}' % (item.n, item.kind.encode(), name, item.body)


def _sort(item: Durable) -> str:
    return item.kind if item.kind in ("notice", "refused") else "frame"
