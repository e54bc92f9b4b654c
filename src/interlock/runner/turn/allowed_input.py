"""Decide whether a running tool call was allowed, with the input that it runs with (H-3, H-12). Pure."""

from __future__ import annotations

import msgspec

from interlock.command.card.lines import title
from interlock.command.card.request import ReceivedRequest, announces, parts, same_effect
from interlock.ports.agent import AgentQuestion, InteractionAnswer
from interlock.protocol.codes import Code
from interlock.runner.turn.tool_calls import Allowed, AnnouncedCall

EFFECTS = frozenset({"delete", "edit", "execute", "fetch", "move"})
"""Kinds of tools that have an effect or use the network."""
HARMLESS = frozenset({"read", "search", "think"})


def allowed_input(question: AgentQuestion, answer: InteractionAnswer) -> bytes:
    """Return the input that a yes covers; empty if the request had none, so there is nothing to compare."""
    if answer.updated_input is not None:
        return msgspec.json.encode(answer.updated_input)
    return b"" if question.described and question.input_json == b"{}" else question.input_json


def without_yes(call: AnnouncedCall, input_json: bytes, *, printed: bool = False) -> tuple[Code, str] | None:
    """Return the code and the sentence for a call that runs without a yes; None if it was allowed or has no effect.
    Some agents report a denied call as completed: it certainly ran if a program of it has `printed`."""
    act = title(ReceivedRequest(call.tool_name, input_json, kind=call.kind))
    if not call.asked:
        if not _does_something(call, input_json):
            return None
        return Code.RAN_UNASKED, f"The agent ran a tool without asking: {act}"
    if not call.allowed:
        if not call.denied and _does_something(call, input_json):
            return Code.RAN_UNASKED, f"The agent asked about a tool, but ran it before the answer: {act}"
        return (Code.RAN_UNASKED, f"The agent ran a tool that was denied: {act}") if printed else None
    if input_json == b"{}" or any(_covers(one, input_json) for one in call.allowed):
        return None
    allowed = title(ReceivedRequest(call.tool_name, call.allowed[-1].input, kind=call.kind))
    return Code.RAN_OTHER_THAN_ALLOWED, f"The agent ran {act!r}, but {allowed!r} was allowed."


def _covers(allowed: Allowed, input_json: bytes) -> bool:
    """Return whether what runs is what was allowed; for a request that only described it, whether the description
    matches."""
    if not allowed.input or same_effect(input_json, allowed.input, allowed.content):
        return True
    return allowed.described and announces(allowed.input, input_json, allowed.content)


def _does_something(call: AnnouncedCall, input_json: bytes) -> bool:
    if call.kind in EFFECTS:
        return True
    if call.kind in HARMLESS:
        return False
    found = parts(ReceivedRequest(call.tool_name, input_json))
    return bool(found.lines or found.edits or found.urls)
