"""The envelope of every frame (rawp section 2), decoded once with the payload left raw."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from interlock.protocol.limits import MAX_ID_CHARS

DPS_VERSION = "rawp-dps-1.0"
"""Version and WebSocket subprotocol (L-2)."""


class Wire(msgspec.Struct, frozen=True, gc=False):
    """A frame as received: the payload is not decoded, so that a frame that is only relayed is never re-encoded."""

    type: str
    payload: msgspec.Raw
    message_id: Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)] = ""
    session_id: Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)] | None = None
    seq: int | None = None
    timestamp: str = ""
    metadata: dict[str, Any] = {}


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frame as created or parsed: the payload is the struct that the frame table names for `type`.

    `payload` is a `msgspec.Raw` for a type that the table does not know (E-1). `timestamp` is ISO 8601 UTC with
    milliseconds. `seq` is set on durable frames only, when the frame is added to its outbox.
    """

    type: str
    payload: Any
    message_id: str
    session_id: str | None = None
    seq: int | None = None
    timestamp: str
    metadata: dict[str, Any] = {}
