"""Our own frames of the link (L-4, L-5, D-1): defaults for what an older runner leaves out, and refusals by place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.protocol.payloads.link import Ack, AgentOffer, ChangedFile, Hello, HelloSession, WorkspaceChanges
from protocol.seed_frames import framed

OFFER = {"agent_id": "shell", "adapter": "acp", "adapter_type": "process", "permission": "asks",
         "context_owner": "agent"}
SESSION = {"session_id": "s", "last_seq_sent": 7, "control_seq": 2, "state": "idle"}
HELLO: dict[str, Any] = {"versions": ["rawp-dps-1.0"], "runner_id": "r", "boot_id": "b", "agents": [OFFER],
                         "sessions": [SESSION]}


def hello(**fields: Any) -> Hello:
    raw = framed("x-interlock.hello", {**HELLO, **fields})
    return decode(raw, Direction.C).payload


@pytest.mark.req("L-4")
def test_a_hello_omits_unset_fields_of_later_versions() -> None:
    older = hello()
    assert (older.link_number, older.forgotten, older.features, older.roots, older.software) == (0, [], [], [], "")
    assert older.agents == [AgentOffer(agent_id="shell", adapter="acp", adapter_type="process", permission="asks",
                                      context_owner="agent")]
    [session] = older.sessions
    assert session == HelloSession(session_id="s", last_seq_sent=7, control_seq=2, state="idle")
    assert (session.acked_seq, session.controller, session.refused) == (0, "", [])


@pytest.mark.req("L-4", "D-7")
def test_a_refused_control_frame_is_named_in_the_hello_of_its_session() -> None:
    refused = {"message_id": "m", "error_code": "NOT_CONTROLLER", "message": "no", "controller": "g2"}
    [session] = hello(sessions=[{**SESSION, "refused": [refused]}]).sessions
    assert msgspec.to_builtins(session.refused) == [refused]


@pytest.mark.req("L-4")
@pytest.mark.parametrize(("fields", "path"), [
    ({"agents": [{**OFFER, "permission": "sometimes"}]}, "agents[0].permission"),
    ({"agents": [{**OFFER, "adapter_type": "thread"}]}, "agents[0].adapter_type"),
    ({"agents": [{**OFFER, "holding": {"held": "maybe"}}]}, "agents[0].holding.held"),
    ({"sessions": [SESSION, {**SESSION, "state": "asleep"}]}, "sessions[1].state"),
    ({"sessions": [{"session_id": "s"}]}, "sessions[0]"),
    ({"versions": "rawp-dps-1.0"}, "versions"),
    ({"link_number": "1"}, "link_number"),
])
def test_a_wrong_field_of_a_hello_is_named(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidFrame) as caught:
        hello(**fields)
    assert caught.value.path.startswith(f"$.payload.{path}")


@pytest.mark.req("D-1")
@pytest.mark.parametrize("sender", list(Direction))
def test_either_side_acknowledges_and_a_plain_ack_refuses_nothing(sender: Direction) -> None:
    raw = framed("x-interlock.ack", {"session_id": "s", "seq": 3})
    assert decode(raw, sender).payload == Ack(session_id="s", seq=3)
    assert msgspec.json.encode(Ack(session_id="s", seq=3)) == b'{"session_id":"s","seq":3}'


@pytest.mark.req("L-5")
@pytest.mark.parametrize("outbox_bytes", [-1, "5", 1.5])
def test_a_heartbeat_has_the_size_of_its_outbox_or_omits_it(outbox_bytes: Any) -> None:
    assert decode(framed("x-interlock.heartbeat", {"agents": []}), Direction.C).payload.outbox_bytes is None
    with pytest.raises(InvalidFrame, match="outbox_bytes") as caught:
        decode(framed("x-interlock.heartbeat", {"agents": [], "outbox_bytes": outbox_bytes}), Direction.C)
    assert caught.value.path == "$.payload.outbox_bytes"


@pytest.mark.req("J-4")
def test_an_empty_result_of_a_workspace_look_is_short_on_the_wire() -> None:
    changes = WorkspaceChanges(request_id="r", session_id="s", files=[ChangedFile(path="a", change="added")], count=1)
    raw = msgspec.json.encode(changes)
    assert raw == b'{"request_id":"r","session_id":"s","count":1,"files":[{"path":"a","change":"added"}]}'
    assert decode(framed("x-interlock.workspace.changes", msgspec.json.decode(raw)), Direction.C).payload == changes
    with pytest.raises(InvalidFrame):
        decode(framed("x-interlock.workspace.changes", {
            "request_id": "r", "session_id": "s", "files": [{"path": "a", "change": "moved"}]}), Direction.C)
