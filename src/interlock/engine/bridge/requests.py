"""The permission request that a yes covers, read once: its bytes and digest, its title and its facts (H-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from interlock.command.card import lines as card
from interlock.command.card.request import Asked
from interlock.protocol import payloads as p
from interlock.protocol.resources import Approval
from interlock.session.turn import OpenTool

_SUBJECT = msgspec.json.Decoder(p.InteractionSubject)


class PermissionRequest(NamedTuple):
    """One request. `subject` are the bytes that its digest covers, None if the runner sent its input alone."""

    asked: Asked
    subject: bytes | None
    resolved_paths: Mapping[str, str] = {}
    changed: bool = False

    @property
    def input(self) -> bytes:
        """The request's raw input; `{}` if the agent sent none."""
        return self.asked.input

    @property
    def digest(self) -> str:
        """SHA-256 of what is shown and voted on, hex (P-2)."""
        return hashlib.sha256(self.asked.input if self.subject is None else self.subject).hexdigest()

    @property
    def title(self) -> str:
        """The act itself (Y-1)."""
        return card.title(self.asked)

    @property
    def agents_words(self) -> str:
        """What the agent says of it."""
        return card.agents_words(self.asked)


def request_of(payload: p.InteractionRequest, announced: OpenTool | None) -> PermissionRequest:
    """Read the request from its frame. One without a subject is of a runner that sends only the input; if that is
    absent, too, the input that was announced is asked about."""
    context = payload.context
    if isinstance(context.subject, msgspec.Raw):
        return request_from(bytes(context.subject))
    own = bytes(context.input) if isinstance(context.input, msgspec.Raw) else None
    if own is None:
        own = announced.input if announced is not None else b"{}"
    kind = announced.kind if announced is not None else None
    return PermissionRequest(Asked(context.tool_name, own, payload.title, kind), None)


def request_from(subject: bytes) -> PermissionRequest:
    """Read a request from its subject's bytes. One that cannot be read has no input, and shows its bytes."""
    try:
        read = _SUBJECT.decode(subject)
    except msgspec.MsgspecError:
        return PermissionRequest(Asked("unknown", b"{}", content=subject, described=True), subject)
    asked = Asked(
        read.tool_name, bytes(read.input) if isinstance(read.input, msgspec.Raw) else b"{}", read.title, read.kind,
        bytes(read.content) if isinstance(read.content, msgspec.Raw) else None, tuple(read.locations), read.described)
    return PermissionRequest(asked, subject, read.resolved_paths, read.changed)


def request_of_approval(approval: Approval) -> PermissionRequest:
    """Read the request that an approval holds."""
    if isinstance(approval.subject, msgspec.Raw):
        return request_from(bytes(approval.subject))
    name = approval.tool_name or approval.agent_id
    return PermissionRequest(Asked(name, bytes(approval.input), approval.agent_title), None)


def with_input(request: PermissionRequest, changed: bytes) -> PermissionRequest:
    """The same request with another input, as a person wants it to run (P-2)."""
    if request.subject is None:
        return PermissionRequest(request.asked._replace(input=changed), None)
    read = msgspec.structs.replace(_SUBJECT.decode(request.subject), input=msgspec.Raw(changed), content=msgspec.UNSET,
                                   described=False, changed=True, resolved_paths={})
    return request_from(msgspec.json.encode(read))
