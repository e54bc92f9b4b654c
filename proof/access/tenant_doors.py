"""S10: a person and a runner of one tenant try every door of the listener on another tenant's objects: nothing leaks,
nothing changes.

The doors are the listener's own table: A2A, ACP, MCP, streams over a WebSocket, the runners' link, and of REST the
tickets, cursors, hooks and open paths. What each door publishes (methods, tools, frames, operations) is tried; what the
trial does not know is reported. Each client is a real one on loopback. What names another tenant's object must get the
answer of one that does not exist; the other tenant's rows must stay as they are. S1 does the same for every operation
of REST.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.backends.memory.ledger import MemoryLedger
from interlock.channels.task_push import TaskPushSender
from interlock.doors.acp.door import AcpDoor
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.lanes.lanes import Lanes
from interlock.gateway.a2a import facade as a2a
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.access.credentials import digest
from interlock.gateway.access.tickets import Tickets
from interlock.gateway.hooks import ConfiguredHook
from interlock.gateway.rest import app, console_pages, cursors
from interlock.gateway.server import server
from interlock.ports.ledger import Put, WriteBatch
from interlock.ports.outbound_http import OutboundResponse
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.identifiers import session_stream
from interlock.protocol.records import RunnerRecord
from proof.access.door_clients import PATIENCE_S, Person, named_by_runner
from proof.access.populated_tenant import IDS, SESSION_KEY, WORDS, populate
from proof.processes.in_memory_gateway import NOW_MS, InMemoryGateway

RIVAL = "rival"
RUNNER_TOKEN = "ilr_of_acme"
HOOK_SECRET = b"secret-of-the-hook"
PARTS = ("rows", "runners", "cursors", "tickets")
"""What `--break` takes out of action: the ledger's check of the tenant, the lanes' check of the runner, the cursors'
check of their stream, and the single use of tickets."""
MISSING = {"RIVAL": "NOBDY", "rival": "nobdy", WORDS: "nobodys-own-words"}
TRIED = {"a2a": ("_a2a",), "acp": ("_acp",), "mcp": ("_mcp",), "runner": ("_runner",), "stream": ("_streams",),
         server.REST: ("_tickets", "_cursors", "_hook", "_open_paths")}
"""The steps of the trial for each door of the listener."""


def _paths(fits: Callable[[Any], bool]) -> tuple[str, ...]:
    return tuple("/v1" + one.path.format(**IDS) for one in OPERATIONS if fits(one))


STREAMS = _paths(lambda one: one.streams and "{" in one.path)
"""The streams that name an object; the others are read as PAGES."""
PAGES = _paths(lambda one: one.method == "GET" and not {"cursor", "since"}.isdisjoint(one.query))
OWN_STREAMS = ("/v1/events", "/v1/audit")
"""Pages whose cursors belong to one tenant, although the path names none."""


class Trial:
    """Tries, compares and counts."""

    def __init__(self) -> None:
        self.tried = dict[str, int]()
        self.leaks: list[str] = []
        self.seen_by_rival = 0
        """Answers in which the rival itself sees its words by the same request, else the trial would show nothing."""
        self.accepted = 0
        """The rival's own cursors, tickets and link that are accepted."""

    async def run(self) -> None:
        """Try every door."""
        inside = InMemoryGateway()
        keys, rival = await inside.tenant("acme", ("admin",)), await inside.tenant(RIVAL, ("admin",))
        await populate(inside, RIVAL)
        await inside.ledger.commit(WriteBatch([Put(RunnerRecord(
            runner_id="rnr_acme", tenant_id="acme", token_sha256=digest(RUNNER_TOKEN), device_name="acme",
            created_ms=NOW_MS, last_seen_ms=NOW_MS))]))
        inside.front.hooks.configure({"acme": ConfiguredHook(
            "acme", "acme", "shell", "token", HOOK_SECRET, "{body}", SESSION_KEY)})
        pushes = TaskPushes(inside.ledger, inside.engine.viewers, inside.clock,
                            TaskPushSender(Ed25519PrivateKey.generate(), _NoOutgoing()),
                            inside.front.access.credentials.state_of)
        async with inside.listening(pushes) as port:
            own, theirs = Person(port, keys["admin"]), Person(port, rival["admin"])
            for door in (*server.DOORS, server.REST):
                self._covers("door", TRIED, (door,))
                for step in TRIED.get(door, ()):
                    before = await _rows(inside)
                    try:
                        async with asyncio.timeout(PATIENCE_S):
                            await getattr(self, step)(own, theirs)
                    except TimeoutError:
                        self.leaks.append(f"{step}: a request has no answer, as one about a missing object has")
                    if (after := await _rows(inside)) != before:
                        self.leaks.append(f"{step}: the rival's rows have changed: {before} {after}")
            received = await named_by_runner(port, IDS["runner_id"], "ilr_rival", IDS["session_id"], in_hello=True,
                                             in_frames=False)
            self.accepted += IDS["session_id"] in received
            await own.http.aclose()
            await theirs.http.aclose()
        await inside.close()

    def _covers(self, kind: str, tried: Collection[str], published: Collection[str]) -> None:
        """Report what is published and not tried: a new method, tool or door."""
        if missing := sorted(set(published) - set(tried)):
            self.leaks.append(f"not tried: {kind} {', '.join(missing)}")

    async def _compare(self, door: str, ask: Callable[[Any], Awaitable[Any]], request: Any,
                       again: Callable[[Any], Awaitable[Any]] | None = None) -> None:
        """Compare the answer to a request that names the rival's objects with that about missing ones; `again` is the
        same as the rival itself."""
        self.tried[door] = self.tried.get(door, 0) + 1
        first, second = _text(await ask(request)), _text(await ask(_missing(request)))
        if WORDS in first and WORDS not in json.dumps(request):
            self.leaks.append(f"{door} {request}: {first}")
        if _without_ids(_missing(first)) != _without_ids(_missing(second)):
            self.leaks.append(f"{door} {request}: {first} differs from {second}")
        if again is not None:
            self.seen_by_rival += WORDS in _text(await again(request))

    async def _a2a(self, own: Person, theirs: Person) -> None:
        task, context = IDS["command_id"], WORDS
        message = {"messageId": "message-0001", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        push = {"taskId": task, "url": "https://push.example/x", "id": "mine"}
        requests: list[tuple[str, dict[str, Any]]] = [
            ("GetTask", {"id": task, "historyLength": 9}), ("CancelTask", {"id": task}),
            ("SubscribeToTask", {"id": task}),
            *(("ListTasks", {"contextId": one, "historyLength": 9}) for one in (
                context, IDS["session_id"], SESSION_KEY, f"{IDS['session_id']}/frames", "../commands/" + task)),
            *(("SendMessage", {"message": {**message, **named}}) for named in (
                {"taskId": task}, {"contextId": context}, {"contextId": IDS["session_id"]},
                {"taskId": task, "contextId": context})),
            ("SendMessage", {"message": message, "metadata": {"interlock": {"runner": IDS["runner_id"]}}}),
            ("SendStreamingMessage", {"message": {**message, "taskId": task}}),
            ("CreateTaskPushNotificationConfig", push), ("GetTaskPushNotificationConfig", push),
            ("ListTaskPushNotificationConfigs", push), ("DeleteTaskPushNotificationConfig", push),
            ("ListTasks", {"historyLength": 9}), (a2a.EXTENDED_CARD, {}),
        ]
        self._covers("A2A method", [method for method, _ in requests], [*a2a.METHODS, a2a.EXTENDED_CARD])
        for method, params in requests:
            await self._compare("A2A", lambda asked, method=method: own.rpc("/a2a/shell", method, asked), params,
                                lambda asked, method=method: theirs.rpc("/a2a/shell", method, asked)
                                if method in ("GetTask", "ListTasks") else _nothing())
        for verb, pattern, method in a2a.HTTP_PATHS:
            path = re.sub(r"\(\?P<(\w+)>[^)]*\)", task, pattern.pattern)
            body = dict(requests)[method] if verb == "POST" else None
            await self._compare("A2A", own.a2a_http, {"method": verb, "path": f"/a2a/shell{path}", "body": body})

    async def _acp(self, own: Person, theirs: Person) -> None:
        requests: tuple[tuple[str, dict[str, Any]], ...] = (
            ("session/load", {}), ("session/resume", {}), ("session/close", {}), ("session/delete", {}),
            ("session/set_mode", {"modeId": "x"}), ("session/set_config_option", {"configId": "x", "value": "x"}),
            ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}), ("session/new", {}), ("authenticate", {}))
        self._covers("ACP method", [*(method for method, _ in requests), "initialize", "session/list"], AcpDoor.METHODS)
        for query in ("?agent=shell", f"?agent=shell&runner={IDS['runner_id']}"):
            async with own.acp(query) as ask, theirs.acp(query) as as_rival:
                for named in (SESSION_KEY, IDS["session_id"]):
                    for method, more in requests:
                        params: dict[str, Any] = {"sessionId": named, "cwd": f"/{WORDS}", "mcpServers": [], **more}
                        await self._compare("ACP", lambda asked, method=method, ask=ask: ask(method, asked), params)
                await self._compare("ACP", lambda asked, ask=ask: ask("session/list", asked), {},
                                    lambda asked, ask=as_rival: ask("session/list", asked))

    async def _mcp(self, own: Person, theirs: Person) -> None:
        session, task, approval = IDS["session_id"], IDS["command_id"], IDS["approval_id"]
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_agents", {}), ("list_sessions", {}), ("list_sessions", {"search": WORDS}), ("list_approvals", {}),
            ("read_transcript", {"session": session}), ("list_approvals", {"session": session}),
            ("start_task", {"agent": "shell", "prompt": "x", "session": session}),
            ("start_task", {"agent": "shell", "prompt": "x", "runner": IDS["runner_id"]}),
            ("task_status", {"task": task}), ("wait_for_task", {"task": task, "within_s": 1}),
            *(("steer_task", {"task": task, "how": how}) for how in ("pause", "resume", "cancel")),
            ("explain_approval", {"approval": approval}), ("propose_rule", {"approval": approval}),
            ("ask_for_decision", {"approval": approval}), ("search_audit", {"session": session}),
            ("search_audit", {"who": f"user:{WORDS}"}), ("search_audit", {"task": task}),
        ]
        async with own.mcp() as call, theirs.mcp() as as_rival:
            self._covers("MCP tool", [name for name, _ in calls], await own.mcp_tools())
            for name, arguments in calls:
                changes = name in ("start_task", "steer_task")
                await self._compare("MCP", lambda asked, name=name: call(name, asked), arguments,
                                    None if changes else lambda asked, name=name: as_rival(name, asked))

    async def _streams(self, own: Person, theirs: Person) -> None:
        async with own.socket() as follow, theirs.socket() as as_rival:
            for path in STREAMS:
                await self._compare("stream", follow, path, as_rival)
        for path in STREAMS:
            await self._compare("stream", lambda asked: own.first_event(asked), path, theirs.first_event)

    async def _cursors(self, own: Person, theirs: Person) -> None:
        """Read on from the rival's cursors: those of its streams are refused, those of lists show nothing of it."""
        for path in PAGES:
            found = await theirs.get(path, limit=1)
            cursor = found.json().get("next_cursor") if found.status_code == 200 else None
            if cursor is None:
                continue
            self.tried["cursor"] = self.tried.get("cursor", 0) + 1
            name = "cursor" if "cursor" in _query_of(path) else "since"
            self.accepted += (await theirs.get(path, **{name: cursor})).status_code == 200
            answer = await own.get(path, **{name: cursor})
            wanted = (404,) if "RIVAL" in path else (400,) if path in OWN_STREAMS else (200,)
            if WORDS in answer.text or answer.status_code not in wanted:
                self.leaks.append(f"{path} from {cursor}: {answer.status_code} {answer.text}")
        for forged in ("AAAA", "0" * 20, cursors.cursor("commands", IDS["command_id"]),
                       cursors.stream_cursor("t/rival", 1)):
            answer = await own.get("/v1/events", since=forged)
            if answer.status_code != 400:
                self.leaks.append(f"/v1/events accepts {forged}: {answer.status_code}")

    async def _tickets(self, own: Person, theirs: Person) -> None:
        """Open streams by tickets: each once, on its own path, as the person who requested it."""
        bare = Person(own.port, None)
        for path in STREAMS:
            await self._compare("ticket", lambda asked: _by_ticket(own, bare, asked), path,
                                lambda asked: _by_ticket(theirs, bare, asked))
            spent = await theirs.ticket(path)
            self.accepted += (await bare.first_event(path, ticket=spent))[0] == 200
            for used, where in ((spent, path), (await theirs.ticket(path), "/v1/events"), (spent[:-1] + "x", path)):
                self.tried["ticket"] += 1
                answer = await bare.first_event(where, ticket=used)
                if answer[0] != 401 or WORDS in answer[1]:
                    self.leaks.append(f"a ticket opened {where}: {answer}")
        await bare.http.aclose()

    async def _hook(self, own: Person, _theirs: Person) -> None:
        """Deliver to a hook whose key is that of the rival's session: it is a key of the hook's own tenant."""
        for name, secret in (("acme", HOOK_SECRET.decode()), ("acme", "wrong"), (RIVAL, HOOK_SECRET.decode())):
            self.tried["hook"] = self.tried.get("hook", 0) + 1
            headers = {"Authorization": f"Bearer {secret}"}
            answer = await own.http.post(f"/v1/hooks/{name}", content=b"x", headers=headers)
            wanted = 503 if (name, secret) == ("acme", HOOK_SECRET.decode()) else 401
            if answer.status_code != wanted or WORDS in answer.text.replace(SESSION_KEY, ""):
                self.leaks.append(f"hook {name}: {answer.status_code} {answer.text}")

    async def _open_paths(self, own: Person, _theirs: Person) -> None:
        """Read what is outside the table of operations: it shows nothing of any tenant."""
        for path in (*app.OPEN_PATHS, "/", console_pages.BASE, f"/a/{IDS['approval_id']}"):
            self.tried["open path"] = self.tried.get("open path", 0) + 1
            answer = await own.get(path)
            if WORDS in answer.text or (path == "/metrics" and answer.status_code != 403):
                self.leaks.append(f"{path}: {answer.status_code} {answer.text}")

    async def _runner(self, own: Person, _theirs: Person) -> None:
        """Name the rival's session as a runner of acme: in hello and in every kind of frame."""
        session_id = IDS["session_id"]
        for runner_id, token in (("rnr_acme", RUNNER_TOKEN), (IDS["runner_id"], RUNNER_TOKEN)):
            for in_hello in (True, False):
                self.tried["runner"] = self.tried.get("runner", 0) + 1
                received = await named_by_runner(own.port, runner_id, token, session_id, in_hello=in_hello,
                                                 in_frames=True)
                if session_id in received or WORDS in received:
                    self.leaks.append(f"the runner {runner_id} received {received}")


class _NoOutgoing:
    def check(self, url: str) -> None:
        pass

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        return OutboundResponse(204, b"")


async def _nothing() -> str:
    return ""


async def _by_ticket(person: Person, bare: Person, path: str) -> Any:
    return await bare.first_event(path, ticket=await person.ticket(path))


async def _rows(inside: InMemoryGateway) -> list[Any]:
    """What the rival has that a stranger could change."""
    ledger, session_id = inside.ledger, IDS["session_id"]
    record = await ledger.session(session_id)
    command = await ledger.command(IDS["command_id"], RIVAL)
    approval = await ledger.approval(IDS["approval_id"], RIVAL)
    by_strangers = [one for one in await ledger.audit(RIVAL, 0, 10_000) if b"acme" in one.body]
    return [inside.engine.lanes.peek(session_id) is not None,
            record and (record.state, record.tenant_id, record.runner_id, record.machine),
            command and command.command.state, approval and approval.approval.state,
            await ledger.head(RIVAL, session_stream(session_id)), len(by_strangers),
            len(await ledger.deliveries(RIVAL, "pending", 100))]


def _query_of(path: str) -> tuple[str, ...]:
    return app.api_routes().find("GET", path.removeprefix("/v1")).operation.query


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


def _missing(request: Any) -> Any:
    """Put ids that no one has in place of the rival's."""
    text = json.dumps(request)
    for theirs, missing in MISSING.items():
        text = text.replace(theirs, missing)
    return json.loads(text)


def _without_ids(text: str) -> str:
    """Leave out instants and generated ids."""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=_)[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{32}|(?<=id: )[0-9a-f]+", "-", text)


@contextmanager
def out_of_action(broken: str | None) -> Generator[None]:
    """Break one of PARTS on purpose."""
    patches: dict[str, tuple[tuple[Any, str, Any], ...]] = {
        "rows": tuple((MemoryLedger, name, _tenantless(name)) for name in ("command", "approval")),
        "runners": ((Lanes, "of_runner", _of_any_runner),),
        "cursors": ((cursors, "number", _from_the_start),),
        "tickets": ((Tickets, "spend", _spent_again()),),
    }
    with ExitStack() as stack:
        for owner, name, planted in patches[broken] if broken is not None else ():
            stack.enter_context(patch.object(owner, name, planted))
        yield


def _tenantless(name: str) -> Callable[..., Awaitable[Any]]:
    """Return a read of the ledger that ignores the tenant."""
    table = f"_{name}s"

    async def read(ledger: MemoryLedger, row_id: str, _tenant_id: str | None = None) -> Any:
        return getattr(ledger, table).get(row_id)

    return read


async def _of_any_runner(lanes: Lanes, session_id: str, _runner_id: str, fresh: LaneState | None = None
                         ) -> LaneShell | None:
    return await lanes.lane(session_id, fresh)


def _from_the_start(_stream: str, _text: str, _name: str = "since") -> int:
    return 0


def _spent_again() -> Callable[..., Awaitable[Any]]:
    """Return `Tickets.spend` with a ticket that is not used up, on any path."""
    spend, spent = Tickets.spend, dict[str, Any]()

    async def again(tickets: Tickets, ticket: str, path: str) -> Any:
        if ticket not in spent:
            spent[ticket] = await spend(tickets, ticket, path)
        return spent[ticket]

    return again


def run(_seed: int, _rounds: int | None, broken: str | None = None) -> bool:
    """Run the trial and print what it counted."""
    trial = Trial()
    with out_of_action(broken):
        asyncio.run(trial.run())
    counts = ", ".join(f"{door} {count}" for door, count in trial.tried.items())
    print(f"requests by door: {counts}: {len(trial.leaks)} leaks; the rival sees its own words in "
          f"{trial.seen_by_rival} answers, and {trial.accepted} of its own cursors, tickets and links are accepted")
    print("\n".join(trial.leaks[:20]))
    return not trial.leaks and trial.seen_by_rival > 0
