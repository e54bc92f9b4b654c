"""The subject of a grant (H-1): the bytes of the request, and texts that fit a frame."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.ports.agent import AgentQuestion
from interlock.protocol.payloads import InteractionSubject
from interlock.runner.journal import MAX_NAME_CHARS, MAX_TITLE_CHARS
from interlock.runner.turn.interactions import subject_bytes

pytestmark = pytest.mark.req("H-1", "H-6")
INPUT = b'{ "b":1.0, "a":"\\u00e9" }'


def question(**fields: Any) -> AgentQuestion:
    return AgentQuestion("i", "bash", "$ ls", INPUT, [])._replace(**fields)


def read(made: bytes) -> InteractionSubject:
    return msgspec.json.decode(made, type=InteractionSubject)


def test_the_subject_contains_input_and_content_byte_for_byte() -> None:
    made = subject_bytes(question(content_json=b'[ {"x":1} ]'), {})
    assert INPUT in made
    assert b'[ {"x":1} ]' in made
    assert subject_bytes(question(content_json=b'[ {"x":1} ]'), {}) == made, "the same request has the same digest"


def test_absent_fields_stay_absent() -> None:
    found = read(subject_bytes(question(input_json=b"", content_json=None), {}))
    assert (bytes(found.input), found.content, found.kind, found.locations) == (
        b"{}", msgspec.UNSET, None, [])  # type: ignore[arg-type]


def test_texts_are_truncated_to_their_limits_and_half_characters_are_harmless() -> None:
    made = subject_bytes(question(tool_name="n" * 9_999, title="t" * 9_999, kind="k" * 9_999, locations=("a\ud800",)),
                         {"a\ud800": "/real\udfff"})
    found = read(made)
    assert (len(found.tool_name), len(found.title), len(found.kind or "")) == (
        MAX_NAME_CHARS, MAX_TITLE_CHARS, MAX_NAME_CHARS)
    assert len(found.locations) == len(found.resolved_paths) == 1


@pytest.mark.req("H-2")
def test_the_subject_states_whether_the_effect_is_described_or_changed() -> None:
    assert read(subject_bytes(question(described=True, changed=True), {})).described
    assert b"described" not in subject_bytes(question(), {})
