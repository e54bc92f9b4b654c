"""What real agents said, played again: the adapter makes the same calls out of every agent's dialect."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from interlock.agents.acp.agent import AcpAgent
from interlock.ports.agent import AgentSpec, Answer, Exit, GivenFile, Opening, Prompt, Question, TurnUsage

pytestmark = pytest.mark.anyio
SESSION = "s1"


class Scripted:
    """A process that answers each request with lines; a step that is None waits for our answer to a question."""

    def __init__(self, script: dict[str, list[dict[str, Any] | None]]) -> None:
        self.script = script
        self.got: list[dict[str, Any]] = []
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest: list[dict[str, Any] | None] = []
        self._over = asyncio.Event()
        self.exit: Exit | None = None

    async def __call__(self, *_: Any) -> Scripted:
        return self

    async def write(self, data: bytes) -> None:
        message = msgspec.json.decode(data)
        self.got.append(message)
        if "method" in message and "id" in message:
            steps = self.script[message["method"]]
            self._rest = [{**s, "id": message["id"]} if s and "result" in s else s for s in steps]
        self._play()

    def _play(self) -> None:
        while self._rest:
            step = self._rest.pop(0)
            if step is None:
                return
            self._out.put_nowait(msgspec.json.encode({"jsonrpc": "2.0", **step}))

    async def lines(self) -> Any:
        while (line := await self._out.get()) is not None:
            yield line

    async def exited(self) -> Exit:
        await self._over.wait()
        return Exit(0, None)

    async def terminate(self, grace_s: float = 5) -> Exit:
        self._out.put_nowait(None)
        self._over.set()
        return Exit(0, None)

    def stderr_tail(self) -> str:
        return ""


class Recorder:
    """A scribe that writes down what it is told, and answers as it was told to."""

    def __init__(self, *, allow: bool) -> None:
        self.said: list[Any] = []
        self.allow = allow
        self.forever = False

    async def text(self, text: str) -> None:
        if self.said and self.said[-1][0] == "text":
            self.said[-1] = ("text", self.said[-1][1] + text)
        else:
            self.said.append(("text", text))

    async def thinking(self, text: str) -> None:
        self.said.append(("thinking", text))

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        self.said.append(("request", tool_name, msgspec.json.decode(input_json)))

    async def tool_output(self, invocation_id: str, channel: str, text: str) -> None:
        self.said.append(("output", channel, text))

    async def tool_result(self, invocation_id: str, status: str, output_type: str, output: Any) -> None:
        self.said.append(("result", status, output_type, output))

    async def ask(self, question: Question) -> Answer:
        self.said.append(("ask", question.tool_name))
        if self.forever:
            await asyncio.get_running_loop().create_future()
        wanted = "allow_once" if self.allow else "reject_once"
        return Answer(self.allow, next((o.option_id for o in question.options if o.kind == wanted), None))

    async def usage(self, usage: TurnUsage) -> None:
        self.told = usage

    async def progress(self, percent: float) -> None:
        self.said.append(("progress", percent))

    async def file(self, file: GivenFile, invocation_id: str | None = None) -> None:
        self.said.append(("file", file.name, file.media_type, len(file.data), invocation_id))

    async def warn(self, code: str, message: str) -> None:
        self.said.append(("warn", code))


def update(**fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": fields}}


def permission(options: list[tuple[str, str]], request_id: Any = "q", **call: Any) -> dict[str, Any]:
    shown = [{"optionId": o, "name": o, "kind": k} for o, k in options]
    return {"id": request_id, "method": "session/request_permission",
            "params": {"sessionId": SESSION, "toolCall": call, "options": shown}}


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


COMMAND = {"command": "echo hi > f; cat f"}
CLAUDE_NAME = {"claudeCode": {"toolName": "Bash"}}
CLAUDE = [
    update(sessionUpdate="tool_call", toolCallId="c1", rawInput={}, status="pending", title="Terminal",
           kind="execute", content=[], _meta=CLAUDE_NAME),
    update(sessionUpdate="tool_call_update", toolCallId="c1", rawInput=COMMAND, title="echo", kind="execute",
           content=[], _meta=CLAUDE_NAME),
    permission([("allow_always", "allow_always"), ("allow", "allow_once"), ("reject", "reject_once")], 0,
               toolCallId="c1", rawInput=COMMAND, title="echo", kind="execute", content=[]),
    None,
    update(sessionUpdate="usage_update", used=120, size=1_000_000),
    update(sessionUpdate="plan", entries=[{"content": "a", "priority": "high", "status": "completed"},
                                          {"content": "b", "priority": "low", "status": "pending"}]),
    update(sessionUpdate="tool_call_update", toolCallId="c1",
           _meta={"claudeCode": {"toolResponse": {"stdout": "hi"}, "toolName": "Bash"}}),
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", rawOutput="hi",
           content=content("```console\nhi\n```"), _meta=CLAUDE_NAME),
    update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", rawOutput="again"),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": ""}),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "done"}),
    update(sessionUpdate="usage_update", used=105, size=1_000_000, cost={"amount": 0.5, "currency": "USD"}),
    {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 200, "outputTokens": 25, "totalTokens": 225}}},
]
GOOSE = [
    update(sessionUpdate="session_info_update", _meta={"goose": {"activeRunId": "run"}}),
    {"method": "_goose/whatever", "params": {}},
    update(sessionUpdate="tool_call", toolCallId="g1", title="shell · echo", rawInput=COMMAND,
           _meta={"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}}),
    permission([("allow_always", "allow_always"), ("allow_once", "allow_once"), ("reject_once", "reject_once"),
                ("reject_always", "reject_always")], toolCallId="g1", kind="other", status="pending",
               title="shell · echo", rawInput=COMMAND),
    None,
    update(sessionUpdate="tool_call_update", toolCallId="g1", status="in_progress", _meta={"toolNotification": {
        "type": "live_output",
        "params": {"sequence": 1, "chunks": [{"stream": "stdout", "output": "hi\n"}], "truncated": False}}}),
    update(sessionUpdate="tool_call_update", toolCallId="g1", status="completed", content=content("hi"),
           rawOutput={"stdout": "hi", "stderr": "", "exit_code": 0}),
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "done"}),
    {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 100, "outputTokens": 20}}},
]


async def play(steps: list[dict[str, Any] | None], *, allow: bool = True, forever: bool = False
               ) -> tuple[Recorder, Scripted, Any]:
    process = Scripted({
        "initialize": [{"result": {"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"}}}],
        "session/new": [{"result": {"sessionId": SESSION}}],
        "session/prompt": steps,
    })
    agent = AcpAgent(process)
    spec = AgentSpec(adapter="acp", command="x")
    await agent.open(Opening("s", "x", spec, "/", {}))
    recorder = Recorder(allow=allow)
    recorder.forever = forever
    outcome = await agent.prompt(Prompt("p", "t", [{"type": "text", "text": "go"}]), recorder)
    await agent.close()
    return recorder, process, outcome


@pytest.mark.req("A-7", "A-9")
async def test_claude_code() -> None:
    recorder, process, outcome = await play(CLAUDE)
    assert recorder.said == [("request", "Bash", COMMAND), ("ask", "Bash"), ("progress", 50),
                             ("result", "ok", "text", "hi"),
                             ("text", "done")]
    assert process.got[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "allow"}}
    assert outcome.usage.input_tokens == 200
    assert (recorder.told.context_used, recorder.told.cost_usd) == (105, 0.5)


@pytest.mark.req("A-7", "A-9")
async def test_goose() -> None:
    recorder, process, outcome = await play(GOOSE, allow=False)
    assert recorder.said == [("request", "shell", COMMAND), ("ask", "shell"), ("output", "stdout", "hi\n"),
                             ("result", "ok", "text", None), ("text", "done")]
    assert process.got[-1]["result"] == {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
    assert outcome.stop_reason == "end_turn"


@pytest.mark.req("A-7")
async def test_what_differs_between_agents() -> None:
    diff = [{"type": "diff", "path": "/w/n.txt", "oldText": "a", "newText": "b"}]
    recorder, process, outcome = await play([
        update(sessionUpdate="user_message_chunk", content={"type": "text", "text": "go"}),
        update(sessionUpdate="agent_message_chunk", content="not an object"),
        {"id": 9, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}},
        {"id": 10, "method": "_vendor/ask"},
        update(sessionUpdate="tool_call_update", toolCallId="d1", kind="edit", status="completed", content=diff),
        update(sessionUpdate="tool_call", toolCallId="e1", kind="execute", status="in_progress", content=content("a")),
        update(sessionUpdate="tool_call_update", toolCallId="e1", content=content("ab")),
        update(sessionUpdate="tool_call_update", toolCallId="e1", status="completed", content=content("ab")),
        {"result": {"stopReason": "refusal"}},
    ])
    assert recorder.said == [
        ("request", "edit", {}),
        ("result", "ok", "diff", [{"path": "/w/n.txt", "old_text": "a", "new_text": "b"}]),
        ("request", "execute", {}), ("output", "stdout", "a"), ("output", "stdout", "b"),
        ("result", "ok", "text", None),
        ("warn", "INVALID_FRAME"),
    ]
    refused = [m["error"]["code"] for m in process.got if "error" in m]
    assert refused == [-32601, -32601]
    assert (outcome.stop_reason, outcome.notice[0]) == ("end_turn", "AgentRefused")


@pytest.mark.req("A-5")
async def test_a_permission_that_the_agent_gives_up_is_no_longer_asked() -> None:
    recorder, process, outcome = await play([
        permission([("allow", "allow_once")], 7, toolCallId="c1", rawInput=COMMAND, title="echo"),
        {"method": "$/cancel_request", "params": {"requestId": 7}},
        None,
        {"result": {"stopReason": "end_turn"}},
    ], forever=True)
    assert recorder.said[0] == ("request", "unknown", COMMAND)
    assert (process.got[-1]["id"], process.got[-1]["error"]["code"]) == (7, -32800)
    assert outcome.stop_reason == "end_turn"
