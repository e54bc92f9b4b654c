"""RACP: approvals, audit, credentials, error codes. Played against our gateway by a client written from the text."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from proof.independent_peers import forms
from proof.independent_peers.gateway_sessions import state, turn
from proof.independent_peers.peer_client import Answer, Document, Person
from proof.independent_peers.racp_commands import AT_ONCE, command, posted, refused, until
from proof.independent_peers.stage import BURST, COMMANDS_A_DAY, Stage
from proof.independent_peers.table import Play, must, play, unless

PLAYS: list[Play] = []
racp = partial(play, PLAYS)
NO_KEY = ("/healthz", "/readyz", "/openapi.json", "/login-issuers")
"""The answers that need no key: that the gateway serves, what it offers, and how to log in."""


# --- approvals ---

@racp("RACP Approval", "gateway", "required 2: no grant, one, two; GET /commands/:id/approval each time")
async def pending_until_granted(stage: Stage) -> str:
    async with stage.client(f"two-{id(stage)}") as (client, target):
        asker, people = await stage.person(), [await stage.person("approver") for _ in range(2)]
        made = await posted(asker, command(target))
        inbox = (await people[0].found("/approvals?state=pending&limit=200"))["items"]
        approval = next(item for item in inbox if item.get("command_id") == made["id"])
        for grants in range(3):
            shown = await asker.found(f"/commands/{made['id']}/approval")
            unless(forms.unlike("approval", shown))
            must(len(shown["grants"]) == grants, f"{len(shown['grants'])} grants, not {grants}")
            now = (await asker.found(f"/commands/{made['id']}"))["state"]
            pending = shown["required"] > len(shown["grants"])
            must((now == "pending_approval") is pending, f"{grants} of {shown['required']} grants, and it is {now}")
            if pending:
                await client.nothing("control.session.open", 0.2)
                voted = await people[grants].post(f"/approvals/{approval['id']}/grants",
                                                  {"decision": "grant", "method": "acl", "digest": approval["digest"]})
                must(voted.status in (200, 201), f"the vote: {voted.status} {voted.body}")
        await client.end(await client.begun())
        did = state(await asker.ended(made["id"]), "succeeded")
        return f"pending_approval with 0 and 1 of 2; behind the second {did}"


@racp("RACP sequence", "gateway", "POST, approval request, approve, dispatch, heartbeat/progress/result, stream")
async def the_sequence_of_the_text(stage: Stage) -> str:
    async with stage.client(f"one-{id(stage)}") as (client, target):
        person = await stage.person()
        made = await posted(person, command(target))
        must(made["state"] == "pending_approval", f"the command is {made['state']}")
        await person.post(f"/approvals/{made['approval_id']}/grants", {"decision": "grant"})
        turn_id = await client.begun()
        streaming = asyncio.create_task(person.stream(f"/commands/{made['id']}/status"))
        await client.send_text(turn_id, "hello")
        await client.end(turn_id)
        state(await person.ended(made["id"]), "succeeded")
        streamed = [event["event"] for event in await streaming]
        must("result" in streamed, f"the stream had {streamed}")
        records = [each for each in await audit(stage) if each.get("command_id") == made["id"]]
        actions = [each["action"] for each in records if each["action"] in forms.RACP["audit"]["action"].split("|")]
        must("enqueue" in actions and actions[-2:] == ["start", "complete"] and "approve" in actions[:-2],
             f"the audit log has {actions}")
        return f"stream: {', '.join(streamed)}; audit: {', '.join(actions)}"


# --- audit ---

async def audit(stage: Stage) -> list[Document]:
    """All records of the log, in order."""
    found: list[Document] = []
    since = ""
    while True:
        page = await stage.owner.found(f"/audit?limit=500{since}")
        found += [item["record"] for item in page["items"]]
        if not page["has_more"]:
            return found
        since = f"&since={page['next_cursor']}"


@racp("RACP Audit", "gateway", "the records of an approved, a rejected and a failed command")
async def records_have_the_form(stage: Stage) -> str:
    async with stage.client(f"one-a{id(stage)}") as (client, target):
        person = await stage.person()
        ids: list[str] = []
        for vote, reason in (("grant", "error"), ("deny", "")):
            made = await posted(person, command(target))
            ids.append(made["id"])
            await person.post(f"/approvals/{made['approval_id']}/grants", {"decision": vote})
            if reason:
                await client.end(await client.begun(), reason)
                state(await person.ended(made["id"]), "failed")
        await until(person, ids[1], "rejected")
        async with turn(stage) as at:
            await at.client.end(at.turn_id)
            await at.ended()
            ids.append(at.command["id"])
        actions = forms.RACP["audit"]["action"].split("|")
        records = [each for each in await audit(stage) if each.get("command_id") in ids and each["action"] in actions]
        unless(misfit for each in records for misfit in forms.unlike("audit", each, without=("meta",)))
        must(all(isinstance(each.get("meta", {}), dict) for each in records), "meta is not an object")
        seen = {each["action"] for each in records}
        must(seen == set(actions), f"of the actions there is {sorted(seen)}")
        return f"{len(records)} records in the form, all six actions"


@racp("RACP Audit", "gateway", "append-only: read twice with commands between; PUT, PATCH, DELETE and POST on it")
async def the_log_only_grows(stage: Stage) -> str:
    person = await stage.person("auditor")
    before = (await person.found("/audit?limit=20"))["items"]
    async with turn(stage) as at:
        await at.client.end(at.turn_id)
        await at.ended()
    after = (await person.found("/audit?limit=20"))["items"]
    must(before and after[:len(before)] == before, "a record that was there reads otherwise")
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        for path in ("/audit", f"/audit/{before[0]['record']['id']}"):
            answer = await stage.owner.ask(method, path, {})
            must(answer.status in (404, 405), f"{method} {path}: {answer.status}")
    records = [item["record"] for item in before]
    hashes = [item["hash"] for item in before]
    must(all(record["prev"] == last for record, last in zip(records[1:], hashes, strict=False)),
         "the records are not chained by their hashes")
    return "what was there reads the same; every change is 404 or 405; each record names the hash before it"


# --- credentials ---

@racp("RACP security", "gateway", "each path of /openapi.json without a key, and with a wrong one")
async def every_path_needs_a_key(stage: Stage) -> str:
    paths = (await stage.owner.found("/openapi.json"))["paths"]
    calls = [(method.upper(), path.replace("{", "").replace("}", "")) for path, operations in paths.items()
             for method in operations if method in ("get", "post", "patch", "delete", "put")
             and path.removeprefix("/v1") not in (*NO_KEY, "/runners/pair") and not path.startswith("/v1/hooks")
             and (method, path) != ("post", "/v1/browser-sessions")]  # A login brings its key or code in its body.
    open_ones: list[str] = []
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(person: Person, method: str, path: str) -> None:
        async with turns:
            answer = await person.ask(method, path, {} if method != "GET" else None)
            if answer.status != 401:
                open_ones.append(f"{method} {path}: {answer.status}")

    for key in (None, "ilk_wrong"):
        person = Person(stage.port, key, stage.broken.answer)
        await asyncio.gather(*(one(person, method, path) for method, path in calls))
    must(not open_ones, "; ".join(open_ones[:5]))
    return f"401 Unauthorized {2 * len(calls)} times"


@racp("RACP security", "gateway", "a key of another tenant: the command, its status, its session, the lists")
async def a_tenant_sees_its_own_alone(stage: Stage) -> str:
    tenant = f"org-{id(stage)}"
    made = await stage.owner.post("/tenants", {"tenant_id": tenant})
    must(made.status in (200, 201), f"POST /tenants: {made.status} {made.body}")
    other = await stage.person("admin", tenant=tenant)
    async with turn(stage) as at:
        for path in (f"/commands/{at.command['id']}", f"/commands/{at.command['id']}/status",
                     f"/sessions/{at.client.session_id}"):
            answer = await other.get(path)
            must(answer.status == 404, f"GET {path} from another tenant: {answer.status}")
        must((await other.found("/commands"))["items"] == [], "the other tenant lists commands")
        await at.client.end(at.turn_id)
        await at.ended()
    return "404 each, and empty lists"


# --- error codes ---

@racp("RACP errors", "gateway", "Unauthorized, Forbidden, InvalidPayload, UnsupportedCapability, Conflict, NotFound")
async def refusals_have_their_codes(stage: Stage) -> str:
    person, viewer = await stage.person(), await stage.person("viewer")
    async with turn(stage) as at:
        refused(await Person(stage.port, None).get("/commands"), "Unauthorized")
        refused(await viewer.post("/commands", command({"session_id": at.client.session_id})), "Forbidden")
        refused(await person.post("/commands", command({"session_id": at.client.session_id}, "explode")),
                "InvalidPayload")
        refused(await person.post("/commands", b"{"), "InvalidPayload")
        refused(await person.post("/commands", command({"agent_id": "a_123", "session_id": "s_456"})), "NotFound")
        await at.client.end(at.turn_id)
        await at.ended()
        refused(await person.post(f"/sessions/{at.client.session_id}/compact", {}), "UnsupportedCapability")
        refused(await person.post("/commands", command({"session_id": at.client.session_id}, "pause")), "Conflict")
    return "each is answered"


@racp("RACP errors", "gateway", "ApprovalRequired: a verb that policy holds; UpstreamError: a service that is away")
async def waiting_and_failing_commands_have_codes(stage: Stage) -> str:
    person = await stage.person()
    async with turn(stage) as at:
        await at.client.end(at.turn_id)
        await at.ended()
        refused(await person.post(f"/sessions/{at.client.session_id}/reset", {}), "ApprovalRequired")
    refused(await person.post("/webhooks/dead/test", {}), "UpstreamError")
    return "each is answered"


@racp("RACP errors", "gateway", "RateLimited: one principal asks too often; QuotaExceeded: too many commands a day")
async def limits_have_their_codes(stage: Stage) -> str:
    hasty, busy = await stage.person(), await stage.person()
    turns = asyncio.Semaphore(AT_ONCE)

    async def one() -> Answer:
        async with turns:
            return await hasty.get("/whoami")

    answers = await asyncio.gather(*(one() for _ in range(BURST + 200)))
    limited = [answer for answer in answers if answer.status != 200]
    must(limited, f"{len(answers)} requests at once are answered")
    refused(limited[0], "RateLimited")
    async with stage.client() as (client, target):
        await posted(busy, command(target))
        await client.opened()
        answer = await busy.post("/commands", command({"session_id": client.session_id}))
        for _ in range(COMMANDS_A_DAY):
            if answer.status >= 400:
                break
            answer = await busy.post("/commands", command({"session_id": client.session_id}))
        refused(answer, "QuotaExceeded")
    return f"RateLimited behind {len(answers) - len(limited)} requests, QuotaExceeded behind {COMMANDS_A_DAY} commands"


@racp("RACP errors", "gateway", "InternalError, and every code of the list, in what the server says of itself")
async def every_code_is_declared(stage: Stage) -> str:
    document_codes = json.dumps(await stage.owner.found("/openapi.json"))
    missing = [code for code in (*forms.ERROR_CODES, "IdempotencyKeyInUse")
               if f'"{code}"' not in document_codes and code not in ("Canceled",)]
    must(not missing, f"/openapi.json does not name {', '.join(missing)}")
    return "/openapi.json names them; InternalError cannot be played from outside"
