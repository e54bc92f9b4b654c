"""Lines of a chat: an answer while a question is open, otherwise a message (V-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cli.scripted import Script, answer, link_to, problem
from interlock.cli.exit_status import ExitStatus
from interlock.cli.tasks import chat
from interlock.cli.tasks.chat import LineReader
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.anyio


class Typed:
    """A person's lines, as they come, and the questions that were shown in between."""

    def __init__(self, *lines: str | None) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue()
        self.questions: list[str | None] = []
        for line in lines:
            self.queue.put_nowait(line)

    async def line(self) -> str | None:
        return await self.queue.get()

    def show_question(self, question: str | None) -> None:
        self.questions.append(question)


@pytest.mark.req("V-1")
async def test_a_line_is_an_answer_during_a_question_and_otherwise_a_message() -> None:
    typed = Typed("hello")
    lines = LineReader(typed)
    reading = asyncio.create_task(lines.read())
    assert await lines.messages.get() == "hello"
    asking = asyncio.create_task(lines.line("Allow it? "))
    await asyncio.sleep(0)
    typed.queue.put_nowait("y")
    assert await asking == "y"
    assert typed.questions == ["Allow it? ", None]
    # A question that is taken back leaves the next line to be a message.
    taken_back = asyncio.create_task(lines.line("And this? "))
    await asyncio.sleep(0)
    taken_back.cancel()
    await asyncio.gather(taken_back, return_exceptions=True)
    assert typed.questions[2:] == ["And this? ", None]
    typed.queue.put_nowait("more")
    assert await lines.messages.get() == "more"
    last = asyncio.create_task(lines.line())
    await asyncio.sleep(0)
    typed.queue.put_nowait(None)
    assert await last is None
    assert await lines.messages.get() is None
    await reading
    assert await lines.line() is None


async def run_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str | None],
                   *answers: Callable[[httpx2.Request], httpx2.Response]) -> tuple[int, Script]:
    script = Script({"POST /v1/inbound": list(answers)})
    monkeypatch.setattr(chat, "PipedLines", lambda: Typed(*lines))
    monkeypatch.setattr(chat, "GatewayLink", lambda _where: link_to(script, tmp_path))
    done = await asyncio.wait_for(chat._Chat(chat.Where(state=tmp_path), "agent:shell:main", "ask").run(), 10)
    return done, script


@pytest.mark.req("V-1")
async def test_slash_commands_for_the_gateway_are_answered_and_nothing_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: dict[str, Any] = {"session_id": "S1", "session_key": "agent:shell:main"}
    done, script = await run_chat(tmp_path, monkeypatch, ["", "/status", "/new", "psst", None],
                                  answer({**opened, "reply": "agent shell\x1b[2J"}, 202),
                                  answer({**opened, "session_id": "S2", "reset": "asked"}, 202),
                                  answer({**opened, "denied": True}, 202))
    captured = capsys.readouterr()
    assert done == ExitStatus.DONE
    assert [httpx2.Request("POST", "http://x", content=one.content).read() and one.headers["idempotency-key"][:4]
            for one in script.asked] == ["cli-"] * 3
    assert "agent shell" in captured.out
    assert "\x1b" not in captured.out
    assert "a new session begins: S2" in captured.err
    assert "sendPolicy keeps silent here" in captured.err


@pytest.mark.req("V-1")
async def test_a_refusal_of_piped_input_ends_the_chat_with_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Trouble, match="no runner") as trouble:
        await run_chat(tmp_path, monkeypatch, ["hello", None], problem(409, "Conflict", "no runner offers it"))
    assert trouble.value.status == ExitStatus.CONFLICT


NODE = {"node_id": "local", "device_name": "vm", "status": "online", "last_seen": "2026-11-21T10:00:00.000Z",
        "capabilities": [], "active_sessions_count": 0, "config_versions": {}, "agents": [{"agent_id": "shell"}]}
NO_SESSIONS = {"items": [], "next_cursor": None}


@pytest.mark.req("V-1", "G-7")
@pytest.mark.parametrize("nodes", [[NODE], [], [{**NODE, "status": "offline", "agents": [{"agent_id": "goose"}]}]])
async def test_an_agent_that_no_runner_offers_is_refused_before_a_line_is_read(
    nodes: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"GET /v1/edge/nodes": [answer({"nodes": nodes})], "GET /v1/sessions": [answer(NO_SESSIONS)]})
    monkeypatch.setattr(chat, "GatewayLink", lambda _where: link_to(script, tmp_path))
    typed = Typed(None)
    monkeypatch.setattr(chat, "PipedLines", lambda: typed)
    conversation = chat._Chat(chat.Where(state=tmp_path), "agent:goose:main", "ask", "goose")
    with pytest.raises(Trouble, match="No runner that is online offers agent goose") as trouble:
        await asyncio.wait_for(conversation.run(), 10)
    assert trouble.value.status == ExitStatus.CONFLICT
    assert trouble.value.remedy.startswith("See `interlock agents`")
    assert typed.queue.qsize() == 1


@pytest.mark.req("V-1")
async def test_an_agent_that_is_offered_or_has_a_session_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = {"session_id": "s", "tenant_id": "t", "agent_id": "goose", "session_key": "agent:goose:main",
               "created_at": "2026-11-21T10:00:00.000Z", "updated_at": "2026-11-21T10:00:00.000Z",
               "last_activity_at": "2026-11-21T10:00:00.000Z",
               "state": "detached", "runner_id": "local", "workspace": "/w"}
    script = Script({"GET /v1/edge/nodes": [answer({"nodes": [NODE]})],
                     "GET /v1/sessions": [answer({"items": [session], "next_cursor": None})]})
    monkeypatch.setattr(chat, "GatewayLink", lambda _where: link_to(script, tmp_path))
    monkeypatch.setattr(chat, "PipedLines", lambda: Typed(None))
    for agent in ("shell", "goose"):
        conversation = chat._Chat(chat.Where(state=tmp_path), f"agent:{agent}:main", "ask", agent)
        assert await asyncio.wait_for(conversation.run(), 10) == ExitStatus.DONE
