"""Servers from PyPI: LangGraph's, OpenHands' and Omnigent's."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncGenerator
from typing import Any, ClassVar, cast

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake

from benchmarks.peers.servers import ANSWER_S, TRY_S, Place, events_of, program, version_of

LANGGRAPH_PACKAGE = "PyPI's langgraph-cli[inmem]"
NOT_FOUND = 404
OMNIGENT_PACKAGE = "PyPI's omnigent, for Python 3.12 and later,"
OPENHANDS_PACKAGE = "PyPI's openhands-agent-server, for Python 3.12 and later,"
LANGGRAPH_GRAPH = '''"""One node, which asks a model and streams what comes, as an agent's node does."""
import json
import os

import httpx
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph


async def answer(state: MessagesState) -> dict:
    send, text = get_stream_writer(), ""
    asked = {"role": "user", "content": state["messages"][-1].content}
    body = {"model": "fake-model", "stream": True, "messages": [asked]}
    async with httpx.AsyncClient(timeout=None) as http:
        async with http.stream("POST", os.environ["MODEL_URL"] + "/v1/chat/completions", json=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        piece = choice["delta"].get("content") or ""
                        if piece:
                            text += piece
                            send({"text": piece})
    return {"messages": [("ai", text)]}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()
'''


class LangGraphPeer:
    """`langgraph dev`: the server that PyPI has without a licence, which keeps threads in memory and writes them to a
    file; a graph of one node asks the model."""

    name: ClassVar[str] = "langgraph dev"
    interface: ClassVar[str] = "REST, server-sent events"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._url = f"http://127.0.0.1:{place.port}"
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        place.write("workspace/graph.py", LANGGRAPH_GRAPH)
        place.write("workspace/langgraph.json", json.dumps({"dependencies": ["."],
                                                            "graphs": {"agent": "./graph.py:graph"}}))

    def command(self) -> list[str]:
        return [program("langgraph", LANGGRAPH_PACKAGE), "dev", "--host", "127.0.0.1", "--port", str(self._place.port),
                "--no-browser", "--no-reload"]

    def environment(self) -> dict[str, str]:
        return {"MODEL_URL": self._place.model_url, "LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}

    def version(self) -> str:
        return version_of(self.command()[:1], {"HOME": str(self._place.home)})

    async def connected(self) -> None:
        try:
            (await self._http.get(f"{self._url}/ok", timeout=TRY_S)).raise_for_status()
        except httpx2.HTTPError as error:
            raise ConnectionRefusedError from error

    async def session(self) -> str:
        made = (await self._http.post(f"{self._url}/threads", json={})).raise_for_status().json()
        return str(made["thread_id"])

    async def prompt(self, session: str, text: str) -> None:
        (await self._http.post(f"{self._url}/threads/{session}/runs", json={
            "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
            "stream_mode": ["custom"], "stream_resumable": True})).raise_for_status()

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        async for event in events_of(f"{self._url}/threads/{session}/stream"):
            if event is None:
                yield ""
            elif isinstance(event, dict) and "text" in (data := cast("dict[str, Any]", event)):
                yield str(data["text"])

    async def kept(self, session: str) -> str:
        reply = await self._http.get(f"{self._url}/threads/{session}/state")
        if reply.status_code == NOT_FOUND:  # Killed before it wrote its file, it does not know the thread any more.
            return ""
        state: dict[str, Any] = reply.raise_for_status().json()
        values: dict[str, Any] = state.get("values") or {}
        messages: list[dict[str, Any]] = values.get("messages", [])
        return "".join(str(message["content"]) for message in messages if message["type"] == "ai")

    async def close(self) -> None:
        await self._http.aclose()


OMNIGENT_AGENT = """spec_version: 1
name: answering
description: Answers by the model alone.
executor:
  type: omnigent
  model: fake-model
  config:
    harness: openai-agents
os_env:
  type: caller_process
  cwd: .
  sandbox:
    type: none
"""


class OmnigentPeer:
    """`omnigent server` with `omnigent host` beside it: the one keeps sessions, the other runs their agents, which ask
    the model by OpenAI's library."""

    name: ClassVar[str] = "omnigent server"
    interface: ClassVar[str] = "REST, server-sent events"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._url = f"http://127.0.0.1:{place.port}"
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        self._agent, self._host = "", ""
        place.write("agent/config.yaml", OMNIGENT_AGENT)

    def command(self) -> list[str]:
        omnigent = shlex.quote(program("omnigent", OMNIGENT_PACKAGE))
        agent, port = shlex.quote(str(self._place.home / "agent")), self._place.port
        return [program("bash", "Debian's bash"), "-c",
                f"{omnigent} server --port {port} --agent {agent} --no-open & "
                f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done; "
                f"exec {omnigent} host {self._url} --no-open --non-interactive"]

    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{self._place.model_url}/v1", "OPENAI_API_KEY": "fake"}

    def version(self) -> str:
        return version_of([program("omnigent", OMNIGENT_PACKAGE)], {"HOME": str(self._place.home)})

    async def connected(self) -> None:
        try:
            agents, hosts = [(await self._http.get(f"{self._url}/v1/{what}", timeout=TRY_S)).raise_for_status().json()
                             for what in ("agents", "hosts")]
        except httpx2.HTTPError as error:
            raise ConnectionRefusedError from error
        online = [one["host_id"] for one in hosts["hosts"] if one["status"] == "online"]
        if not online:
            raise ConnectionRefusedError
        self._host = str(online[0])
        self._agent = next(str(one["id"]) for one in agents["data"] if one["name"] == "answering")

    async def session(self) -> str:
        made = await self._http.post(f"{self._url}/v1/sessions", json={
            "agent_id": self._agent, "host_id": self._host, "workspace": str(self._place.workspace)})
        return str(made.raise_for_status().json()["id"])

    async def prompt(self, session: str, text: str) -> None:
        (await self._http.post(f"{self._url}/v1/sessions/{session}/events", json={
            "type": "message", "data": {"role": "user", "content": [{"type": "input_text", "text": text}]},
        })).raise_for_status()

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        async for event in events_of(f"{self._url}/v1/sessions/{session}/stream"):
            if event is None:
                yield ""
            elif event["type"] == "response.output_text.delta":
                yield str(event["delta"])

    async def kept(self, session: str) -> str:
        shown = (await self._http.get(f"{self._url}/v1/sessions/{session}")).raise_for_status().json()
        return "".join(str(part.get("text", "")) for item in shown["items"]
                       if item["type"] == "message" and item["data"]["role"] == "assistant"
                       for part in item["data"]["content"])

    async def close(self) -> None:
        await self._http.aclose()


class OpenHandsPeer:
    """OpenHands' `agent-server`, by its interface as its package documents it. It needs Python 3.12 and has not
    been run."""

    name: ClassVar[str] = "OpenHands agent-server"
    interface: ClassVar[str] = "REST, JSON over a WebSocket"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._at = f"127.0.0.1:{place.port}"
        self._url = f"http://{self._at}/api/conversations"
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)

    def command(self) -> list[str]:
        return [program("agent-server", OPENHANDS_PACKAGE), "--host", "127.0.0.1", "--port", str(self._place.port)]

    def environment(self) -> dict[str, str]:
        return {}

    def version(self) -> str:
        program("agent-server", OPENHANDS_PACKAGE)
        return ""  # It has no --version; `connected` does not ask for it either.

    async def connected(self) -> None:
        try:
            (await self._http.get(f"http://{self._at}/ready", timeout=TRY_S)).raise_for_status()
        except httpx2.HTTPError as error:
            raise ConnectionRefusedError from error

    async def session(self) -> str:
        llm = {"usage_id": "agent", "model": "openai/fake-model", "api_key": "fake", "stream": True,
               "base_url": f"{self._place.model_url}/v1"}
        made = await self._http.post(self._url, json={
            "agent_settings": {"llm": llm}, "workspace": {"working_dir": str(self._place.workspace)}})
        return str(made.raise_for_status().json()["id"])

    async def prompt(self, session: str, text: str) -> None:
        (await self._http.post(f"{self._url}/{session}/events", json={
            "role": "user", "content": [{"type": "text", "text": text}], "run": True})).raise_for_status()

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        try:
            link = await connect(f"ws://{self._at}/sockets/events/{session}", max_size=None, ping_interval=None)
        except InvalidHandshake as error:
            raise ConnectionRefusedError(str(error)) from error
        try:
            yield ""
            async for message in link:
                event = json.loads(message)
                if event.get("kind") == "StreamingDeltaEvent":
                    yield str(event.get("content") or "")
        finally:
            await link.close()

    async def kept(self, session: str) -> str:
        texts: list[str] = []
        page: dict[str, Any] = {}
        while True:
            asked = {"limit": "100", **({"page_id": page["next_page_id"]} if page else {})}
            found = await self._http.get(f"{self._url}/{session}/events/search", params=asked)
            page = found.raise_for_status().json()
            texts += [str(part.get("text", "")) for event in page["items"]
                      if event.get("kind") == "MessageEvent" and event.get("source") == "agent"
                      for part in event["llm_message"]["content"]]
            if not page.get("next_page_id"):
                return "".join(texts)

    async def close(self) -> None:
        await self._http.aclose()
