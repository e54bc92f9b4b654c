"""Operations on commands and their status (racp sections 1 and 4)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Sequence
from operator import attrgetter

import msgspec
from starlette.types import ASGIApp

from interlock.command.approval import counted_votes
from interlock.command.machine import TERMINAL
from interlock.engine.bridge.commands.prompts import title_of_payload
from interlock.engine.router import Route
from interlock.engine.viewers.stream_items import Durable, Item
from interlock.gateway.rest import cursors, streams
from interlock.gateway.rest.answers import HttpResponse, encode, json_answer, raw_answer
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import CommandQuery
from interlock.protocol.answers import CommandPage, StatusPage
from interlock.protocol.api import commands as api
from interlock.protocol.identifiers import command_stream
from interlock.protocol.limits import WAIT_MAX_S
from interlock.protocol.problems import Problem
from interlock.protocol.records import CommandRecord, IdempotencyRecord
from interlock.protocol.resources import Command, CommandApproval, CommandBody
from interlock.protocol.resources.commands import COMMON_FIELDS

LIST = "list/commands"
_common_fields = attrgetter(*COMMON_FIELDS)


async def find(call: ApiRequest) -> CommandRecord:
    """Return the command of the path; another tenant's and a missing one are the same NotFound (K-1)."""
    command_id = call.path["command_id"]
    record = await call.front.desk.ledger.command(command_id, call.principal.tenant_id)
    if record is None:
        raise Problem("NotFound", f"There is no command {command_id}.", hint="List them with `GET /v1/commands`.")
    return record


async def submit(call: ApiRequest) -> ASGIApp:
    """POST /commands."""
    memory = call.memory
    assert memory is not None

    def remember(command: Command) -> IdempotencyRecord:
        headers = {"Location": f"/v1/commands/{command.id}", **_ignored(call)}
        return memory.keep(202, encode(command), headers, command.id)

    if call.body.type == "execute" and call.front.access.quotas.limited:
        async with call.front.access.quotas.counted(call.principal):
            command = await call.front.desk.submit(call.principal, call.body, remember, call.ahead)
    else:
        command = await call.front.desk.submit(call.principal, call.body, remember, call.ahead)
    answer = memory.record or remember(command)
    return raw_answer(answer.body, answer.status, answer.headers)


def seek(call: ApiRequest) -> Awaitable[Route] | None:
    """Find the session of a command while its stored response is read."""
    if call.front.ask is None:  # No other gateway can own it.
        return None
    return call.front.desk.seek(call.principal, call.body, guess=call.guess)


async def waited(call: ApiRequest, answer: ASGIApp) -> ASGIApp:
    """`Prefer: wait=N` (RFC 7240): 200 once the command has ended within N seconds. Raises Problem Timeout."""
    preferences = headers_of(call.request.scope).get(b"prefer")
    wait_s = preferred_wait_s(preferences) if preferences else None
    if wait_s is None or not isinstance(answer, HttpResponse) or answer.status != 202:
        return answer
    location = answer.header(b"location")
    command_id = location.rpartition("/")[2]
    with contextlib.suppress(TimeoutError):
        joining = call.front.desk.viewers.join(call.principal.tenant_id, command_stream(command_id), 0,
                                                  reader=call.reader)
        async with asyncio.timeout(wait_s), joining as viewer:
            async for burst in viewer:
                last = max((item.n for item in burst if isinstance(item, Durable)), default=0)
                if await _is_over(call, command_id, last):
                    break
    record = await call.front.desk.ledger.command(command_id, call.principal.tenant_id)
    assert record is not None
    if record.command.state not in TERMINAL:
        raise Problem("Timeout", f"The command {command_id} has not ended within {wait_s} s; it continues.",
                      hint=f"Send the same again to go on waiting, or follow {location}/status.",
                      headers={"Location": location})
    return json_answer(record.command, 200, {"Location": location, "Preference-Applied": f"wait={wait_s}",
                                             **_ignored(call)})


def ignored(body: CommandBody) -> Sequence[str]:
    """Return the common fields of a body that the gateway sets itself."""
    return [name for name, value in zip(COMMON_FIELDS, _common_fields(body), strict=True) if value is not msgspec.UNSET]


def _ignored(call: ApiRequest) -> dict[str, str]:
    """Return the header that lists the fields of the body without effect (RACP's common fields)."""
    return {"Interlock-Ignored-Fields": ", ".join(call.ignored)} if call.ignored else {}


def preferred_wait_s(preferences: Sequence[str]) -> int | None:
    """Read `wait` of `Prefer`, at most WAIT_MAX_S; None if it is absent or not a number: then it has no effect."""
    for preference in ",".join(preferences).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait" and re.fullmatch(r"[0-9]{1,9}", value.strip().strip('"')):
            return min(WAIT_MAX_S, int(value.strip().strip('"')))
    return None


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /commands."""
    limit = call.number("limit")
    before = call.query("cursor")
    query = CommandQuery(
        call.principal.tenant_id,
        call.choice("state"),
        call.query("agent"),
        call.query("session"),
        _actor_id(call.query("actor")),
        cursors.place(LIST, before, "cursor") if before else None,
        limit + 1,
        call.choice("type"),
    )
    records = await call.front.desk.ledger.commands(query)
    has_more = len(records) > limit
    items = [_listed(record.command) for record in records[:limit]]
    return json_answer(CommandPage(items, cursors.cursor(LIST, items[-1].id) if has_more else None, has_more))


def _listed(command: Command) -> Command:
    """Return a command as in a list: the payload, which may be large, is replaced by its title."""
    payload, is_prompt = command.payload, command.type == "execute"
    title = title_of_payload(bytes(payload)) if is_prompt and payload is not msgspec.UNSET else ""
    return msgspec.structs.replace(command, payload=msgspec.UNSET, title=title or None)


def _actor_id(text: str | None) -> str | None:
    """Parse `actor` as a command has it, or as events and votes name actors: `kim`, `user:kim`."""
    kind, colon, name = (text or "").partition(":")
    return name if colon and kind in ("user", "agent") else text


async def show(call: ApiRequest) -> ASGIApp:
    """GET /commands/{id}."""
    return json_answer((await find(call)).command)


async def approval(call: ApiRequest) -> ASGIApp:
    """GET /commands/{id}/approval."""
    command = (await find(call)).command
    held = await call.front.desk.ledger.approval(command.approval_id, command.tenant_id) \
        if command.approval_id else None
    if held is None:
        return json_answer(CommandApproval(command_id=command.id, required=0, grants=[]))
    votes = [vote for vote in counted_votes(held.approval) if vote.decision == "grant"]
    grants = [{"by": vote.by, "at": vote.at, "method": vote.method} for vote in votes]
    return json_answer(CommandApproval(command_id=command.id, required=held.approval.required, grants=grants))


async def status(call: ApiRequest) -> ASGIApp:
    """GET /commands/{id}/status."""
    record = await find(call)
    command_id = record.command.id
    wanted = await streams.asked(call, command_stream(command_id), f"/v1/commands/{command_id}")
    over = await _is_over(call, command_id, wanted.after)
    if not wanted.sse:
        return await _poll(call, command_id, wanted, over)
    if over:
        return streams.nothing_more()

    newest = record

    async def finished(burst: Sequence[Item]) -> bool:
        nonlocal newest
        newest = await call.front.desk.ledger.command(command_id, call.principal.tenant_id) or newest
        last = max((item.n for item in burst if isinstance(item, Durable)), default=wanted.after)
        return await _is_over(call, command_id, last)

    def beat() -> bytes:
        heartbeat = call.front.desk.heartbeat(newest)
        return streams.event("heartbeat", encode(heartbeat)) if heartbeat else streams.KEEP_ALIVE

    def render(item: Item) -> bytes | None:
        if not isinstance(item, Durable):
            return None
        return streams.event(_name(item.body), item.body, cursors.stream_cursor(wanted.stream, item.n))

    joining = call.front.desk.viewers.join(call.principal.tenant_id, wanted.stream, wanted.after,
                                              reader=call.reader)
    return streams.EventStream(joining, streams.each(render), beat, call.front.heartbeat_s, finished)


async def _poll(call: ApiRequest, command_id: str, wanted: streams.StreamQuery, over: bool) -> ASGIApp:
    page = await streams.page(call, wanted, wait=not over)
    record = await call.front.desk.ledger.command(command_id, call.principal.tenant_id)
    assert record is not None
    heartbeat = call.front.desk.heartbeat(record)
    state = record.command.state
    # The command may have ended since the page was read: a reader that stops at `terminal` must not miss its end.
    last = cursors.number(wanted.stream, page.next_cursor)
    has_more = page.has_more or (state in TERMINAL and not await _is_over(call, command_id, last))
    return json_answer(StatusPage(
        [msgspec.Raw(item.body) for item in page.items if isinstance(item, Durable)],
        page.next_cursor, has_more, state, state in TERMINAL, heartbeat.at if heartbeat else None,
    ))


async def _is_over(call: ApiRequest, command_id: str, after: int) -> bool:
    """Return whether the command has ended and nothing of its stream follows `after`."""
    ledger = call.front.desk.ledger
    record = await ledger.command(command_id, call.principal.tenant_id)
    return record is not None and record.command.state in TERMINAL and await ledger.head(
        call.principal.tenant_id, command_stream(command_id)) <= after


class _Named(msgspec.Struct, frozen=True):
    event: str = "state"


_named = msgspec.json.Decoder(_Named)


def _name(body: bytes) -> str:
    return _named.decode(body).event


HANDLERS: tuple[Handler, ...] = (
    Handler(api.SUBMIT_COMMAND, submit, ahead=seek, then=waited),
    Handler(api.LIST_COMMANDS, listing),
    Handler(api.GET_COMMAND, show),
    Handler(api.GET_STATUS, status),
    Handler(api.GET_COMMAND_APPROVAL, approval),
)
