"""An ACP agent played from a script, and a turn writer that records the adapter's calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from interlock.agents.acp.agent import AcpAgent
from interlock.ports.agent import (
    AgentFile,
    AgentPrompt,
    AgentQuestion,
    AgentSpec,
    AgentStart,
    InteractionAnswer,
    ProcessExit,
    Started,
    TurnOutcome,
    TurnUsage,
)
from interlock.protocol.payloads import AgentSettings, PlanStep
from interlock.runner.turn.turn_writer import merge_usage

SESSION = "s1"


class Scripted:
    """A process that answers each request with lines; a step that is None waits for our answer to a question."""

    def __init__(self, script: dict[str, list[dict[str, Any] | None]]) -> None:
        self.script = script
        self.got: list[dict[str, Any]] = []
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest: list[dict[str, Any] | None] = []
        self._over = asyncio.Event()
        self.exit: ProcessExit | None = None

    async def __call__(self, *_: Any) -> Scripted:
        return self

    async def write(self, data: bytes) -> None:
        message = msgspec.json.decode(data)
        self.got.append(message)
        if "method" in message and "id" in message:
            steps = self.script[message["method"]]
            self._rest = [{**s, "id": message["id"]} if s and s.keys() & {"result", "error"} else s for s in steps]
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

    async def exited(self) -> ProcessExit:
        await self._over.wait()
        return ProcessExit(0, None)

    async def terminate(self, grace_s: float = 5) -> ProcessExit:
        self._out.put_nowait(None)
        self._over.set()
        return ProcessExit(0, None)

    def stderr_tail(self) -> str:
        return "a line of its log\n"


class Recorder:
    """A turn writer that records its calls and answers as configured."""

    def __init__(self, *, allow: bool) -> None:
        self.events: list[Any] = []
        self.allow = allow
        self.forever = False
        self.usage_sum = TurnUsage()
        self.why: str | None = None
        """The decider of a denied permission, and the reason."""
        self.words: list[str | None] = []
        """What questions are answered with, in order."""
        self.ran: list[tuple[str, bytes, bool]] = []
        self.asked: list[dict[str, Any]] = []
        """What was shown of them."""

    async def text(self, text: str) -> None:
        if self.events and self.events[-1][0] == "text":
            self.events[-1] = ("text", self.events[-1][1] + text)
        else:
            self.events.append(("text", text))

    async def end_block(self) -> None:
        return

    async def thinking(self, text: str) -> None:
        self.events.append(("thinking", text))

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        self.events.append(("request", tool_name, msgspec.json.decode(input_json)))

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        self.ran.append((invocation_id, bytes(input_json), printed))

    async def tool_output(self, invocation_id: str, channel: str, text: str) -> None:
        self.events.append(("output", channel, text))

    async def tool_result(self, invocation_id: str, status: str, output_type: str, output: Any) -> None:
        self.events.append(("result", status, output_type, output))

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        if question.interaction_type == "QUESTION":
            self.asked.append(msgspec.json.decode(question.input_json))
            text = self.words.pop(0)
            return InteractionAnswer(text is not None, None, text=text)
        self.events.append(("ask", question.tool_name))
        if self.forever:
            await asyncio.get_running_loop().create_future()
        wanted = "allow_once" if self.allow else "reject_once"
        return InteractionAnswer(self.allow, next((o.option_id for o in question.options if o.kind == wanted), None),
                                 self.why)

    async def usage(self, usage: TurnUsage) -> None:
        self.usage_sum = merge_usage(self.usage_sum, usage)

    async def progress(self, percent: float) -> None:
        self.events.append(("progress", percent))

    async def plan(self, steps: Sequence[PlanStep]) -> None:
        self.events.append(("plan", [(step.content, step.status, step.priority) for step in steps]))

    async def file(self, file: AgentFile, invocation_id: str | None = None) -> None:
        self.events.append(("file", file.name, file.media_type, len(file.data), invocation_id))

    async def warn(self, code: str, message: str) -> None:
        self.events.append(("warn", code))


def update(**fields: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": fields}}


def permission(options: list[tuple[str, str]], request_id: Any = "q", **call: Any) -> dict[str, Any]:
    shown = [{"optionId": o, "name": o, "kind": k} for o, k in options]
    return {"id": request_id, "method": "session/request_permission",
            "params": {"sessionId": SESSION, "toolCall": call, "options": shown}}


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


HELLO = {"result": {"protocolVersion": 1, "agentInfo": {"name": "x", "version": "1"}}}


class Opened(NamedTuple):
    """An agent whose session is open, its process, what it offers, and what it reported beside its turns."""

    agent: AcpAgent
    process: Scripted
    started: Started
    relayed: list[Any]
    settings: list[AgentSettings]
    """What it reported to be set to, each time that it changed."""


@asynccontextmanager
async def opened(script: dict[str, list[Any]], *, offers: dict[str, Any] | None = None, hello: dict[str, Any] = HELLO,
                 **spec: Any) -> AsyncIterator[Opened]:
    """Open an agent whose answers to each method are `script`; `offers` is what `session/new` answers beside an id."""
    process = Scripted({
        "initialize": [hello], "session/new": [{"result": {"sessionId": SESSION, **(offers or {})}}], **script,
    })
    agent = AcpAgent(process)
    relayed: list[Any] = []
    settings: list[AgentSettings] = []

    async def relay(kind: str, payload: Any, metadata: dict[str, Any]) -> None:
        if isinstance(payload, AgentSettings):
            settings.append(payload)
        else:
            relayed.append((kind, payload))

    configured = AgentSpec(**{"adapter": "acp", "command": "x", **spec})
    opening = AgentStart("s", "x", configured, "/", spec.get("env", {}), relay)
    started = await agent.open(opening)
    try:
        yield Opened(agent, process, started, relayed, settings)
    finally:
        await agent.close()


async def prompted(agent: AcpAgent, recorder: Recorder) -> TurnOutcome:
    """One turn to its end."""
    return await agent.prompt(AgentPrompt("p", "t", [{"type": "text", "text": "go"}]), recorder)


async def play(steps: list[dict[str, Any] | None], *, allow: bool = True, forever: bool = False,
               words: list[str | None] | None = None, why: str | None = None) -> tuple[Recorder, Scripted, Any]:
    """One turn in which the agent sends `steps`."""
    recorder = Recorder(allow=allow)
    recorder.forever, recorder.words, recorder.why = forever, words or [], why
    async with opened({"session/prompt": steps}) as acp:
        outcome = await prompted(acp.agent, recorder)
    return recorder, acp.process, outcome
