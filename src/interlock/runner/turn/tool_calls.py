"""The tool calls of one turn, from announcement to result, within their limits (E-5). Pure."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.limits import MAX_FILE_BYTES, MAX_TOOL_INPUT_BYTES, MAX_TOOL_OUTPUT_BYTES, TOOL_INPUT_HEAD_BYTES
from interlock.protocol.sizes import json_size
from interlock.runner.turn.blocks import BoundedOutput, fit, sound

_encode = msgspec.json.Encoder().encode


class ChannelText(NamedTuple):
    """Text of a channel at its offset."""

    offset: int
    text: str


def bounded_input(input_json: bytes) -> tuple[bytes, bool]:
    """Return the input as JSON, and whether it was too large and is replaced by {sha256, size, head} (E-5)."""
    if len(input_json) <= MAX_TOOL_INPUT_BYTES:
        return input_json, False
    head = input_json[:TOOL_INPUT_HEAD_BYTES].decode("utf-8", "ignore")
    summary = {
        "sha256": hashlib.sha256(input_json).hexdigest(),
        "size": len(input_json),
        "head": head[: fit(head, TOOL_INPUT_HEAD_BYTES)],
    }
    return _encode(summary), True


MAX_ALLOWED = 8
"""Approved requests of one call that are remembered, the last ones."""


class Allowed(NamedTuple):
    """One approved request. `input` is empty if the request had none."""

    input: bytes
    content: bytes | None = None
    """What the request shows beside its input."""
    described: bool = False
    """Its input does not contain everything that it does."""


class AnnouncedCall:
    """One announced call: its streamed output per channel, and how much of it is stored."""

    def __init__(self, invocation_id: str, started_ms: int, chain: list[dict[str, str]] | None = None, *,
                 tool_name: str = "tool", input_json: bytes = b"{}", delegates_to: str = "",
                 kind: str | None = None, silent: bool = False) -> None:
        self.invocation_id = invocation_id
        self.silent = silent
        """Whether its turn is silent: its frames are marked so (Z-5)."""
        self.chain = chain or []
        """The subagents that started it, as in `delegation_chain`."""
        self.tool_name = tool_name
        self.delegates_to = delegates_to
        """The subagent that it starts; "" if none."""
        self.started_ms = started_ms
        """When it began, on the clock whose time is passed to `result`."""
        self.refusal: Literal["denied", "cancelled"] | None = None
        """Why a request of it was not allowed; None if none was refused."""
        self.asked = False
        """Whether permission was asked for it. A question in words does not count."""
        self.allowed: deque[Allowed] = deque(maxlen=MAX_ALLOWED)
        """What was allowed under its id; the input that it runs with is compared with it (H-3)."""
        self.input_json = input_json
        self.reported = False
        """Whether it was reported as run without a yes, or with another input."""
        self.kind = kind
        self._offsets: dict[p.Channel, int] = {}
        self._kept = BoundedOutput()
        self._spool: bytearray | None = bytearray()
        """All streamed output, while it still fits as a file; then None."""
        self.whole: bytes | None = None
        """After the result: the whole output, of which the result has both ends; None if nothing was cut, or if it is
        larger than a file may be."""

    def ask(self) -> None:
        """Note that permission is asked for it."""
        self.asked = True

    def allow(self, request: Allowed, *, changed: bool) -> None:
        """Note an approved request of it. A `changed` input is the one that it runs with, unless its agent reports
        another."""
        self.allowed.append(request)
        if changed:
            self.input_json = request.input

    @property
    def denied(self) -> bool:
        """Return whether a request of it was not allowed."""
        return self.refusal is not None

    def deny(self, *, cancelled: bool = False) -> None:
        """Note that it was denied, or that the turn was `cancelled` before the answer: an error of it is that."""
        self.refusal = "cancelled" if cancelled else "denied"

    def run_with(self, input_json: bytes) -> None:
        """Note the input that it runs with; an empty one is the announced one."""
        self.input_json = input_json if input_json != b"{}" else self.input_json

    def report(self) -> None:
        """Note that it is reported as run without a yes, or with another input."""
        self.reported = True

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the metadata of each of its frames."""
        return {**({"delegation_chain": self.chain} if self.chain else {}), **({"silent": True} if self.silent else {})}

    @property
    def channels(self) -> list[str]:
        """Return the names of its blocks in the outbox."""
        return [f"{self.invocation_id}/{channel}" for channel in self._offsets]

    def stream(self, channel: p.Channel, text: str) -> ChannelText:
        """Append output; return it at its offset."""
        offset = self._offsets.get(channel, 0)
        self._offsets[channel] = offset + len(text)
        self._kept.add(text)
        self._keep_whole(text)
        return ChannelText(offset, text)

    def _keep_whole(self, text: str) -> None:
        if self._spool is not None:
            self._spool += text.encode()
            if len(self._spool) > MAX_FILE_BYTES:
                self._spool = None

    def result(self, status: p.ToolStatus, output_type: p.OutputType, output: Any, now_ms: int) -> p.ToolResult:
        """Return the result; `output` None means the streamed output. One that is too large is cut to the two ends of
        its text."""
        truncated: p.Truncated | None = None
        whole: bytes | bytearray | None = None
        if output is None:
            output, truncated = self._kept.result()
            output_type = "text" if output else "empty"
            whole = self._spool
        elif _size(output) > MAX_TOOL_OUTPUT_BYTES:
            kept = BoundedOutput()
            text = output if isinstance(output, str) else _encode(output).decode()
            kept.add(text)
            whole = text.encode()
            output, truncated = kept.result()
            output_type = output_type if output_type in ("file_content", "web_content") else "text"
        if truncated is not None and whole is not None and len(whole) <= MAX_FILE_BYTES:
            self.whole = bytes(whole)
        self._spool = None
        return p.ToolResult(
            invocation_id=self.invocation_id, status=status, output_type=output_type, output=output,
            duration_ms=max(now_ms - self.started_ms, 0), truncated=truncated,
        )


def clean(output: Any) -> Any:
    """Replace text in the output that JSON cannot carry."""
    return sound(output) if isinstance(output, str) else output


def _size(output: Any) -> int:
    return json_size(output) if isinstance(output, str) else len(_encode(output))
