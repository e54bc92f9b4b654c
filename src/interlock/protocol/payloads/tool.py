"""`tool.`: calls, their output, their results."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.protocol.payloads.base import Channel, Count, FrameId, OutputType, Payload, ToolStatus


class ToolRequest(Payload, frozen=True, kw_only=True):
    """`tool.invoke.request`; the digest of an approval is SHA-256 of `input`'s bytes as received (P-2)."""

    invocation_id: FrameId
    turn_id: FrameId
    tool_name: str
    input: msgspec.Raw
    title: str | None = None
    parent_invocation_id: FrameId | None = None


class ToolStream(Payload, frozen=True, kw_only=True):
    """`tool.invoke.stream`: `offset` counts code points of this channel before `text` (E-4)."""

    invocation_id: FrameId
    channel: Channel
    offset: Count
    text: str


class Truncated(Payload, frozen=True, kw_only=True):
    """What was cut from a tool's output (E-5)."""

    bytes_total: Count
    bytes_kept: Count
    sha256: str


class ToolResult(Payload, frozen=True, kw_only=True):
    """`tool.invoke.result`."""

    invocation_id: FrameId
    status: ToolStatus
    output_type: OutputType
    output: Any
    duration_ms: Count
    truncated: Truncated | None = None
