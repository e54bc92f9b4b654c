"""Agent servers of other projects, and ours, as a user starts them: one command, then a session and a prompt.

Each is driven over the interface that its own clients use. `reader` is one more client that follows a session; `kept`
is what the server still has of a session's text after a restart.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import httpx2

from interlock.cli.agents.known_agents import KNOWN, KnownAgent
from interlock.engine.lanes.lanes import AT_WORK

ANSWER_S = 60.0
POLL_S = 0.05
TRY_S = 2.0
"""A request that comes too early may never be answered; it is sent again."""
LINE_BYTES = 64 * 1024 * 1024
"""A peer may send a whole answer in one event."""


GOOSE_PACKAGE, OPENCODE_PACKAGE = "npm's @aaif/goose-binary-*", "npm's opencode-ai"
OPENCODE_VARIABLES = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
                      "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


class NotThere(Exception):
    """A peer cannot be measured here; the text is the reason."""


class Peer(Protocol):
    """One server."""

    name: ClassVar[str]
    interface: ClassVar[str]
    keeps: ClassVar[bool]
    """Whether it is meant to have the text of a session after a restart."""

    def __init__(self, place: Place) -> None: ...

    def command(self) -> list[str]:
        """The one command that starts it. Raises NotThere."""
        ...

    def environment(self) -> dict[str, str]:
        """What it needs beside HOME and PATH."""
        ...

    def version(self) -> str:
        """The version that it reports. Raises NotThere."""
        ...

    async def connected(self) -> None:
        """Connect as its own client does. Raises OSError while it does not listen."""
        ...

    async def session(self) -> str:
        """Open a session in the workspace."""
        ...

    async def prompt(self, session: str, text: str) -> None:
        """Send a prompt, and do not wait for its end."""
        ...

    def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        """Follow a session, on the connection that prompts (`own`) or as one more client. The first item is "" once it
        follows, then come pieces of the agent's text."""
        ...

    async def kept(self, session: str) -> str:
        """Return the agent's text that the server has of a session."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class Place:
    """The environment of a peer: a HOME with its settings, a workspace, a port, and the model server's URL."""

    def __init__(self, home: Path, port: int, model_url: str) -> None:
        self.home = home
        self.workspace = home / "workspace"
        self.port = port
        self.model_url = model_url
        self.workspace.mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        """Write one of the peer's settings files."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def program(name: str, package: str) -> str:
    """Find a program on PATH. Raises NotThere."""
    found = shutil.which(name)
    if found is None:
        raise NotThere(f"no `{name}` on PATH; {package} has it")
    return found


def version_of(words: list[str], environment: dict[str, str]) -> str:
    """Return the version that a program prints, without its name and other output."""
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False, timeout=ANSWER_S,
                          env={**os.environ, **environment})
    found = re.search(r"\d+\.\d[\w.+-]*", done.stdout)
    return found[0] if found is not None else "unknown"


async def events_of(url: str, headers: dict[str, str] | None = None) -> AsyncGenerator[Any]:
    """Read server-sent events over a connection of its own; None once it is open, then each event's data."""
    parts = urlsplit(url)
    reading, writing = await asyncio.open_connection(parts.hostname, parts.port, limit=LINE_BYTES)
    asked = {"Host": parts.netloc, "Accept": "text/event-stream", "Accept-Encoding": "identity", **(headers or {})}
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        writing.write("".join([f"GET {path} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in asked.items()),
                               "\r\n"]).encode())
        head = await reading.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise OSError(head.split(b"\r\n", 1)[0].decode())
        yield None
        while line := await reading.readline():
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                yield json.loads(line[5:])
    finally:
        writing.close()


def write_opencode(place: Place) -> None:
    """Have opencode ask the model server."""
    place.write(".config/opencode/opencode.json", json.dumps({
        "model": "fake/fake-model", "small_model": "fake/fake-model",
        "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake",
                              "options": {"baseURL": f"{place.model_url}/v1", "apiKey": "fake"},
                              "models": {"fake-model": {"name": "fake-model", "tool_call": True, "limit": {
                                  "context": 2_000_000, "output": 1_000_000}}}}}}))


def goose_variables(place: Place) -> dict[str, str]:
    """Return what has goose ask the model server."""
    return {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "fake-model", "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false", "OPENAI_API_KEY": "fake", "OPENAI_HOST": place.model_url}


class InterlockPeer:
    """Ours: gateway, runner and builtin agent by `interlock up`."""

    name: ClassVar[str] = "Interlock"
    interface: ClassVar[str] = "REST, server-sent events"
    keeps: ClassVar[bool] = True
    agent_id: ClassVar[str] = "builtin"

    def __init__(self, place: Place) -> None:
        self._place = place
        self._state = place.home / "state"
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        self._url, self._sent = "", 0
        place.write("state/interlock.toml",
                    f"[gateway]\nport = {place.port}\n\n[agents.{self.agent_id}]\n{self.agent()}")
        self._state.chmod(0o700)

    def agent(self) -> str:
        """Return the agent's lines of interlock.toml."""
        return (f'adapter = "builtin"\nmodel = "openai-chat/fake"\nbase_url = "{self._place.model_url}/v1"\n'
                f'api_key_env = "OWN_KEY"\nenv = {{ OWN_KEY = "fake" }}\n')

    def command(self) -> list[str]:
        return [sys.executable, "-m", "interlock", "up", "--state", str(self._state),
                "--root", str(self._place.workspace)]

    def environment(self) -> dict[str, str]:
        return {"INTERLOCK_STATE": str(self._state)}

    def version(self) -> str:
        return version_of([sys.executable, "-m", "interlock"], {})

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {(self._state / 'owner.key').read_text().strip()}"}

    async def connected(self) -> None:
        self._url = f"http://127.0.0.1:{self._place.port}"
        try:
            nodes = (await self._http.get(f"{self._url}/v1/edge/nodes", headers=self._headers)).json()["nodes"]
        except (httpx2.TransportError, OSError, KeyError) as error:
            raise ConnectionRefusedError from error
        if not any(node["status"] != "offline" for node in nodes):
            raise ConnectionRefusedError

    async def session(self) -> str:
        return await self._command("[[say:ready]]", workspace=str(self._place.workspace))

    async def _command(self, text: str, **target: str) -> str:
        self._sent += 1
        answer = await self._http.post(f"{self._url}/v1/commands", headers={
            **self._headers, "Idempotency-Key": f"peers-{os.getpid()}-{self._sent:06d}"}, json={
            "type": "execute", "target": {"agent_id": self.agent_id, **target},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}})
        return str(answer.raise_for_status().json()["target"]["session_id"])

    async def prompt(self, session: str, text: str) -> None:
        await self._command(text, session_id=session)

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        had: dict[str, int] = {}
        async for event in events_of(f"{self._url}/v1/sessions/{session}/frames", self._headers):
            yield "" if event is None else _text_beyond(had, event)

    async def kept(self, session: str) -> str:
        await self._settled(session)
        texts: dict[str, str] = {}
        cursor: str | None = None
        while True:
            page = (await self._http.get(f"{self._url}/v1/sessions/{session}/frames", headers=self._headers, params={
                "limit": 500, **({"since": cursor} if cursor else {})})).json()
            for event in page["events"]:
                frame = event.get("frame", {})
                if frame.get("type") == "agent.text.done":
                    texts[frame["payload"]["block_id"]] = frame["payload"]["text"]
            cursor = page["next_cursor"]
            if not page["has_more"]:
                return "".join(texts.values())

    async def _settled(self, session: str) -> None:
        """Wait until the turn that the kill interrupted is closed: its text is in the record from then on."""
        async with asyncio.timeout(ANSWER_S):
            while True:
                shown = await self._http.get(f"{self._url}/v1/sessions/{session}", headers=self._headers)
                if shown.raise_for_status().json()["state"] not in AT_WORK:
                    return
                await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        await self._http.aclose()


class BehindPeer(InterlockPeer):
    """Ours with another's agent: the runner drives its program over ACP, set up as by `agents add`."""

    package: ClassVar[str]

    def variables(self) -> dict[str, str]:
        """Return what has the agent ask the model server."""
        raise NotImplementedError

    @property
    def _known(self) -> KnownAgent:
        return next(one for one in KNOWN if one.agent_id == self.agent_id)

    def agent(self) -> str:
        known = self._known
        variables = {**self.variables(), **known.env}
        env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items())
        return (f'adapter = "acp"\ncommand = "{known.program}"\nargs = {json.dumps(known.args)}\nenv = {{ {env} }}\n')

    def version(self) -> str:
        return version_of([program(self._known.program, self.package)], {"HOME": str(self._place.home)})


class BehindGoose(BehindPeer):
    """`goose acp` behind Interlock."""

    name: ClassVar[str] = "Interlock, with goose"
    agent_id: ClassVar[str] = "goose"
    package: ClassVar[str] = GOOSE_PACKAGE

    def variables(self) -> dict[str, str]:
        return goose_variables(self._place)


class BehindOpencode(BehindPeer):
    """`opencode acp` behind Interlock."""

    name: ClassVar[str] = "Interlock, with opencode"
    agent_id: ClassVar[str] = "opencode"
    package: ClassVar[str] = OPENCODE_PACKAGE

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        write_opencode(place)

    def variables(self) -> dict[str, str]:
        return OPENCODE_VARIABLES


def _text_beyond(had: dict[str, int], event: Any) -> str:
    """Return the text of a frame that comes after what its reader has of the block; `had` counts that. The end of a
    block brings its whole text, and pieces that it overtook are not sent."""
    frame = event.get("frame", {})
    if frame.get("type") not in ("agent.text.delta", "agent.text.done"):
        return ""
    payload = frame["payload"]
    before, offset = had.get(payload["block_id"], 0), payload.get("offset", 0)
    text = str(payload["text"])[max(0, before - offset):]
    had[payload["block_id"]] = before + len(text)
    return text


class OpencodePeer:
    """`opencode serve`."""

    name: ClassVar[str] = "opencode serve"
    interface: ClassVar[str] = "REST, server-sent events"
    keeps: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._url = f"http://127.0.0.1:{place.port}"
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        write_opencode(place)

    def command(self) -> list[str]:
        return [program("opencode", OPENCODE_PACKAGE), "serve", "--port", str(self._place.port)]

    def environment(self) -> dict[str, str]:
        return OPENCODE_VARIABLES

    def version(self) -> str:
        return version_of(self.command()[:1], {"HOME": str(self._place.home)})

    async def connected(self) -> None:
        try:
            (await self._http.get(f"{self._url}/session", timeout=TRY_S)).raise_for_status()
        except httpx2.HTTPError as error:
            raise ConnectionRefusedError from error

    async def session(self) -> str:
        return str((await self._http.post(f"{self._url}/session", json={})).raise_for_status().json()["id"])

    async def prompt(self, session: str, text: str) -> None:
        (await self._http.post(f"{self._url}/session/{session}/prompt_async",
                               json={"parts": [{"type": "text", "text": text}]})).raise_for_status()

    async def reader(self, session: str, *, own: bool) -> AsyncGenerator[str]:
        async for event in events_of(f"{self._url}/event"):
            if event is None:
                yield ""
            elif event["type"] == "message.part.delta" and event["properties"]["sessionID"] == session:
                yield str(event["properties"]["delta"])

    async def kept(self, session: str) -> str:
        messages = (await self._http.get(f"{self._url}/session/{session}/message")).raise_for_status().json()
        return "".join(part.get("text", "") for message in messages if message["info"]["role"] == "assistant"
                       for part in message["parts"] if part["type"] == "text")

    async def close(self) -> None:
        await self._http.aclose()
