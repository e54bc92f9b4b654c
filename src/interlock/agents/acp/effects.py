"""The result of reading a permission request, and parsing of its JSON (H-2). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import msgspec

from interlock.agents.acp.calls import AcpToolCall
from interlock.agents.acp.wire import AskedCall


class Effect(NamedTuple):
    """The tool call that a request asks about, complete.

    `whole` means that the content describes the effect fully although the input is empty; `partial` means that the
    input omits a part of what runs, so that the request only describes it.
    """

    call: AskedCall
    whole: bool = False
    partial: bool = False


class RequestRead(NamedTuple):
    """A permission request with what the agent sent before it."""

    own: AskedCall
    announced: AcpToolCall
    workspace: str
    others: tuple[AcpToolCall, ...] = ()
    """The other calls of the turn that are announced and have not ended."""


class Reader(NamedTuple):
    """Reads the requests of one agent. `read` returns None if the effect is not in the request. With `waits` the agent
    sends the whole input right after its request, without waiting for the answer."""

    read: Callable[[RequestRead], Effect | None]
    waits: bool = False


def with_input(own: AskedCall, value: dict[str, Any], kind: str | None = None) -> AskedCall:
    """Return the call with this input, and this kind if one is named."""
    raw = msgspec.Raw(msgspec.json.encode(value))
    return msgspec.structs.replace(own, raw_input=raw, kind=kind or own.kind)


def with_content(own: AskedCall, content: list[dict[str, Any]]) -> AskedCall:
    """Return the call with this content."""
    return msgspec.structs.replace(own, content=msgspec.Raw(msgspec.json.encode(content)))


def content_of(own: AskedCall) -> list[dict[str, Any]]:
    """Return the request's content; empty if it has none, or none that can be read."""
    try:
        return msgspec.json.decode(own.content, type=list[dict[str, Any]]) if own.content else []
    except msgspec.MsgspecError:
        return []


def paths_of(own: AskedCall) -> list[str]:
    """Return the paths that the request names, in its order."""
    return [one.path for one in own.locations or []]


def diff_path(item: dict[str, Any]) -> str | None:
    """Return the file whose change an item of content shows as two texts; None if it is not such an item."""
    path, old = item.get("path"), item.get("oldText")
    shown = item.get("type") == "diff" and isinstance(item.get("newText"), str) and isinstance(old, str | None)
    return path if shown and isinstance(path, str) else None


def json_object(raw: bytes | str) -> dict[str, Any] | None:
    """Decode a JSON object, with the last member of each name as the agents do; None for anything else."""
    try:
        value: Any = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
