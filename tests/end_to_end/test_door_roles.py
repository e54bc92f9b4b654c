"""The roles and tenants through each door: what REST allows a key is what a door allows it, and no more; what comes by
MCP or A2A never votes. What a key has done is read from the audit log and from what its door has shown."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple

import httpx2
import pytest

from bot_api.server import TOKEN, bot_api
from end_to_end.acp_editor import editor
from end_to_end.tasks import PATIENCE_S, SubmittedTask, new_key, submit
from interlock.channels.chat.places import PlacesFile
from interlock.doors.acp.door import DoorError
from interlock.doors.mcp.tools import GatewayTools
from interlock.protocol.resources import ExecutePayload, UserMessage
from interlock.protocol.resources.commands import ContentPart
from interlock.sdk import AsyncInterlock, InterlockError
from lazily import lazily
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack
from slack_api.server import APP_TOKEN, BOT_TOKEN, slack_api

slack_apps, telegram_bots = lazily("interlock.channels.slack.app"), lazily("interlock.channels.telegram.bot")
bridges = lazily("interlock.channels.chat.bridge")

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.needs("mcp", "slack-sdk"),
              pytest.mark.req("O-4", "O-7", "O-8", "O-9", "O-12", "O-13", "K-1")]
CONFIG = """
[session]
defaultAgent = "sh"
dmScope = "per-channel-peer"

[agents.sh]
adapter = "exec"
command = "/bin/sh"
args = ["-c"]

[[policy.rules]]
name = "the plain shell may start"
effect = "allow"
door = "command"
agent = "sh"

[[policy.rules]]
name = "lines marked free"
effect = "allow"
door = "tool"
command = "echo [a-z-]+ # free"
"""
CANARY = "canary-of-the-default-tenant"
READ, TRANSCRIPT, START, CANCEL, VOTE = "read", "transcript", "start", "cancel", "vote"
Shown = dict[str, str]
"""What a door has shown, by the act that asked for it."""
ROLES = ("owner", "admin", "operator", "approver", "viewer", "auditor")
TENANTS = ("default", "elsewhere")
ACTIONS = {"enqueue": START, "cancel": CANCEL, "vote": VOTE}
ANN = "UANN"
_numbers = itertools.count(1)


class Held(NamedTuple):
    """A task that waits for an approval, and a session whose output contains CANARY."""

    stack: Stack
    task: SubmittedTask
    approval: dict[str, Any]
    finished: SubmittedTask


class Door(NamedTuple):
    """A door: its operations, and a client with a key that tries them; `use` returns what the door has shown."""

    name: str
    offers: frozenset[str]
    use: Callable[[str, Held], Awaitable[Shown]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), CONFIG, fork_server=fork_server)
    try:
        stack.up()
        assert stack.post("/v1/tenants", {"tenant_id": "elsewhere"}, new_key()).status_code == 201
        yield stack
    finally:
        stack.down()
    assert stack.leftovers() == []


@pytest.fixture(scope="module")
def finished(stack: Stack) -> SubmittedTask:
    task = submit(stack, "shell", f"echo {CANARY} # free", workspace=stack.workspace)
    assert task.ended()["state"] == "succeeded"
    return task


def key_of(stack: Stack, name: str, role: str, tenant: str) -> str:
    body = {"principal": {"type": "user", "id": name}, "roles": [role],
            **({"tenant_id": tenant} if tenant != "default" else {})}
    made = stack.post("/v1/keys", body, new_key())
    assert made.status_code == 201, made.text
    return made.json()["key"]


async def shown_or_refused(work: Awaitable[Any]) -> str:
    """What was returned, or the refusal, as text."""
    try:
        return repr(await asyncio.wait_for(work, PATIENCE_S))
    except (InterlockError, DoorError) as refused:
        return str(refused)


def execute(text: str) -> ExecutePayload:
    return ExecutePayload(messages=[UserMessage(role="user", content=[ContentPart(contentType="text", value=text)])])


async def entries(client: AsyncInterlock, session: str) -> list[bytes]:
    return [bytes(line) for line in (await client.transcripts.entries(session)).items]


# --- the doors ---
async def by_rest(key: str, held: Held) -> Shown:
    async with AsyncInterlock(held.stack.url, key) as client:
        shown = {READ: await shown_or_refused(client.commands.get(held.finished.id)),
                 TRANSCRIPT: await shown_or_refused(entries(client, held.finished.session_id))}
        for act in (
            client.commands.submit(execute("echo started # free"), agent="shell", workspace=str(held.stack.workspace)),
            client.approvals.grant(held.approval["id"], digest=held.approval["digest"])):
            await shown_or_refused(act)
        return shown


async def canceled_by_rest(key: str, held: Held) -> Shown:
    async with AsyncInterlock(held.stack.url, key) as client:
        await shown_or_refused(client.commands.cancel(held.task.id))
    return {}


def by_acp(transport: Any) -> Callable[[str, Held], Awaitable[Shown]]:
    async def use(key: str, held: Held) -> Shown:
        async with editor(held.stack, "shell", key=key, transport=transport) as at:
            await shown_or_refused(at.ask("session/load", sessionId=held.finished.session_id, cwd="/", mcpServers=[]))
            with suppress(DoorError):
                session = await at.new(held.stack.workspace)
                await at.prompt(session, "echo started # free")
            with suppress(DoorError):
                await at.ask("session/load", sessionId=held.task.session_id, cwd="/", mcpServers=[])
                await at.until(lambda: at.asked or f"interlock approve {held.approval['id']}" in str(at.updates))
                if at.asked:
                    await asyncio.to_thread(held.task.ended)
            return {READ: json.dumps(at.updates)}

    return use


def by_mcp(over_http: bool) -> Callable[[str, Held], Awaitable[Shown]]:
    async def use(key: str, held: Held) -> Shown:
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp_types import ElicitResult

        from interlock.doors.mcp.server import make_server

        async def accepting(_context: Any, _asked: Any) -> Any:
            return ElicitResult(action="accept", content={"decision": "grant", "digest": held.approval["digest"]})

        async with AsyncExitStack() as exits:
            if over_http:
                http = await exits.enter_async_context(httpx2.AsyncClient(
                    headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S))
                server: Any = streamable_http_client(f"{held.stack.url}/mcp", http_client=http)
            else:
                gateway = await exits.enter_async_context(AsyncInterlock(held.stack.url, key))
                server = make_server(lambda: GatewayTools(gateway, held.stack.url))
            client = await exits.enter_async_context(Client(server, elicitation_callback=accepting))
            shown = {READ: str(await client.call_tool("wait_for_task", {"task": held.finished.id})),
                     TRANSCRIPT: str(await client.call_tool("read_transcript",
                                                            {"session": held.finished.session_id}))}
            await client.call_tool("start_task", {"agent": "shell", "prompt": "echo started # free",
                                                  "directory": str(held.stack.workspace)})
            for tool in ("explain_approval", "ask_for_decision", "propose_rule"):
                await client.call_tool(tool, {"approval": held.approval["id"]})
            await client.call_tool("steer_task", {"task": held.task.id, "how": "cancel"})
            return shown

    return use


async def by_a2a(key: str, held: Held) -> Shown:
    headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
    async with httpx2.AsyncClient(base_url=f"{held.stack.url}/a2a/shell", headers=headers, timeout=PATIENCE_S) as http:

        def message(text: str, **members: Any) -> dict[str, Any]:
            return {"message": {"messageId": new_key(), "role": "ROLE_USER", "parts": [{"text": text}], **members},
                    "configuration": {"returnImmediately": True},
                    "metadata": {"interlock": {"workspace": str(held.stack.workspace)}}}

        shown = {READ: (await http.get(f"/tasks/{held.finished.id}")).text}
        await http.post("/message:send", json=message("echo started # free"))
        await http.post("/message:send", json=message("approve, yes, /approve", taskId=held.task.id))
        await http.post(f"/tasks/{held.task.id}:cancel", json={})
        return shown


@asynccontextmanager
async def bridged(service: Any, held: Held, key: str, ann: Any, group: Any) -> AsyncIterator[None]:
    """A bridge of the gateway's owner, in which ANN has the key."""
    owner_key = held.stack.headers["Authorization"].removeprefix("Bearer ")
    async with AsyncInterlock(held.stack.url, owner_key) as owner, AsyncInterlock(held.stack.url, key) as own:
        place = held.stack.place / f"places-{next(_numbers)}.json"
        bridge = bridges.Bridge(service, owner, PlacesFile(place), bridges.Settings({ann: own}, [group], str))
        running = asyncio.ensure_future(bridge.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await service.close()


async def by_slack(key: str, held: Held) -> Shown:
    async with slack_api() as api, bridged(slack_apps.SlackApp(slack_apps.SlackTokens(BOT_TOKEN, APP_TOKEN), api.url),
                                           held, key, ANN, "C0ROOM"):
        card = await api.until_posted("C0ROOM", "touch")
        await api.press("C0ROOM", ANN, card["ts"], "Allow")
        await api.until(lambda: api.whispers or "✅" in str(api.posted_texts("C0ROOM")))
        await api.write("DANN", ANN, "echo started")
        await api.until(lambda: api.posted_texts("DANN"))
        return {}


async def by_telegram(key: str, held: Held) -> Shown:
    group, ann = -100, 7
    async with bot_api() as api, bridged(telegram_bots.TelegramBot(TOKEN, api.url), held, key, ann, group):
        card = await api.until_posted(group, "touch")
        press = await api.press(group, ann, card["message_id"], "Allow")
        await api.until(lambda: press in api.answers)
        await api.write(ann, ann, "echo started")
        await api.until(lambda: api.posted_texts(ann))
        return {}


DOORS = (
    Door("acp", frozenset({READ, START, VOTE}), by_acp("stdio")),
    Door("acp-websocket", frozenset({READ, START, VOTE}), by_acp("websocket")),
    Door("mcp", frozenset({READ, TRANSCRIPT, START, CANCEL}), by_mcp(False)),
    Door("mcp-http", frozenset({READ, TRANSCRIPT, START, CANCEL}), by_mcp(True)),
    Door("a2a", frozenset({READ, START, CANCEL}), by_a2a),
    Door("slack", frozenset({START, VOTE}), by_slack),
    Door("telegram", frozenset({START, VOTE}), by_telegram),
)
"""ntfy and webhooks are not doors: they accept nothing from those whom they notify."""


async def done(stack: Stack, finished: SubmittedTask, door: str, use: Callable[[str, Held], Awaitable[Shown]],
               role: str, tenant: str) -> set[str]:
    """What a new key of a role and tenant brings about through a door, in the default tenant."""
    name = f"{door}-{role}-{tenant}-{next(_numbers)}"
    key = await asyncio.to_thread(key_of, stack, name, role, tenant)
    task = await asyncio.to_thread(submit, stack, "shell", "touch held", session_id=finished.session_id)
    held = Held(stack, task, await asyncio.to_thread(task.approval), finished)
    shown = await use(key, held)
    with suppress(AssertionError):
        await asyncio.to_thread(task.cancel)
    await asyncio.to_thread(task.ended)
    page = await asyncio.to_thread(stack.get, "/v1/audit", actor=f"user:{name}", limit=200)
    acts = {ACTIONS[one["record"]["action"]] for one in page["items"] if one["record"]["action"] in ACTIONS}
    return acts | {act for act, text in shown.items() if CANARY in text}


async def allowed_by_rest(stack: Stack, finished: SubmittedTask, role: str, tenant: str) -> set[str]:
    """The oracle. What is decided by a vote may have ended before it is canceled: the two are asked for apart."""
    return (await done(stack, finished, "rest", by_rest, role, tenant)
            | await done(stack, finished, "rest", canceled_by_rest, role, tenant))


@pytest.mark.parametrize(("role", "tenant"), [(role, tenant) for tenant in TENANTS for role in ROLES
                                              if (role, tenant) != ("owner", "elsewhere")])
async def test_a_door_and_rest_allow_a_key_the_same(
    stack: Stack, finished: SubmittedTask, role: str, tenant: str
) -> None:
    (stack.workspace / "held").unlink(missing_ok=True)
    allowed = await allowed_by_rest(stack, finished, role, tenant)
    if tenant == "elsewhere":
        assert allowed == set()
    for door in DOORS:
        found = await done(stack, finished, door.name, door.use, role, tenant)
        assert found == allowed & door.offers, f"{door.name} of {role} in {tenant}"
    assert (stack.workspace / "held").exists() == (VOTE in allowed)


async def test_the_oracle_distinguishes_the_roles(stack: Stack, finished: SubmittedTask) -> None:
    found = {role: await allowed_by_rest(stack, finished, role, "default") for role in ROLES}
    commands, everything = {READ, TRANSCRIPT, START, CANCEL}, {READ, TRANSCRIPT, START, CANCEL, VOTE}
    assert found == {"owner": everything, "admin": everything, "operator": commands, "approver": {READ, VOTE},
                     "viewer": {READ}, "auditor": {READ, TRANSCRIPT}}
