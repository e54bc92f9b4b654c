"""What the runner remembers of a session over its own death (D-6, D-7): it follows the frames that it writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.runner.session_state import SessionState, TurnState, decode_state, encode_state

pytestmark = pytest.mark.req("D-6", "D-7")


def take(state: SessionState, payload: Any) -> None:
    state.take(Frame(type="x", payload=payload, message_id="m", timestamp="t"))


def in_turn(**fields: Any) -> SessionState:
    return SessionState(opening="open", turn=TurnState(turn_id="t", prompt_id="p", started_ms=1, **fields))


def test_a_state_reads_back_unchanged_and_an_empty_row_was_never_open() -> None:
    state = in_turn(tools={"i": 5}, interactions=["x"])
    assert decode_state(encode_state(state)) == state
    assert decode_state(b"") == SessionState()
    assert decode_state(b'{"newer":1}') == SessionState()
    with pytest.raises(msgspec.DecodeError):
        decode_state(b"{")


def test_control_frames_are_counted_per_gateway_and_never_backwards() -> None:
    state = SessionState()
    state.note_handled("a", 5)
    state.note_handled("a", 3)
    state.note_handled("b", 1)
    assert [state.handled(name) for name in ("a", "b", "c")] == [5, 1, 0]


def test_a_state_of_an_older_version_belongs_to_the_first_controller() -> None:
    state = decode_state(b'{"control_seq":7}')
    assert (state.handled(""), state.control_seq) == (7, 0)
    state.name_first("")
    assert state.handled("") == 7
    state.name_first("a")
    state.name_first("b")
    assert (state.handled("a"), state.handled("b"), state.handled("")) == (7, 0, 0)


def test_an_opening_and_its_end_are_recorded() -> None:
    state = SessionState(opening="opening")
    take(state, p.Capabilities(dps_version="v", features={}))
    take(state, p.StateChanged(state="running", previous="idle"))
    assert (state.opening, state.state) == ("open", "running")
    state.turn = TurnState(turn_id="t", prompt_id="p", started_ms=1)
    take(state, p.SessionClosed(reason="done"))
    assert (state.opening, state.turn) == ("closed", None)


def test_turns_and_prompts_are_numbered() -> None:
    state = SessionState()
    for index in (0, 1):
        take(state, p.TurnStart(turn_id="7d444840-9dc0-41d5-bff0-12c3f7b6a5e1", turn_index=index))
    assert (state.next_turn_index, state.messages) == (2, 2)


def test_a_question_ends_with_its_answer_and_a_turn_with_its_usage() -> None:
    state = in_turn(tools={"i": 5, "j": 6})
    assert state.turn is not None
    context = p.InteractionContext(tool_name="shell")
    take(state, p.InteractionRequest(interaction_id="x", interaction_type="PERMISSION", title="t", context=context))
    take(state, p.ToolResult(invocation_id="i", status="ok", output_type="text", output="", duration_ms=1))
    assert (state.turn.tools, state.turn.interactions) == ({"j": 6}, ["x"])
    for _ in range(2):
        take(state, p.InteractionResolved(interaction_id="x", outcome="allowed", decided_at="t"))
    assert state.turn.interactions == []
    usage = p.Usage(token_usage=p.TokenUsage(input_tokens=0, output_tokens=0),
                    cost_usage=p.Quota(limit=-1, used=0, unit="USD"),
                    message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"), time_to_reset="")
    take(state, usage)
    assert state.turn is not None, "figures in mid-turn do not end it"
    take(state, p.TurnEnd(turn_id="t", stop_reason="end_turn"))
    assert state.turn.usage_owed
    take(state, usage)
    assert state.turn is None


def test_two_states_share_nothing() -> None:
    one, other = SessionState(), SessionState()
    one.note_handled("a", 1)
    assert other.handled_seqs == {}
