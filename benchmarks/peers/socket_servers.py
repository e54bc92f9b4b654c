"""Servers that a client drives with JSON-RPC over a WebSocket: Codex's, and those of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake

from benchmarks.peers.servers import ANSWER_S, GOOSE_PACKAGE, NotThere, Place, goose_variables, program, version_of


class Rpc:
    """JSON-RPC over one WebSocket; what is not a reply goes to `notices`."""

    def __init__(self, link: ClientConnection) -> None:
        self._link = link
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._sent = 0
        self.notices: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def at(cls, url: str) -> Rpc:
        """Connect. Raises OSError."""
        try:
            return cls(await connect(url, max_size=None, compression=None, open_timeout=ANSWER_S, ping_interval=None))
        except InvalidHandshake as error:  # It listens already and does not serve yet.
            raise ConnectionRefusedError(str(error)) from error

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its result."""
        return await asyncio.wait_for(await self.begin(method, **params), ANSWER_S)

    async def begin(self, method: str, **params: Any) -> asyncio.Future[Any]:
        """Send a request; its result comes later."""
        self._sent += 1
        waiting = self._waiting[self._sent] = asyncio.get_running_loop().create_future()
        await self._link.send(json.dumps({"jsonrpc": "2.0", "id": self._sent, "method": method, "params": params}))
        return waiting

    async def _read(self) -> None:
        with contextlib.suppress(Exception):
            async for message in self._link:
                received = json.loads(message)
                if "method" in received:
                    self.notices.put_nowait(received)
                elif (waiting := self._waiting.pop(received.get("id"), None)) is not None and not waiting.done():
                    if "result" in received:
                        waiting.set_result(received["result"])
                    else:
                        waiting.set_exception(OSError(str(received.get("error"))))

    async def close(self) -> None:
        """Close the connection."""
        self._reading.cancel()
        with contextlib.suppress(Exception):
            await self._link.close()


class CodexPeer:
    """`codex app-server` over its WebSocket."""

    name: ClassVar[str] = "codex app-server"
    interface: ClassVar[str] = "JSON-RPC over a WebSocket"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._url = f"ws://127.0.0.1:{place.port}"
        self._rpc: Rpc | None = None
        place.write(".codex/config.toml", (
            'model = "fake-model"\nmodel_provider = "fake"\n\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{place.model_url}/v1"\nenv_key = "FAKE_API_KEY"\nwire_api = "responses"\n'
            "supports_websockets = false\n"))

    def command(self) -> list[str]:
        return [program("codex", "npm's @openai/codex"), "app-server", "--listen", self._url]

    def environment(self) -> dict[str, str]:
        return {"FAKE_API_KEY": "fake"}

    def version(self) -> str:
        return version_of(self.command()[:1], {"HOME": str(self._place.home)})

    async def _opened(self) -> Rpc:
        rpc = await Rpc.at(self._url)
        await rpc.call("initialize", clientInfo={"name": "benchmark", "version": "1"})
        return rpc

    async def connected(self) -> None:
        self._rpc = await self._opened()

    @property
    def _own(self) -> Rpc:
        assert self._rpc is not None, "connected() comes first"
        return self._rpc

    async def session(self) -> str:
        started = await self._own.call("thread/start", cwd=str(self._place.workspace), approvalPolicy="never",
                                       sandbox="read-only")
        return str(started["thread"]["id"])

    async def prompt(self, session: str, text: str) -> None:
        await self._own.call("turn/start", threadId=session, input=[{"type": "text", "text": text}])

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        rpc = self._own if own else await self._opened()
        try:
            if not own:
                await rpc.call("thread/resume", threadId=session)
            yield ""
            while True:
                received = await rpc.notices.get()
                if received["method"] == "item/agentMessage/delta" and received["params"]["threadId"] == session:
                    yield str(received["params"]["delta"])
        finally:
            if not own:
                await rpc.close()

    async def kept(self, session: str) -> str:
        resumed = await self._own.call("thread/resume", threadId=session)
        return "".join(item.get("text", "") for turn in resumed["thread"]["turns"] for item in turn["items"]
                       if item["type"] == "agentMessage")

    async def close(self) -> None:
        if self._rpc is not None:
            await self._rpc.close()


def _text_of(received: Any, session: str) -> str:
    if received["method"] != "session/update" or received["params"]["sessionId"] != session:
        return ""
    update = received["params"]["update"]
    return str(update["content"].get("text", "")) if update["sessionUpdate"] == "agent_message_chunk" else ""


class GoosePeer:
    """`goose serve`: the Agent Client Protocol over a WebSocket."""

    name: ClassVar[str] = "goose serve"
    interface: ClassVar[str] = "ACP over a WebSocket"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rpc: Rpc | None = None
        self._prompting: list[asyncio.Future[Any]] = []

    def command(self) -> list[str]:
        return [program("goose", GOOSE_PACKAGE), "serve", "--port", str(self._place.port),
                "--dangerously-unauthenticated"]

    def environment(self) -> dict[str, str]:
        return {**goose_variables(self._place), "GOOSE_MODE": "auto"}

    def version(self) -> str:
        return version_of(self.command()[:1], {"HOME": str(self._place.home)})

    async def _opened(self) -> Rpc:
        rpc = await Rpc.at(f"ws://127.0.0.1:{self._place.port}/acp")
        await rpc.call("initialize", protocolVersion=1, clientCapabilities={})
        return rpc

    async def connected(self) -> None:
        self._rpc = await self._opened()

    @property
    def _own(self) -> Rpc:
        assert self._rpc is not None, "connected() comes first"
        return self._rpc

    async def session(self) -> str:
        made = await self._own.call("session/new", cwd=str(self._place.workspace), mcpServers=[])
        return str(made["sessionId"])

    async def prompt(self, session: str, text: str) -> None:
        waiting = await self._own.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._prompting.append(waiting)

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        rpc = self._own if own else await self._opened()
        try:
            if not own:
                await rpc.call("session/load", sessionId=session, cwd=str(self._place.workspace), mcpServers=[])
            while not rpc.notices.empty():  # What was before.
                rpc.notices.get_nowait()
            yield ""
            while True:
                yield _text_of(await rpc.notices.get(), session)
        finally:
            if not own:
                await rpc.close()

    async def kept(self, session: str) -> str:
        rpc = await self._opened()
        try:
            await rpc.call("session/load", sessionId=session, cwd=str(self._place.workspace), mcpServers=[])
            return "".join(_text_of(rpc.notices.get_nowait(), session) for _ in range(rpc.notices.qsize()))
        finally:
            await rpc.close()

    async def close(self) -> None:
        if self._rpc is not None:
            await self._rpc.close()


ACP_SDK_MODULES = "ACP_SDK_MODULES"
"""The variable that names a folder `node_modules` with the SDK and a WebSocket server for it."""
ACP_SDK_SERVER = '''// An agent made with ACP's SDK, behind the SDK's own server: it passes on what the model streams.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { WebSocketServer } from "ws";

const [port, modelUrl] = process.argv.slice(2);

async function answer({ params, client }) {
  const messages = [{ role: "user", content: params.prompt.map((block) => block.text).join("") }];
  const reply = await fetch(`${modelUrl}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "fake-model", stream: true, messages }),
  });
  for await (const line of createInterface({ input: Readable.fromWeb(reply.body) })) {
    if (!line.startsWith("data: {")) continue;
    for (const choice of JSON.parse(line.slice(6)).choices) {
      const text = choice.delta.content;
      if (!text) continue;
      await client.notify(acp.methods.client.session.update, {
        sessionId: params.sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
    }
  }
  return { stopReason: "end_turn" };
}

const createAgent = () => acp.agent({ name: "answering" })
  .onRequest(acp.methods.agent.initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion, agentCapabilities: { loadSession: false } }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: randomUUID() }))
  .onRequest(acp.methods.agent.session.prompt, answer);

const server = createServer();
const sockets = new WebSocketServer({ noServer: true });
server.on("upgrade", createNodeWebSocketUpgradeHandler(new AcpServer({ createAgent }), sockets));
server.listen(Number(port), "127.0.0.1");
'''


class AcpSdkPeer(GoosePeer):
    """ACP's own SDK for TypeScript, with the server that it has for WebSockets, and an agent of a page. It is a library
    that passes on what an agent sends: a session belongs to its connection, and nothing is kept."""

    name: ClassVar[str] = "ACP's SDK"
    keeps: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        place.write("workspace/server.mjs", ACP_SDK_SERVER)
        modules = os.environ.get(ACP_SDK_MODULES)
        self._modules = None if modules is None else Path(modules)
        link = place.workspace / "node_modules"
        if self._modules is not None and not link.exists():
            link.symlink_to(self._modules, target_is_directory=True)

    def _module(self, name: str) -> Path:
        """Find a package. Raises NotThere."""
        if self._modules is None or not (self._modules / name / "package.json").is_file():
            raise NotThere(f"no {name}: name a node_modules that has npm's @agentclientprotocol/sdk and ws with "
                           f"{ACP_SDK_MODULES}")
        return self._modules / name

    def command(self) -> list[str]:
        self._module("ws")
        return [program("node", "Debian's nodejs"), "server.mjs", str(self._place.port), self._place.model_url]

    def environment(self) -> dict[str, str]:
        return {}

    def version(self) -> str:
        described = json.loads((self._module("@agentclientprotocol/sdk") / "package.json").read_text("utf-8"))
        return str(described["version"])

    async def kept(self, session: str) -> str:
        return ""
