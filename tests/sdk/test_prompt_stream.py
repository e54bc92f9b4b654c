"""One prompt as typed parts (Y-14): conversations with the flow, without any network."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from interlock.protocol.resources import Approval
from interlock.sdk import (
    AgentTextPart,
    ApprovalPart,
    EndPart,
    Lost,
    NoticePart,
    Reattached,
    RetryPolicy,
    ToolEndPart,
    ToolOutputPart,
    ToolStartPart,
    UsagePart,
)
from interlock.sdk.exchange import (
    Call,
    Connect,
    ConnectionCut,
    Give,
    HttpReply,
    Now,
    ReceiveMessage,
    Rest,
    Send,
    SendMessage,
)
from interlock.sdk.problems import Forbidden
from interlock.sdk.prompt_stream import DRAIN_S, OnApproval, prompt_stream
from interlock.sdk.requests import commands

pytestmark = pytest.mark.req("Y-14")
STEADY = RetryPolicy(draw=lambda: 1.0)
COMMAND = {"id": "cmd_1", "created_at": "t", "updated_at": "t", "tenant_id": "d", "actor": {"type": "user", "id": "a"},
           "type": "execute", "target": {"session_id": "s"}, "state": "queued", "timeout_ms": 1, "priority": 0}
APPROVAL = {"id": "apr_1", "tenant_id": "d", "door": "tool", "state": "pending", "created_at": "t", "expires_at": "t",
            "title": "$ ls", "agent_id": "shell", "session_id": "s", "digest": "stated", "rule": "r",
            "input": {"command": "ls"}}
QUOTA = {"limit": -1, "used": 0, "unit": "USD"}
GONE = ConnectionCut("reset by peer")


def frame(name: str, **payload: Any) -> str:
    body = {"kind": "C", "frame": {"type": name, "payload": payload}}
    return json.dumps({"ref": "s", "events": [{"event": "frame", "data": body}]})


def status(event: str, **fields: Any) -> str:
    body = {"event": event, "command_id": "cmd_1", "at": "t", **fields}
    return json.dumps({"ref": "cmd_1", "events": [{"event": event, "data": body}]})


PROMPT = frame("control.prompt.request", prompt_id="p", input_type="text", origin="user", command_id="cmd_1")
END = json.dumps({"ref": "cmd_1", "end": "complete"})
TURN_END = frame("session.turn.end", turn_id="t1", stop_reason="end_turn")


def delta(offset: int, text: str, kind: str = "text") -> str:
    return frame(f"agent.{kind}.delta", turn_id="t1", block_id="b", offset=offset, text=text)


class Gateway:
    """Answers requests by their path, sends these messages over the WebSocket, and has a clock."""

    def __init__(self, *messages: str | ConnectionCut, approval: dict[str, Any] = APPROVAL, turn_id: str | None = "t1",
                 vote: HttpReply | None = None) -> None:
        self.messages = list(messages)
        self.approval = approval
        self.turn_id = turn_id
        self.vote = vote
        self.votes: list[dict[str, Any]] = []
        self.subscribed: list[dict[str, Any]] = []
        self.clock = 100.0

    def play(self, on_approval: OnApproval | None = None, **target: Any) -> list[Any]:
        parts: list[Any] = []
        flow = prompt_stream(commands.submit("ls", **(target or {"agent": "shell"})), on_approval, STEADY)
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration:
                return parts
            answer = self.done(effect, parts)

    def done(self, effect: Any, parts: list[Any]) -> Any:
        match effect:
            case Send(ask):
                return self.answered(ask.method, ask.path, json.loads(ask.body or b"{}"))
            case Connect(_):
                return HttpReply(101, b"")
            case SendMessage(text):
                self.subscribed.append(json.loads(text))
            case ReceiveMessage(seconds):
                if self.messages:
                    return self.messages.pop(0)
                self.clock += seconds
            case Rest(seconds):
                self.clock += seconds
            case Now():
                return self.clock
            case Call(function, argument):
                return function(argument)
            case Give(item):
                parts.append(item)
            case _:
                raise AssertionError(effect)
        return None

    def answered(self, method: str, path: str, body: dict[str, Any]) -> HttpReply:
        if path == "/v1/sessions/s/frames":
            page = {"events": [], "next_cursor": "now", "has_more": False}
        elif path == "/v1/sessions":
            page = {"items": [], "next_cursor": None, "has_more": False}
        elif path == "/v1/approvals/apr_1":
            page = self.approval
        elif path.startswith("/v1/approvals/apr_1/"):
            self.votes.append(body)
            self.approval = {**self.approval, "state": "granted"}
            if self.vote is not None:
                return self.vote
            page = self.approval
        else:
            page = {**COMMAND, **({} if method == "POST" else {"turn_id": self.turn_id, "state": "succeeded"})}
        return HttpReply(200, json.dumps(page).encode())


def test_a_prompt_is_streamed_in_parts_and_ends_with_its_command() -> None:
    parts = Gateway(
        PROMPT, delta(0, "hm", "thinking"), delta(0, "one "), delta(4, "two"),
        frame("tool.invoke.request", invocation_id="i", turn_id="t1", tool_name="shell", input={"command": "ls"}),
        frame("tool.invoke.stream", invocation_id="i", channel="stdout", offset=0, text="a\n"),
        frame("tool.invoke.result", invocation_id="i", status="ok", output_type="text", output="a\n", duration_ms=1),
        frame("session.usage", token_usage={"input_tokens": 3, "output_tokens": 4}, cost_usage=QUOTA,
              message_usage={**QUOTA, "unit": "COUNT"}, time_to_reset=""),
        status("notice", notice={"code": "Detached", "message": "gone"}), TURN_END, END,
    ).play()
    assert [type(part) for part in parts] == [
        AgentTextPart, AgentTextPart, AgentTextPart, ToolStartPart, ToolOutputPart, ToolEndPart, UsagePart, NoticePart,
        EndPart]
    assert parts[0] == AgentTextPart("hm", thinking=True)
    assert (parts[3].name, parts[3].title, bytes(parts[3].input)) == ("shell", "shell", b'{"command":"ls"}')
    assert parts[6] == UsagePart(3, 4)
    assert parts[-1].command.state == "succeeded"


def test_text_is_yielded_once_despite_repeats_and_reconnects() -> None:
    there = Gateway(PROMPT, delta(0, "abc"), delta(1, "bcd"), GONE, delta(0, "abcde"),
                    frame("agent.text.done", turn_id="t1", block_id="b", text="abcdef"), TURN_END, END)
    parts = there.play()
    assert [part.text for part in parts if isinstance(part, AgentTextPart)] == ["abc", "d", "e", "f"]
    assert [type(part) for part in parts if isinstance(part, (Lost, Reattached))] == [Lost, Reattached]


def test_text_after_a_gap_waits_for_its_record() -> None:
    parts = Gateway(PROMPT, delta(0, "a"), delta(5, "x"),
                    frame("agent.text.done", turn_id="t1", block_id="b", text="a...x"), TURN_END, END).play()
    assert "".join(part.text for part in parts if isinstance(part, AgentTextPart)) == "a...x"


def test_frames_of_another_prompt_of_the_session_are_ignored() -> None:
    other = frame("control.prompt.request", prompt_id="q", input_type="text", origin="user", command_id="cmd_0")
    parts = Gateway(delta(0, "before"), other, delta(0, "theirs"), PROMPT, delta(0, "own"), TURN_END, END).play()
    assert [part.text for part in parts if isinstance(part, AgentTextPart)] == ["own"]


def test_refused_and_unknown_frames_are_ignored() -> None:
    refused = json.dumps({"ref": "s", "events": [{"event": "frame", "data": {
        "kind": "refused", "frame": {"type": "agent.text.delta", "payload": {}}}}]})
    parts = Gateway(PROMPT, refused, frame("x-newer.kind", a=1), frame("agent.text.delta", odd=True), TURN_END,
                    END).play()
    assert [type(part) for part in parts] == [EndPart]


@pytest.mark.parametrize(("target", "since"), [
    ({"session_id": "s"}, "now"), ({"agent": "shell"}, None), ({"session_key": "new"}, None)])
def test_an_existing_session_is_followed_from_its_current_end(target: dict[str, Any], since: str | None) -> None:
    there = Gateway(PROMPT, TURN_END, END)
    there.play(**target)
    assert {one["ref"]: one.get("since") for one in there.subscribed if one["op"] == "subscribe"} == {
        "cmd_1": None, "s": since}


def test_missing_frames_are_awaited_for_a_limited_time() -> None:
    there = Gateway(PROMPT, END)
    assert [type(part) for part in there.play()] == [EndPart]
    assert DRAIN_S < there.clock - 100.0 <= DRAIN_S + 2
    never_began = Gateway(END, turn_id=None)
    never_began.play()
    assert never_began.clock - 100.0 < DRAIN_S


ASKED = status("approval", approval_id="apr_1", approval_state="pending")


@pytest.mark.req("P-2")
def test_a_grant_is_for_the_received_bytes_and_not_for_a_stated_digest() -> None:
    there, seen = Gateway(PROMPT, ASKED, TURN_END, END), list[Approval]()

    def allow(approval: Approval) -> bool:
        seen.append(approval)
        return True

    [asked] = [part for part in there.play(allow) if isinstance(part, ApprovalPart)]
    assert asked.approval.state == "granted"
    [vote] = there.votes
    assert (vote["decision"], vote["digest"]) == ("grant", hashlib.sha256(bytes(seen[0].input)).hexdigest())


@pytest.mark.parametrize(("decision", "vote"), [
    (False, {"decision": "deny"}), ("too wide", {"decision": "deny", "comment": "too wide"}), (None, None)])
def test_a_denial_may_have_a_reason_and_no_vote_leaves_it_to_others(decision: Any, vote: dict[str, Any] | None) -> None:
    there = Gateway(PROMPT, ASKED, TURN_END, END)
    [asked] = [part for part in there.play(lambda _: decision) if isinstance(part, ApprovalPart)]
    assert [{name: value for name, value in one.items() if value is not None} for one in there.votes] == (
        [] if vote is None else [vote])
    assert asked.approval.state == ("pending" if vote is None else "granted")


def test_a_question_is_answered_with_text_and_declined_without() -> None:
    question = {**APPROVAL, "kind": "question"}
    for decision, text in (("blue", "blue"), (True, None), (False, None)):
        there = Gateway(PROMPT, ASKED, TURN_END, END, approval=question)
        there.play(lambda _, value=decision: value)
        assert there.votes == [{"text": text}]


def test_a_late_vote_returns_the_decision_and_other_refusals_are_raised() -> None:
    late = HttpReply(409, b'{"code":"Conflict","detail":"decided"}')
    [asked] = [part for part in Gateway(PROMPT, ASKED, TURN_END, END, vote=late).play(lambda _: True)
               if isinstance(part, ApprovalPart)]
    assert asked.approval.state == "granted"
    with pytest.raises(Forbidden):
        Gateway(PROMPT, ASKED, vote=HttpReply(403, b'{"code":"Forbidden"}')).play(lambda _: True)


def test_a_decided_approval_is_yielded_without_a_question() -> None:
    there = Gateway(PROMPT, ASKED, TURN_END, END, approval={**APPROVAL, "state": "denied"})
    there.play(lambda _: True)
    assert there.votes == []
