"""A peer of the shell agent, made with the official SDK over real pipes, so that a test reads as the conversation."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lazily import lazily

acp, schema = lazily("acp"), lazily("acp.schema")


LINE_LIMIT_BYTES = 16 * 1024 * 1024
PATIENCE_S = 20
"""Past this a conversation that got stuck fails the test."""


class Question(NamedTuple):
    """A permission that the agent asked for; `answered` takes the option's id, or None for ACP's `cancelled`."""

    command: str
    options: list[str]
    answered: asyncio.Future[tuple[str | None, str | None]]

    def answer(self, option: str | None, denied: str | None = None) -> None:
        """Choose an option; `denied` is the sentence that Interlock sends with a no."""
        self.answered.set_result((option, denied))


class Peer:
    """The client that the SDK calls with messages of the agent."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.questions: asyncio.Queue[Question] = asyncio.Queue()
        self.more = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True))
        self.more.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        answered: asyncio.Future[tuple[str | None, str | None]] = asyncio.get_running_loop().create_future()
        kinds = [option.kind for option in options]
        self.questions.put_nowait(Question(tool_call.raw_input["command"], kinds, answered))
        option, denied = await answered
        meta = {"interlock": {"denied": denied}} if denied is not None else None
        if option is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=option), field_meta=meta)


class Conversation:
    """One session of one agent process."""

    def __init__(self, peer: Peer, agent: Any, process: asyncio.subprocess.Process) -> None:
        self.peer = peer
        self.agent = agent
        self.process = process
        self.session_id = ""

    async def open(self, workspace: Path) -> schema.NewSessionResponse:
        session = await self.agent.new_session(cwd=str(workspace), mcp_servers=[])
        self.session_id = session.session_id
        return session

    def prompt(self, text: str) -> asyncio.Task[schema.PromptResponse]:
        block = schema.TextContentBlock(type="text", text=text)
        return asyncio.create_task(self.agent.prompt(session_id=self.session_id, prompt=[block]))

    async def cancel(self) -> None:
        await self.agent.cancel(session_id=self.session_id)

    async def question(self) -> Question:
        return await self.peer.questions.get()

    async def allow(self) -> Question:
        question = await self.question()
        question.answer("allow")
        return question

    async def printed(self, text: str) -> None:
        """Wait until the command has printed it."""
        while text not in self.output("stdout"):
            self.peer.more.clear()
            await self.peer.more.wait()

    def output(self, channel: str) -> str:
        return "".join(piece["text"] for piece in self.pieces() if piece["channel"] == channel)

    def pieces(self) -> list[dict[str, str]]:
        streams = [update.get("_meta", {}).get("interlock", {}).get("stream") for update in self.peer.updates]
        return [stream for stream in streams if stream is not None]

    def says(self) -> list[str]:
        chunks = [update for update in self.peer.updates if update["sessionUpdate"] == "agent_message_chunk"]
        return [chunk["content"]["text"] for chunk in chunks]

    def story(self) -> list[tuple[str, ...]]:
        """All updates in order, each as a few words."""
        return [_line(update) for update in self.peer.updates]

    def results(self) -> list[dict[str, Any]]:
        return [update["rawOutput"] for update in self.peer.updates if "rawOutput" in update]


def _line(update: dict[str, Any]) -> tuple[str, ...]:
    match update:
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": text}}:
            return ("says", text)
        case {"sessionUpdate": "tool_call", "title": title, "status": status}:
            return ("call", title, status)
        case {"_meta": {"interlock": {"stream": {"channel": channel, "text": text}}}}:
            return (channel, text)
        case {"content": [{"content": {"text": text}}], "status": status}:
            return (status, text)
        case _:
            return (update["status"],)


@asynccontextmanager
async def conversation(workspace: Path) -> AsyncIterator[Conversation]:
    """An agent process with one session in the workspace."""
    peer = Peer()
    command = (sys.executable, "-m", "interlock.shell_agent")
    limits = {"limit": LINE_LIMIT_BYTES, "stderr": None}
    async with (
        asyncio.timeout(PATIENCE_S),
        acp.spawn_agent_process(peer, *command, transport_kwargs=limits) as (agent, process),  # type: ignore[arg-type]
    ):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        connection = Conversation(peer, agent, process)
        await connection.open(workspace)
        yield connection
