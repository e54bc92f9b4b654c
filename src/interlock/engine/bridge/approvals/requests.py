"""The permission request of a frame (H-1); it is parsed in `command/card/permission_request.py`."""

from __future__ import annotations

import msgspec

from interlock.command.card.permission_request import (
    PermissionRequest,
    request_from,
    request_of_approval,
    with_input,
)
from interlock.command.card.request import ReceivedRequest
from interlock.protocol import payloads as p
from interlock.session.turn import OpenTool


def request_of(payload: p.InteractionRequest, announced: OpenTool | None) -> PermissionRequest:
    """Return the request in a frame. A frame without a subject is of a runner that sends only the input; if that is
    also absent, the announced input is used."""
    context = payload.context
    if isinstance(context.subject, msgspec.Raw):
        return request_from(bytes(context.subject))
    own = bytes(context.input) if isinstance(context.input, msgspec.Raw) else None
    if own is None:
        own = announced.input if announced is not None else b"{}"
    kind = announced.kind if announced is not None else None
    return PermissionRequest(ReceivedRequest(context.tool_name, own, payload.title, kind), None)


__all__ = ["PermissionRequest", "request_from", "request_of", "request_of_approval", "with_input"]
