"""The conversation for an agent whose context the gateway owns: the entries that the agent lacks are sent with its
prompt (B-1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from interlock.engine.bridge.context.context_state import ContextState
from interlock.protocol.limits import MAX_PROMPT_BYTES
from interlock.protocol.payloads import FileTransfer
from interlock.session.context.tool_result_limits import PruningSettings
from interlock.session.transfers import File, chunks

MEDIA_TYPE = "application/json"
USUAL_PRUNING = PruningSettings()
_encode = msgspec.json.Encoder().encode


class ContextMessage(NamedTuple):
    """An entry of the model's context: its id, and its message as JSON."""

    id: str
    message: msgspec.Raw


class Prepared(NamedTuple):
    """The complete context as of the entry `leaf`, the last one that changed it."""

    leaf: str | None
    messages: Sequence[ContextMessage]


class Travelling(NamedTuple):
    """The context for a frame, the files to send before the frame, and the last entry that it includes."""

    context: dict[str, Any]
    transfers: list[FileTransfer]
    leaf: str | None


def travelling(
    state: ContextState, messages: Sequence[ContextMessage], new_id: Callable[[], str],
    pruning: PruningSettings = USUAL_PRUNING
) -> Travelling:
    """Return the part of a context that the agent lacks: `{base, entries, leaf, pruning?}`, or the name of a file that
    holds it if it is too large for a frame. Raises TransferRefused if it is larger than any file."""
    known = 0
    if state.sent:
        known = next((at for at in range(len(messages), 0, -1) if messages[at - 1].id == state.sent), 0)
    leaf = messages[-1].id if messages else None
    context: dict[str, Any] = {
        "base": state.sent if known else None,
        "entries": [{"id": one.id, "message": one.message} for one in messages[known:]], "leaf": leaf,
        **({"pruning": msgspec.to_builtins(pruning)} if pruning != USUAL_PRUNING else {}),
    }
    data = _encode(context)
    if len(data) <= MAX_PROMPT_BYTES:
        return Travelling(context, [], leaf)
    parts = chunks(new_id(), File("context.json", MEDIA_TYPE, data, "context"))
    named = {"transfer_id": parts[0].transfer_id, "media_type": MEDIA_TYPE, "sha256": parts[0].sha256}
    return Travelling(named, parts, leaf)


def without_prompt(messages: Sequence[ContextMessage], turn_entry: str) -> Sequence[ContextMessage]:
    """Return the context before a prompt's own entry, which is already in the transcript if the prompt is sent
    again."""
    at = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].id == turn_entry), len(messages))
    return messages[:at]
