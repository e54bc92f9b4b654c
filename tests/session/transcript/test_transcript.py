"""Frames to entries, rule by rule (X-8): the runner's frames on the left, the transcript's entries below."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.resources import Approval, Notice
from interlock.session.transcript import transcript
from interlock.session.transcript.entries import Draft, entry_line
from interlock.session.transcript.transcript import TranscriptFold, approval_draft, notice_draft, prompt_draft

NOW = 1_800_000_000_000
ZERO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
              "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}


class Feed:
    """A session's frames as a test adds them, and the entries made from them."""

    def __init__(self, model: str = "m-1") -> None:
        self.fold = TranscriptFold("shell", model)
        self.entries: list[dict[str, Any]] = []
        self.at_ms = NOW

    def take(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            self.entries.append(msgspec.json.decode(entry_line(draft, f"{len(self.entries):08x}", None, iso(NOW))))

    def add(self, frame_type: str, payload: Any, **metadata: Any) -> Feed:
        self.at_ms += 1_000
        self.take(self.fold.feed(Frame(type=frame_type, payload=payload, message_id="m", session_id="S", seq=1,
                                       timestamp=iso(self.at_ms), metadata=metadata), NOW))
        return self

    def start(self) -> Feed:
        return self.add("session.turn.start", p.TurnStart(turn_id="t", turn_index=0), prompt_id="p")

    def text(self, text: str, block: str = "b", **metadata: Any) -> Feed:
        return self.add("agent.text.done", p.TextDone(turn_id="t", block_id=block, text=text), **metadata)

    def think(self, text: str, block: str = "k", **metadata: Any) -> Feed:
        return self.add("agent.thinking.done", p.TextDone(turn_id="t", block_id=block, text=text), **metadata)

    def call(self, invocation: str = "i1", arguments: bytes = b'{"command":"ls"}', **metadata: Any) -> Feed:
        return self.add("tool.invoke.request", p.ToolRequest(
            invocation_id=invocation, turn_id="t", tool_name="shell", input=msgspec.Raw(arguments)), **metadata)

    def result(self, output: Any = "done", status: Any = "ok", invocation: str = "i1", **metadata: Any) -> Feed:
        return self.add("tool.invoke.result", p.ToolResult(
            invocation_id=invocation, status=status, output_type="text", output=output, duration_ms=7), **metadata)

    def asked(self, invocation: str = "i1") -> Feed:
        return self.add("agent.interaction.request", p.InteractionRequest(
            interaction_id="x-" + invocation, interaction_type="PERMISSION", title="ls",
            context=p.InteractionContext(tool_name="shell", invocation_id=invocation)))

    def resolved(self, outcome: Any, by: str | None = None, invocation: str = "i1") -> Feed:
        return self.add("x-interlock.interaction.resolved", p.InteractionResolved(
            interaction_id="x-" + invocation, outcome=outcome, decided_at="", by=by))

    def error(self, message: str, severity: Any = "error") -> Feed:
        return self.add("agent.error", p.AgentError(severity=severity, error_code="X", message=message))

    def end(self, stop_reason: Any = "end_turn") -> Feed:
        return self.add("session.turn.end", p.TurnEnd(turn_id="t", stop_reason=stop_reason))

    def usage(self, used: int | None = None, request: p.TokenUsage | None = None, **tokens: int) -> Feed:
        quota = p.Quota(limit=-1, used=0, unit="USD")
        return self.add("session.usage", p.Usage(
            token_usage=p.TokenUsage(**({"input_tokens": 3, "output_tokens": 5} | tokens)), cost_usage=quota,
            message_usage=quota, context_window=p.ContextWindow(used=used), time_to_reset="", request_usage=request))

    def messages(self) -> list[dict[str, Any]]:
        return [entry["message"] for entry in self.entries if entry["type"] == "message"]

    def roles(self) -> list[str]:
        return [entry["message"]["role"] if entry["type"] == "message" else entry["customType"]
                for entry in self.entries]

    def contents(self) -> list[Any]:
        return [message["content"] for message in self.messages()]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def tool_call(invocation: str = "i1", arguments: Any = None) -> dict[str, Any]:
    return {"type": "toolCall", "id": invocation, "name": "shell", "arguments": arguments or {"command": "ls"}}


@pytest.mark.req("X-8")
def test_a_turn_of_text_is_one_assistant_message_at_its_usage() -> None:
    feed = Feed().start().think("hm").text("hi").end()
    assert feed.entries == [], "the message still waits for its usage"
    feed.usage(cache_read_tokens=2, cache_write_tokens=1)
    assert feed.messages() == [{
        "role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, text("hi")], "api": "rawp",
        "provider": "shell", "model": "m-1", "stopReason": "stop", "timestamp": NOW + 2_000,
        "usage": ZERO_USAGE | {"input": 3, "output": 5, "cacheRead": 2, "cacheWrite": 1, "totalTokens": 11},
    }]


@pytest.mark.req("X-8")
def test_a_result_closes_the_message_with_its_call() -> None:
    feed = Feed().start().text("look").call().result("a.txt").text("seen", "b2").end().usage()
    assert feed.roles() == ["assistant", "toolResult", "assistant", "interlock.usage"]
    asked, result, text_message = feed.messages()
    assert asked["content"] == [text("look"), tool_call()]
    assert (asked["stopReason"], asked["usage"]) == ("toolUse", ZERO_USAGE)
    assert result == {"role": "toolResult", "toolCallId": "i1", "toolName": "shell", "content": [text("a.txt")],
                      "isError": False, "timestamp": NOW + 4_000,
                      "details": {"status": "ok", "outputType": "text", "durationMs": 7}}
    assert (text_message["content"], text_message["stopReason"]) == ([text("seen")], "stop")


def long_turn(requests: int, *, running: bool, **last: Any) -> Feed:
    """A turn of many requests, each of which reads the whole context of some 20,000 tokens again."""
    feed = Feed().start()
    for number in range(1, requests):
        feed.call(f"i{number}")
        if running:
            feed.usage(used=20_000 + number, input_tokens=19_900 * number, output_tokens=100 * number)
        feed.result(invocation=f"i{number}")
    return feed.text("done").end().usage(input_tokens=19_900 * requests, output_tokens=100 * requests, **last)


@pytest.mark.req("X-8")
@pytest.mark.parametrize("last", [
    {"used": 20_025}, {"request": p.TokenUsage(input_tokens=925, output_tokens=100, cache_read_tokens=19_000)}, {},
])  # fmt: skip
@pytest.mark.parametrize("running", [False, True])
def test_a_message_has_the_usage_of_its_own_request(last: dict[str, Any], running: bool) -> None:
    feed = long_turn(25, running=running, **last)
    usage = feed.messages()[-1]["usage"]
    assert 19_900 <= usage["totalTokens"] <= 20_100, "readers take it for the size of the context"
    assert usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"] <= usage["totalTokens"]
    assert usage["output"] == 100 or not (running or "request" in last)
    if running:
        sizes = [one["usage"]["totalTokens"] for one in feed.messages() if one["role"] == "assistant"]
        assert sizes[:3] == [20_001, 20_002, 20_003]


@pytest.mark.req("X-8")
def test_the_usage_of_the_whole_turn_is_stored_beside_its_messages() -> None:
    kept = long_turn(25, running=True, used=20_025).entries[-1]
    assert kept["customType"] == "interlock.usage"
    assert kept["data"]["usage"]["totalTokens"] == 500_000
    assert kept["data"]["stopReason"] == "stop"


@pytest.mark.req("X-8")
def test_usage_known_only_at_a_turns_end_is_shared_evenly_by_its_messages() -> None:
    feed = Feed().start().text("look").call().result("a.txt").text("seen", "b2").end()
    shared = feed.usage(input_tokens=8, output_tokens=4).messages()[-1]["usage"]
    assert (shared["input"], shared["output"], shared["totalTokens"]) == (4, 2, 6)


@pytest.mark.req("X-8")
def test_parallel_calls_are_in_one_message_and_their_results_after_it() -> None:
    feed = Feed().start().call("i1").text("and").call("i2").result("2", invocation="i2")
    feed.result("1", invocation="i1").end().usage()
    assert feed.roles() == ["assistant", "toolResult", "toolResult", "interlock.usage"]
    assert feed.contents() == [[tool_call("i1"), text("and"), tool_call("i2")], [text("2")], [text("1")]]


@pytest.mark.req("X-8")
def test_text_between_two_results_is_a_message_that_waits_for_a_tool() -> None:
    feed = Feed().start().call("i1").call("i2").result(invocation="i1").text("half").result(invocation="i2")
    assert feed.roles() == ["assistant", "toolResult", "assistant", "toolResult"]
    assert feed.messages()[2]["stopReason"] == "toolUse"


@pytest.mark.req("X-8", "E-5")
def test_a_continued_block_is_one_part() -> None:
    feed = Feed().start().text("a", "b1").think("x", "k1").text("b", "b2", continues="b1")
    feed.text("c", "b3", continues="b2").text("", "b4").end().usage()
    assert feed.contents() == [[text("abc"), {"type": "thinking", "thinking": "x"}]]
    later = Feed().start().text("a", "b1").call().result().text("b", "b2", continues="b1").end().usage()
    assert later.contents()[-1] == [text("b")], "what stands in the file already is not changed"


@pytest.mark.req("X-8")
@pytest.mark.parametrize(("stop_reason", "written"), [
    ("end_turn", "stop"), ("max_tokens", "length"), ("tool_use", "toolUse"), ("cancelled", "aborted"),
    ("error", "error"), ("awaiting_input", "stop"),
])  # fmt: skip
def test_every_end_has_its_stop_reason(stop_reason: str, written: str) -> None:
    message = Feed().start().text("x").end(stop_reason).usage().messages()[0]
    assert message["stopReason"] == written
    assert ("errorMessage" in message) == (written == "error")


@pytest.mark.req("X-8")
def test_an_error_entry_has_the_agents_message() -> None:
    feed = Feed().start().text("x").error("only a warning", "warning").error("the model is away").end("error").usage()
    assert feed.messages()[0]["errorMessage"] == "the model is away"
    again = feed.start().text("y").end("error").usage()
    assert again.messages()[1]["errorMessage"] == "the agent reported an error", "an error belongs to its turn"


@pytest.mark.req("X-8")
def test_usage_without_an_open_message_is_an_entry_of_its_own() -> None:
    feed = Feed().start().call().result().error("broke").end("error").usage()
    assert feed.entries[-1]["customType"] == "interlock.usage"
    assert feed.entries[-1]["data"] == {
        "usage": ZERO_USAGE | {"input": 3, "output": 5, "totalTokens": 8}, "stopReason": "error",
        "errorMessage": "broke",
    }


@pytest.mark.req("X-8", "T-2")
def test_only_the_usage_after_the_end_finishes_a_turn() -> None:
    feed = Feed().usage().start().text("x").usage(input_tokens=1)
    assert feed.entries == []
    assert feed.end().usage(input_tokens=9).messages()[0]["usage"]["input"] == 9
    assert feed.usage().roles() == ["assistant"], "a quota that is reported between turns is not an entry"


@pytest.mark.req("X-8", "P-5", "A-5")
@pytest.mark.parametrize(("answer", "outcome", "by", "text_message"), [
    (p.InteractionResponse(interaction_id="x-i1", decision="deny", by="user:ann", message="not on Friday"), "denied",
     "user:ann", "Denied by user:ann: not on Friday"),
    (p.InteractionResponse(interaction_id="x-i1", decision="deny", by="policy:no-rm"), "denied", "policy:no-rm",
     "Denied by policy:no-rm."),
    (p.InteractionTimeout(interaction_id="x-i1"), "expired", None, "Denied by the gateway: no one answered in time"),
    (None, "expired", None, "Denied by the runner: no one answered in time"),
    (None, "void", "runner", "Denied by runner: the question was withdrawn"),
])  # fmt: skip
def test_a_denial_has_the_denier_and_the_reason(
    answer: p.Payload | None, outcome: str, by: str | None, text_message: str
) -> None:
    feed = Feed().start().call().asked()
    if answer is not None:
        feed.add("control.interaction.response", answer)
    result = feed.resolved(outcome, by).result("no", "denied").messages()[-1]
    assert (result["isError"], result["content"]) == (True, [text(text_message + "\nno")])


@pytest.mark.req("X-8", "E-5")
def test_a_denial_without_a_question_has_a_reason_too() -> None:
    feed = Feed().start().call().error("the input is too large", "warning").result(None, "denied")
    assert feed.contents()[-1] == [text("Denied by the runner: the input is too large")]
    unexplained = Feed().start().call().result("no", "denied")
    assert unexplained.contents()[-1] == [text("Denied by the agent or its runner.\nno")]


@pytest.mark.req("X-8")
def test_a_grant_leaves_the_result_unchanged() -> None:
    feed = Feed().start().call().asked().resolved("allowed", "user:ann").result("fine")
    assert feed.contents()[-1] == [text("fine")]


@pytest.mark.req("X-8")
@pytest.mark.parametrize(("output", "status", "content", "is_error"), [
    ("boom", "error", [text("boom")], True), (None, "cancelled", [text("Cancelled.")], True), (None, "ok", [], False),
    ({"a": [1]}, "ok", [text('{"a":[1]}')], False),
])  # fmt: skip
def test_a_result_is_an_error_unless_its_status_is_ok(output: Any, status: str, content: Any, is_error: bool) -> None:
    message = Feed().start().call().result(output, status).messages()[-1]
    assert (message["content"], message["isError"]) == (content, is_error)


@pytest.mark.req("X-8", "E-5")
def test_a_truncated_output_is_marked() -> None:
    cut = p.Truncated(bytes_total=9, bytes_kept=4, sha256="ab")
    feed = Feed().start().call().add("tool.invoke.result", p.ToolResult(
        invocation_id="i1", status="ok", output_type="text", output="text", duration_ms=1, truncated=cut))
    assert feed.messages()[-1]["details"]["truncated"] == {"bytes_total": 9, "bytes_kept": 4, "sha256": "ab"}


@pytest.mark.req("X-8")
def test_arguments_are_one_object_on_one_line() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    feed = Feed().start().call("i1", b'{\n "a" : 1\n}').call("i2", b'"ls"').call("i3", deep).end().usage()
    first, second, third = (part["arguments"] for part in feed.contents()[0])
    assert (first, second, third) == ({"a": 1}, {"input": "ls"}, {"input": deep.decode()})
    just = b'{"a":' * 500 + b"1" + b"}" * 500
    assert Feed().start().call("i1", just).end().usage().contents()[0][0]["arguments"] == {"input": just.decode()}


@pytest.mark.req("X-8")
def test_too_deeply_nested_arguments_are_handled() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert Feed().start().call().result(deep).contents()[-1] == [text('"(nested too deep to be written here)"')]
    entry = Feed().start().call("s1", delegation_chain=deep).entries[0]
    assert entry["data"]["delegation_chain"] == "(nested too deep to be written here)"
    while deep:
        deep = deep[0]  # A list of lists is freed by recursion, which this depth would not survive everywhere.


@pytest.mark.req("X-8")
def test_a_too_long_message_continues_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_OPEN_CHARS", 10)
    feed = Feed().start().text("12345678", "b1").text("abc", "b2", continues="b1").call().end().usage()
    assert feed.contents() == [[text("12345678")], [text("abc")], [tool_call()]]
    assert [message["stopReason"] for message in feed.messages()] == ["length", "length", "toolUse"]


@pytest.mark.req("X-8")
def test_subagents_calls_are_outside_the_conversation() -> None:
    chain = [{"agent_id": "sub", "invocation_id": "i1"}]
    feed = Feed().start().call("i1").call("s1", delegation_chain=chain).result(invocation="s1", delegation_chain=chain)
    feed.text("from below", "s", delegation_chain=chain).result("all").end().usage()
    assert feed.roles() == ["interlock.subagent"] * 3 + ["assistant", "toolResult", "interlock.usage"]
    assert feed.entries[0]["data"] == {
        "type": "tool.invoke.request", "delegation_chain": chain,
        "payload": {"invocation_id": "s1", "turn_id": "t", "tool_name": "shell", "input": {"command": "ls"}},
    }
    assert feed.contents() == [[tool_call()], [text("all")]]


@pytest.mark.req("X-8")
def test_the_model_is_that_of_the_last_capabilities() -> None:
    feed = Feed("").start().text("x").end().usage()
    agent = p.AgentIdentity(agent_id="shell", name="Shell", model="m-2")
    feed.add("session.capabilities", p.Capabilities(dps_version="", features={}, agent=agent))
    feed.add("session.capabilities", p.Capabilities(dps_version="", features={}))
    feed.start().text("y").end().usage()
    assert [message["model"] for message in feed.messages()] == ["unknown", "m-2"]


@pytest.mark.req("X-8", "T-3")
def test_the_text_of_an_agent_that_exits_without_an_end_is_kept() -> None:
    closed = p.SessionClosed(reason="crash")
    feed = Feed().start().text("half").add("session.closed", closed)
    assert (feed.messages()[0]["stopReason"], feed.messages()[0]["errorMessage"]) == (
        "error", "the session was closed: crash")
    ended = Feed().start().text("whole").end().add("session.closed", closed).messages()[0]
    assert (ended["stopReason"], ended["usage"]) == ("stop", ZERO_USAGE)
    assert Feed().start().text("left").start().messages()[0]["errorMessage"] == "the turn was left without an end"
    fatal = p.SessionError(error_code="X", message="the host is out of memory", fatal=True)
    failed = Feed().start().text("x").add("session.error", fatal).add("session.closed", closed).messages()[0]
    assert failed["errorMessage"] == "the host is out of memory"
    assert Feed().start().add("session.closed", closed).entries == []


@pytest.mark.req("X-3", "X-8")
def test_feeding_the_open_turn_again_gives_the_same_rest() -> None:
    """A killed gateway reads back the state that it had open, at every point of a turn."""
    steps = [lambda t: t.start(), lambda t: t.text("a", "b1"), lambda t: t.call("i1"), lambda t: t.asked(),
             lambda t: t.resolved("denied", "user:ann"), lambda t: t.result("no", "denied"),
             lambda t: t.think("hm"), lambda t: t.text("c", "b2"), lambda t: t.end(), lambda t: t.usage()]  # fmt: skip
    whole = Feed()
    for step in steps:
        step(whole)
    for cut in range(1, len(steps)):
        before, after = Feed(), Feed()
        for step in steps[:cut]:
            step(before)
            step(after)
        after.entries = []
        for step in steps[cut:]:
            step(after)
        assert [*before.messages(), *after.messages()] == whole.messages()


@pytest.mark.req("X-5", "X-8")
def test_a_prompt_is_a_user_message() -> None:
    feed = Feed()
    feed.take([prompt_draft(p.PromptRequest(prompt_id="p", input_type="text", origin="user", text="hi"), NOW)])
    blocks = [{"type": "text", "text": "see"}, {"type": "image", "data": "QUJD", "media_type": "image/png"},
              {"type": "audio", "data": "QUJD", "media_type": "audio/wav"}]
    feed.take([prompt_draft(p.PromptRequest(prompt_id="p", input_type="blocks", origin="user", content=blocks), NOW)])
    assert feed.messages() == [
        {"role": "user", "content": "hi", "timestamp": NOW},
        {"role": "user", "timestamp": NOW, "content": [
            text("see"), {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            text("[audio, audio/wav, 3 bytes]"),
        ]},
    ]


@pytest.mark.req("X-8")
def test_notices_and_approvals_are_custom_entries() -> None:
    approval = Approval(id="apr_1", tenant_id="t", door="tool", state="granted", created_at="", expires_at="",
                        title="rm", agent_id="shell", session_id="S", digest="d", input=msgspec.Raw(b"{}"), rule="r",
                        tool_name="shell", invocation_id="i1", comment="once")
    feed = Feed()
    feed.take([notice_draft(Notice(code="Detached", message="gone", since="s")), approval_draft(approval, "user:ann")])
    assert [(entry["type"], entry["customType"], entry["data"]) for entry in feed.entries] == [
        ("custom", "interlock.notice", {"code": "Detached", "message": "gone", "since": "s"}),
        ("custom", "interlock.approval", {
            "approval_id": "apr_1", "state": "granted", "door": "tool", "title": "rm", "digest": "d", "rule": "r",
            "by": "user:ann", "tool_name": "shell", "invocation_id": "i1", "comment": "once",
        }),
    ]
