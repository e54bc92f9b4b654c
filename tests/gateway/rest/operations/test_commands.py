"""Commands over HTTP: accepted once, listed in pages, followed from a cursor."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from interlock.gateway.rest import streams
from interlock.gateway.rest.operations.commands import preferred_wait_s
from interlock.ports.ledger import PutCommand
from interlock.protocol.resources import Vote
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
BODY = {"type": "execute", "target": {"agent_id": "shell"}, "payload": {"messages": [], "x": 1.5}}


@pytest.mark.req("C-0")
@pytest.mark.parametrize("path", ["/v1/commands", "/commands"])
async def test_a_command_is_accepted_with_202_and_its_location(gateway: Gateway, path: str) -> None:
    answer = await gateway.post(path, BODY)
    command = answer.json()
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/v1/commands/{command['id']}"
    shown = await gateway.http.get(answer.headers["Location"])
    assert shown.json() == command
    assert command["payload"] == BODY["payload"]
    assert command["priority"] == 0
    assert command["actor"] == {"type": "user", "id": "owner"}
    assert command["idempotency_key"].startswith("test-key")


@pytest.mark.req("M-1", "M-2")
async def test_the_same_key_returns_the_same_bytes(gateway: Gateway) -> None:
    first = await gateway.post("/v1/commands", BODY, "same-key-same-answer")
    spaced = b'{ "target": {"agent_id":"shell"}, "payload": {"x":1.50,"messages":[]}, "type": "execute" }'
    again = await gateway.post("/commands", spaced, "same-key-same-answer")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert gateway.desk.made == 1


@pytest.mark.req("M-1", "F-1")
async def test_a_key_with_another_body_is_refused_and_its_scope_is_the_principals(gateway: Gateway) -> None:
    await gateway.post("/v1/commands", BODY, "one-key-two-bodies")
    reused = await gateway.post("/v1/commands", {**BODY, "priority": 1}, "one-key-two-bodies")
    assert (reused.status_code, reused.json()["code"]) == (422, "IdempotencyKeyReused")
    async with gateway.as_role("operator") as operator:
        other = await operator.post("/v1/commands", json={**BODY, "priority": 1},
                                    headers={"Idempotency-Key": "one-key-two-bodies"})
    assert other.status_code == 202


@pytest.mark.req("M-1", "F-1")
async def test_a_key_in_flight_is_409_with_retry_after(gateway: Gateway) -> None:
    gateway.desk.gate = asyncio.Event()
    running = asyncio.ensure_future(gateway.post("/v1/commands", BODY, "a-key-in-flight-1"))
    await gateway.desk.entered.wait()
    busy = await gateway.post("/v1/commands", BODY, "a-key-in-flight-1")
    assert (busy.status_code, busy.json()["code"]) == (409, "IdempotencyKeyInUse")
    assert busy.headers["Retry-After"] == "1"
    other = await gateway.post("/v1/commands", {**BODY, "priority": 2}, "a-key-in-flight-1")
    assert other.status_code == 422
    gateway.desk.gate.set()
    assert (await running).status_code == 202
    assert gateway.desk.made == 1


@pytest.mark.req("M-1", "F-1")
@pytest.mark.parametrize(
    ("key", "body", "code"),
    [
        ("", BODY, "IdempotencyKeyMissing"),
        ("c6b2a..", BODY, "InvalidPayload"),
        ("a key with a space in it", BODY, "InvalidPayload"),
        ("x" * 256, BODY, "InvalidPayload"),
        ("the-header-says-this", {**BODY, "idempotency_key": "the-body-says-that"}, "InvalidPayload"),
    ],
)
async def test_a_malformed_idempotency_key_is_refused(gateway: Gateway, key: str, body: object, code: str) -> None:
    answer = await gateway.post("/v1/commands", body, key)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


@pytest.mark.req("M-1")
async def test_the_key_may_be_in_the_body(gateway: Gateway) -> None:
    body = {**BODY, "idempotency_key": "a-key-in-the-body"}
    first = await gateway.post("/v1/commands", body, "")
    again = await gateway.post("/v1/commands", body, "a-key-in-the-body")
    assert first.status_code == 202
    assert again.content == first.content


@pytest.mark.req("M-1")
async def test_the_example_key_of_the_draft_is_accepted(gateway: Gateway) -> None:
    assert (await gateway.post("/v1/commands", BODY, "c6b2a...")).status_code == 202


COMMON = {"id": "cmd_01HXXX...", "created_at": "2025-09-06T10:00:00Z", "tenant_id": "org_abc",
          "actor": {"type": "user", "id": "u_123"}}


@pytest.mark.req("C-0", "M-1")
async def test_common_fields_in_a_body_are_ignored_and_the_answer_names_them(gateway: Gateway) -> None:
    answer = await gateway.post("/v1/commands", {**COMMON, **BODY}, "c6b2a...")
    command = answer.json()
    assert answer.status_code == 202
    assert answer.headers["Interlock-Ignored-Fields"] == "id, created_at, tenant_id, actor"
    assert not any(command[name] == given for name, given in COMMON.items())
    later = {**COMMON, **BODY, "created_at": "2025-09-06T10:00:05Z"}
    again = await gateway.post("/v1/commands", later, "c6b2a...")
    assert again.content == answer.content
    assert again.headers["Interlock-Ignored-Fields"] == "id, created_at, tenant_id, actor"
    bare = await gateway.post("/v1/commands", BODY)
    assert "Interlock-Ignored-Fields" not in bare.headers


@pytest.mark.req("C-0", "M-1")
async def test_an_integer_may_be_written_with_a_fraction(gateway: Gateway) -> None:
    plain = {**BODY, "priority": 1, "timeout_ms": 60000, "approval": {"required": 0}}
    floats = json.dumps({**plain, "priority": 1.0, "timeout_ms": 6e4, "approval": {"required": 0.0}}).encode()
    first = await gateway.post("/v1/commands", floats, "an-integral-float")
    assert first.status_code == 202
    again = await gateway.post("/v1/commands", plain, "an-integral-float")
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.req("C-0")
@pytest.mark.parametrize("wrong", [1.5, "1", True, None, 1e300])
async def test_a_value_that_is_not_an_integer_is_refused_with_its_place(gateway: Gateway, wrong: object) -> None:
    answer = await gateway.post("/v1/commands", {**BODY, "priority": wrong})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/priority"


@pytest.mark.req("M-2")
async def test_a_refusal_is_not_stored(gateway: Gateway) -> None:
    bad = await gateway.post("/v1/commands", {**BODY, "type": "dance"}, "first-bad-then-good")
    assert bad.status_code == 400
    gateway.desk.failure = RuntimeError("broken inside")
    broken = await gateway.post("/v1/commands", BODY, "first-bad-then-good")
    assert broken.status_code == 500
    gateway.desk.failure = None
    assert (await gateway.post("/v1/commands", BODY, "first-bad-then-good")).status_code == 202


@pytest.mark.req("C-5")
async def test_commands_are_listed_in_pages_newest_first(gateway: Gateway) -> None:
    made = [await gateway.execute() for _ in range(5)]
    await gateway.desk.finish(made[0])
    seen: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    while True:
        page = (await gateway.http.get("/v1/commands", params=query)).json()
        seen += [command["id"] for command in page["items"]]
        if not page["has_more"]:
            assert page["next_cursor"] is None
            break
        query["cursor"] = page["next_cursor"]
    assert seen == made[::-1]
    for name, value, count in (("state", "succeeded", 1), ("agent", "nobody", 0), ("session", "s1", 5),
                               ("actor", "owner", 5), ("actor", "user:owner", 5), ("actor", "agent:nobody", 0)):
        found = await gateway.http.get("/v1/commands", params={name: value})
        assert len(found.json()["items"]) == count, name
    assert (await gateway.http.get("/v1/commands?state=sleeping")).status_code == 400
    assert (await gateway.http.get("/v1/commands?cursor=bogus")).status_code == 400


@pytest.mark.req("K-1")
async def test_anothers_command_and_a_missing_one_are_the_same_404(gateway: Gateway) -> None:
    command_id = await gateway.execute()
    async with gateway.as_role("owner", "other") as other:
        for tail in ("", "/status", "/approval"):
            theirs = await other.get(f"/v1/commands/{command_id}{tail}")
            assert theirs.status_code == 404
            missing = (await gateway.http.get(f"/v1/commands/cmd_none{tail}")).json()
            assert theirs.json()["code"] == missing["code"] == "NotFound"


@pytest.mark.req("C-0")
async def test_the_approval_of_a_command_has_the_documented_shape(gateway: Gateway) -> None:
    command_id = await gateway.execute()
    answer = await gateway.http.get(f"/v1/commands/{command_id}/approval")
    assert answer.json() == {"command_id": command_id, "required": 0, "grants": []}
    votes = [Vote(by="user:kim", at="1", decision="grant", method="acl", withdrawn_at="2"),
             Vote(by="user:lee", at="3", decision="deny", method="acl"),
             Vote(by="user:ann", at="4", decision="grant", method="signature")]
    await gateway.desk.add_approval("apr_1", command_id=command_id, required=2, deny_threshold=2, votes=votes)
    held = await gateway.desk.ledger.command(command_id, "default")
    assert held is not None
    await gateway.desk.commit([PutCommand(msgspec.structs.replace(held, command=msgspec.structs.replace(
        held.command, approval_id="apr_1")))])
    answer = await gateway.http.get(f"/v1/commands/{command_id}/approval")
    # It waits while required > grants.length: withdrawn votes and denials are not grants.
    assert answer.json() == {"command_id": command_id, "required": 2,
                             "grants": [{"by": "user:ann", "at": "4", "method": "signature"}]}


@pytest.mark.req("S-1")
async def test_status_by_poll_continues_from_the_cursor(gateway: Gateway) -> None:
    command_id = await gateway.execute()
    path = f"/v1/commands/{command_id}/status"
    gateway.desk.beating.add(command_id)
    page = (await gateway.http.get(path)).json()
    assert [event["state"] for event in page["events"]] == ["queued"]
    assert (page["state"], page["terminal"], page["has_more"]) == ("queued", False, False)
    assert page["last_heartbeat_at"]
    waiting = asyncio.ensure_future(gateway.http.get(path, params={"since": page["next_cursor"], "wait": "20"}))
    while not gateway.desk.viewers.count():
        await asyncio.sleep(0)
    await gateway.desk.finish(command_id)
    more = (await waiting).json()
    assert [event["event"] for event in more["events"]] == ["state", "result"]
    assert more["terminal"] is True
    first = (await gateway.http.get(path, params={"limit": "1"})).json()
    assert (len(first["events"]), first["has_more"]) == (1, True)
    end = (await gateway.http.get(path, params={"since": more["next_cursor"], "wait": "30"})).json()
    assert end["events"] == []
    assert end["next_cursor"] == more["next_cursor"]


@pytest.mark.req("S-1", "S-2")
async def test_status_by_sse_closes_after_the_end_and_a_reconnect_gets_204(gateway: Gateway) -> None:
    command_id = await gateway.execute()
    path = f"/v1/commands/{command_id}/status"
    async with gateway.sse(path) as sse:
        assert sse.answer.headers["Content-Type"].startswith("text/event-stream")
        first = await sse.next()
        assert first is not None
        assert json.loads(first[2])["state"] == "queued"
        await gateway.desk.finish(command_id)
        ended, result = await sse.next(), await sse.next()
        assert ended is not None
        assert result is not None
        assert (ended[1], result[1]) == ("state", "result")
        assert await sse.next() is None
    async with gateway.sse(path + f"?since={result[0]}", **{"Last-Event-ID": str(first[0])}) as sse:
        assert await sse.next() == ended
        assert await sse.next() == result
        assert await sse.next() is None
    async with gateway.sse(path, **{"Last-Event-ID": str(result[0])}) as sse:
        assert sse.answer.status_code == 204


@pytest.mark.req("S-2")
@pytest.mark.parametrize("heartbeat_s", [0.02])
async def test_heartbeats_have_no_id_and_stop_when_the_runner_sends_none(gateway: Gateway, heartbeat_s: float) -> None:
    command_id = await gateway.execute()
    gateway.desk.beating.add(command_id)
    async with gateway.sse(f"/v1/commands/{command_id}/status") as sse:
        await sse.next()
        beat = await sse.next()
        assert beat is not None
        assert beat[:2] == (None, "heartbeat")
        assert json.loads(beat[2])["agent_id"] == "shell"
        gateway.desk.beating.clear()
        while (beat := await sse.next()) is not None and beat[1] == "heartbeat":
            pass
        assert beat == (None, "comment", "hb")


@pytest.mark.req("S-2", "F-1")
@pytest.mark.parametrize("query", ["since=bogus", "since=", "limit=0", "limit=501", "limit=x", "wait=31", "sinse=x",
                                   "limit=1&limit=2"])
async def test_a_query_outside_its_form_is_400(gateway: Gateway, query: str) -> None:
    command_id = await gateway.execute()
    answer = await gateway.http.get(f"/v1/commands/{command_id}/status?{query}")
    expected = 200 if query == "since=" else 400
    assert answer.status_code == expected, answer.text


@pytest.mark.req("S-2", "F-1")
async def test_a_cursor_of_another_stream_or_past_the_end_is_400(gateway: Gateway) -> None:
    one, two = await gateway.execute(), await gateway.execute()
    cursor = (await gateway.http.get(f"/v1/commands/{one}/status")).json()["next_cursor"]
    answer = await gateway.http.get(f"/v1/commands/{two}/status?since={cursor}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "since")


# --- Prefer: wait=N ---
EXECUTE = {"type": "execute", "target": {"agent_id": "shell"}}


@pytest.mark.req("F-1")
async def test_a_client_that_prefers_to_wait_gets_the_ended_command(gateway: Gateway) -> None:
    asking = asyncio.ensure_future(gateway.post("/v1/commands", EXECUTE, headers={"Prefer": "wait=20"}))
    async with gateway.desk.viewers.join("default", "c/cmd_00000000000000000000000001", 0) as viewer:
        await viewer.next(10)
    await gateway.desk.finish("cmd_00000000000000000000000001")
    answer = await asking
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.headers["location"] == f"/v1/commands/{answer.json()['id']}"


@pytest.mark.req("F-1", "M-1")
async def test_an_expired_wait_is_504_and_a_repetition_continues_it(gateway: Gateway) -> None:
    key, headers = "the-key-of-a-waiting-one", {"Prefer": "respond-async, wait=0"}
    ran_out = await gateway.post("/v1/commands", EXECUTE, key=key, headers=headers)
    problem = ran_out.json()
    assert (ran_out.status_code, problem["code"], problem["retryable"]) == (504, "Timeout", True)
    command_id = ran_out.headers["location"].rpartition("/")[2]
    await gateway.desk.finish(command_id)
    again = await gateway.post("/v1/commands", EXECUTE, key=key, headers=headers)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, command_id, "succeeded")
    assert gateway.desk.made == 1


@pytest.mark.parametrize(("header", "meant"), [
    (["wait=5"], 5), (['wait="5"'], 5), (["respond-async", "wait=7;x=1"], 7), (["WAIT=900"], 30), (["wait=soon"], None),
    (["wait=-1"], None), (["wait"], None), ([], None)])
def test_only_a_number_of_seconds_is_a_preference_to_wait(header: list[str], meant: int | None) -> None:
    assert preferred_wait_s(header) == meant


@pytest.mark.req("C-5", "Y-8")
async def test_a_list_has_the_first_line_of_each_prompt_and_no_payload(gateway: Gateway) -> None:
    part = {"contentType": "text", "value": "\n  Make   the release\nand more"}
    for payload in ({"messages": [{"role": "user", "content": [part]}]},
                    {"messages": [{"role": "user", "content": [{**part, "value": "x" * 5_000}]}]},
                    {"messages": [], "land": True}, {"messages": 7}):
        await gateway.execute(payload=payload)
    listed = (await gateway.http.get("/v1/commands")).json()["items"]
    assert [one.get("title") for one in listed] == [None, None, "x" * 79 + "…", "Make the release"]
    assert not any("payload" in one for one in listed)
    assert "title" not in (await gateway.http.get(f"/v1/commands/{listed[-1]['id']}")).json()


@pytest.mark.req("S-1", "S-2")
async def test_a_poll_overtaken_by_the_commands_end_has_more(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    command_id = await gateway.execute()
    path = f"/v1/commands/{command_id}/status"
    gather = streams.page

    async def overtaken(*asked: Any, **more: Any) -> Any:
        page = await gather(*asked, **more)
        await gateway.desk.finish(command_id)
        return page

    with monkeypatch.context() as patched:
        patched.setattr(streams, "page", overtaken)
        page = (await gateway.http.get(path)).json()
    assert (page["state"], page["terminal"], page["has_more"]) == ("succeeded", True, True)
    rest = (await gateway.http.get(path, params={"since": page["next_cursor"]})).json()
    assert ([event["event"] for event in rest["events"]], rest["has_more"]) == (["state", "result"], False)
