"""The subject of a yes, written once by the runner for each request: the gateway hashes these bytes (H-1)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.ports.agent import AgentQuestion
from interlock.protocol import payloads as p
from interlock.runner.blocks import sound
from interlock.runner.journal import MAX_NAME_CHARS, MAX_TITLE_CHARS


def subject_bytes(question: AgentQuestion, resolved_paths: Mapping[str, str]) -> bytes:
    """Encode an InteractionSubject as JSON, with the request's input and content byte for byte."""
    return msgspec.json.encode(p.InteractionSubject(
        tool_name=question.tool_name[:MAX_NAME_CHARS],
        title=sound(question.title)[:MAX_TITLE_CHARS],
        kind=question.kind[:MAX_NAME_CHARS] if question.kind else None,
        input=msgspec.Raw(question.input_json or b"{}"),
        content=msgspec.Raw(question.content_json) if question.content_json else msgspec.UNSET,
        locations=[sound(path) for path in question.locations],
        described=question.described,
        changed=question.changed,
        resolved_paths={sound(path): sound(real) for path, real in resolved_paths.items()},
    ))
