"""Hooks: a delivery with the secret is accepted once, one without it is refused without details (R-4)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from engine.test_chats import ChatTable
from interlock.app.hooks import cron_jobs, open_hooks
from interlock.backends.memory.ledger import MemoryLedger
from interlock.channels.webhook import signature
from interlock.command.policy.policy import RuleSet
from interlock.config import ConfigError, parse
from interlock.engine.presence import Present
from interlock.gateway.hooks import SAME_MS, ConfiguredHook, proves
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.records import TenantRecord
from small_gateway.desk import SmallDesk
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
SECRET = b"a secret of a hook"
BODY = b'{"pull": {"title": "Fix it"}}'
NOW = 1_800_000_000_000


def hook(**more: Any) -> ConfiguredHook:
    return ConfiguredHook(**{"name": "github", "tenant_id": "default", "agent_id": "shell", "auth": "hmac",
                             "secret": SECRET,
                             "message": "Pull request: {/pull/title}", **more})


def signed(body: bytes = BODY, secret: bytes = SECRET, **more: str) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(), **more}


@asynccontextmanager
async def serving_hook(
    policy: RuleSet | None = None, **fields: Any
) -> AsyncIterator[tuple[Gateway, ChatTable, SmallDesk]]:
    """A gateway with the hook `github` before the engine's own chats."""
    table, desk = ChatTable(policy) if policy is not None else ChatTable(), SmallDesk()
    assert isinstance(table.ledger, MemoryLedger)
    desk.ledger, desk.chats, desk.doors = table.ledger, table.engine.chats, {"github": hook(**fields)}
    async with running(60, desk=desk) as gateway:
        yield gateway, table, desk


async def post_hook(gateway: Gateway, body: bytes = BODY, name: str = "github", **headers: str) -> Any:
    bare = {"Authorization": ""} if "Authorization" not in headers else {}
    return await gateway.http.post(f"/v1/hooks/{name}", content=body, headers={**bare, **headers})


@pytest.mark.req("R-4", "I-2")
async def test_a_delivery_becomes_a_command_of_a_session_of_its_own() -> None:
    async with serving_hook() as (gateway, table, _):
        first = await post_hook(gateway, **signed())
        assert first.status_code == 202, first.text
        result = first.json()
        assert result["session_key"].startswith("agent:shell:hook:")
        assert first.headers["location"] == f"/v1/commands/{result['command_id']}"
        assert await table.prompt(result["command_id"]) == "Pull request: Fix it"
        record = await table.ledger.command(result["command_id"], "default")
        assert record is not None
        assert (record.origin, record.command.actor.id) == ("hook", "hook:github")
        other = await post_hook(gateway, b"{}", **signed(b"{}"))
        assert other.json()["session_key"] != result["session_key"]


@pytest.mark.req("R-4")
async def test_a_hook_with_a_key_has_one_session_and_is_held_by_default() -> None:
    async with serving_hook(RuleSet([]), key="hook:github") as (gateway, table, _):
        first, second = [(await post_hook(gateway, body, **signed(body))).json() for body in (b"1", b"2")]
        assert first["session_key"] == second["session_key"] == "agent:shell:hook:github"
        assert first["session_id"] == second["session_id"]
        assert await table.state(first["command_id"]) == "pending_approval"


@pytest.mark.req("R-4")
async def test_the_same_body_within_ten_minutes_is_the_same_delivery() -> None:
    async with serving_hook() as (gateway, table, desk):
        table.clock.at_ms = desk.at_ms = NOW + SAME_MS // 2
        first = await post_hook(gateway, **signed())
        desk.at_ms += SAME_MS - 1  # In another span of ten minutes, and still within ten of the first.
        again = await post_hook(gateway, **signed())
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"
        desk.at_ms += 1
        assert (await post_hook(gateway, **signed())).json()["command_id"] != first.json()["command_id"]
        at_once = await asyncio.gather(*(post_hook(gateway, b"x", **signed(b"x")) for _ in range(5)))
        assert len({one.content for one in at_once}) == 1


@pytest.mark.req("R-4")
async def test_numbered_deliveries_are_deduplicated_by_number_permanently() -> None:
    async with serving_hook(delivery_header="X-GitHub-Delivery") as (gateway, _, desk):
        first = await post_hook(gateway, **signed(**{"X-GitHub-Delivery": "17"}))
        desk.at_ms += 5 * SAME_MS
        again = await post_hook(gateway, **signed(**{"X-GitHub-Delivery": "17"}))
        other = await post_hook(gateway, **signed(**{"X-GitHub-Delivery": "18"}))
        assert first.content == again.content != other.content
        changed = await post_hook(gateway, b"{}", **signed(b"{}", **{"X-GitHub-Delivery": "17"}))
        assert (changed.status_code, changed.json()["code"]) == (422, "IdempotencyKeyReused")
        long = await post_hook(gateway, **signed(**{"X-GitHub-Delivery": "1" * 300}))
        assert (long.status_code, long.json()["code"]) == (400, "InvalidPayload")


@pytest.mark.req("R-4", "K-1")
async def test_a_hook_of_a_suspended_tenant_starts_nothing_until_it_is_restored() -> None:
    async with serving_hook(tenant_id="other") as (gateway, table, _):
        other = TenantRecord(tenant_id="other", name="", created_ms=NOW)
        await table.ledger.commit(WriteBatch([Put(replace(other, suspended=True))]))
        refused = await post_hook(gateway, **signed())
        assert (refused.status_code, refused.json()["code"]) == (401, "Unauthorized")
        moved = replace(other, moved_to="https://there.example")
        await table.ledger.commit(WriteBatch([Put(moved)]))
        sent_on = await post_hook(gateway, **signed())
        assert (sent_on.status_code, sent_on.headers["location"]) == (421, "https://there.example")
        assert await table.ledger.sessions("other", 10) == []
        await table.ledger.commit(WriteBatch([Put(other)]))
        assert (await post_hook(gateway, **signed())).json()["code"] == "Unavailable", "its tenant has no runner"


@pytest.mark.req("R-4", "U-1")
async def test_every_wrong_secret_gets_the_same_refusal() -> None:
    async with serving_hook() as (gateway, table, _):
        refused = [await post_hook(gateway, **headers) for headers in (
            {}, signed(secret=b"another"), signed(b"other body"), {"X-Hub-Signature-256": "sha256=zz"},
            {"X-Hub-Signature-256": ""}, {"Authorization": "Bearer ilk_default_owner"})]
        refused.append(await post_hook(gateway, name="nobody", **signed()))
        assert {(one.status_code, one.json()["code"], one.json()["detail"]) for one in refused} == {
            (401, "Unauthorized", "There is no such hook, or its secret is another.")}
        assert await table.ledger.sessions("default", 10) == []
        assert len(await table.audits("auth_denied")) == 1
        for _ in range(80):
            last = await post_hook(gateway)
        assert (last.status_code, last.json()["code"]) == (429, "RateLimited")
        assert (await post_hook(gateway, **signed())).status_code == 202


@pytest.mark.req("R-4")
async def test_a_wrong_method_a_large_body_and_an_offline_agent_are_refused() -> None:
    async with serving_hook() as (gateway, table, _):
        got = await gateway.http.get("/v1/hooks/github")
        assert (got.status_code, got.headers["allow"]) == (405, "POST")
        large = await post_hook(gateway, b"x" * (MAX_BODY_BYTES + 1), **signed())
        assert (large.status_code, large.json()["code"]) == (413, "PayloadTooLarge")
        table.engine.presence.detach("local", table.wire, 0)
        unserved = await post_hook(gateway, **signed())
        result = unserved.json()
        assert (unserved.status_code, result["code"], result["retryable"]) == (503, "Unavailable", True)
        assert "No runner that is online offers agent shell" in result["detail"]
        assert int(unserved.headers["retry-after"]) > 0  # The sender is to deliver it again.
        table.engine.presence.arrive(Present(table.record, table.hello, 0)).connect(table.wire)
        assert (await post_hook(gateway, **signed())).status_code == 202  # A delivery that did not begin is not stored.


@pytest.mark.req("R-4")
def test_secrets_are_accepted_in_four_forms() -> None:
    mac = hmac.digest(SECRET, BODY, hashlib.sha256)
    for given in (mac.hex(), mac.hex().upper(), "sha256=" + mac.hex(), base64.b64encode(mac).decode()):
        assert proves(hook(signature_header="X-Mac"), {"x-mac": given}, BODY, NOW)
    assert not proves(hook(), {"x-hub-signature-256": mac.hex()}, BODY + b" ", NOW)
    token = hook(auth="token")
    assert proves(token, {"authorization": f"Bearer {SECRET.decode()}"}, BODY, NOW)
    assert not proves(token, {"authorization": SECRET.decode()}, BODY, NOW)
    assert not proves(token, {}, BODY, NOW)
    own = hook(auth="token", token_header="X-Gitlab-Token")
    assert proves(own, {"x-gitlab-token": SECRET.decode()}, BODY, NOW)
    assert not proves(own, {"authorization": f"Bearer {SECRET.decode()}"}, BODY, NOW)
    assert not proves(own, {"x-gitlab-token": ""}, BODY, NOW)
    standard, seconds = hook(auth="standard"), str(NOW // 1000)
    standard_headers = {"webhook-id": "m1", "webhook-timestamp": seconds,
                        "webhook-signature": "v1,bad " + signature(SECRET, "m1", seconds, BODY)}
    assert proves(standard, standard_headers, BODY, NOW)
    assert not proves(standard, standard_headers, BODY, NOW + 301_000)
    assert not proves(standard, {**standard_headers, "webhook-id": "m2"}, BODY, NOW)
    assert not proves(standard, {**standard_headers, "webhook-timestamp": "9" * 5000}, BODY, NOW)


@pytest.mark.req("R-4", "G-1")
def test_hooks_and_jobs_are_read_from_the_config_and_errors_are_reported(tmp_path: Any) -> None:
    (tmp_path / "github.secret").write_text("0123456789abcdef\n")
    config = parse("""
[agents.claude]
adapter = "acp"

[hooks.github]
secret_file = "github.secret"
delivery_header = "X-GitHub-Delivery"

[hooks.deploy]
auth = "token"
secret_env = "DEPLOY"
agent = "Shell"
key = "hook:deploy"

[cron.report]
schedule = "0 9 * * 1-5"
time_zone = "Asia/Seoul"
message = "write the report"
""", "f")
    hooks = open_hooks(config, tmp_path, {"DEPLOY": "fedcba9876543210"})
    assert (hooks["github"].agent_id, hooks["github"].secret, hooks["deploy"].key) == (
        "claude", b"0123456789abcdef", "hook:deploy")
    assert hooks["deploy"].agent_id == "shell"
    job = cron_jobs(config)[0]
    assert (job.key, job.zone_name, job.agent_id) == ("agent:claude:cron:report", "Asia/Seoul", "claude")
    with pytest.raises(ConfigError, match=r"\[hooks.deploy\]: secret_env DEPLOY: there is no such variable"):
        open_hooks(config, tmp_path, {})
    (tmp_path / "github.secret").write_text("short")
    with pytest.raises(ConfigError, match=r"\[hooks.github\]: secret_file github.secret has 5 characters"):
        open_hooks(config, tmp_path, {"DEPLOY": "fedcba9876543210"})
    for text, sentence in (
        ('[cron.x]\nschedule = "0 9 * *"\nmessage = "m"\n', 'f:2: "schedule" in [cron.x]: '),
        ('[cron.x]\nschedule = "0 9 * * *"\nmessage = "m"\ntime_zone = "Mars"\n', 'there is no time zone'),
        ('[cron.x]\nschedule = "0 9 * * *"\n', "needs the key"),
        ('[cron."a b"]\nschedule = "0 9 * * *"\nmessage = "m"\n', "is not an id for a cron job"),
        ('[hooks.x]\n', "secret_file"), ('[hooks.x]\nsecret_env = "A"\nmessage = "{nme}"\n', "there is no {nme}"),
        ('[hooks.x]\nsecret_env = "A"\nkey = "a b"\n', "a session key has"),
        ('[hooks.x]\nsecret_env = "A"\nagent = "A B"\n', "is not an agent id"),
    ):
        with pytest.raises(ConfigError) as result:
            parse(text, "f")
        assert sentence in str(result.value), result.value


@pytest.mark.req("R-4")
async def test_jobs_are_listed_and_run_by_hand_once_per_request() -> None:
    config = parse('[cron.report]\nschedule = "0 9 * * *"\nmessage = "go"\nagent = "shell"\ntime_zone = "UTC"\n', "f")
    table, desk = ChatTable(), SmallDesk()
    assert isinstance(table.ledger, MemoryLedger)
    desk.ledger, desk.chats, desk.jobs = table.ledger, table.engine.chats, cron_jobs(config)
    async with running(60, desk=desk) as gateway:
        listed = (await gateway.http.get("/v1/cron")).json()["items"]
        assert [(one["id"], one["session_key"], one["next_at"][11:16]) for one in listed] == [
            ("report", "agent:shell:cron:report", "09:00")]
        result = await gateway.post("/v1/cron/report/run", {}, key="a-key-of-a-request")
        again = await gateway.post("/v1/cron/report/run", {}, key="a-key-of-a-request")
        assert result.status_code == 202, result.text
        assert result.content == again.content
        assert await table.prompt(result.json()["command_id"]) == "go"
        after = (await gateway.http.get("/v1/cron")).json()["items"][0]
        assert (after["command_id"], after["next_at"]) == (result.json()["command_id"], listed[0]["next_at"])
        assert (await gateway.post("/v1/cron/none/run", {})).status_code == 404
        async with gateway.as_role("viewer") as viewer:
            assert (await viewer.get("/v1/cron")).status_code == 200
            refused = await viewer.post("/v1/cron/report/run", json={}, headers={"Idempotency-Key": "k" * 16})
            assert refused.status_code == 403
        async with gateway.as_role("owner", "other") as other:
            assert (await other.get("/v1/cron")).json() == {"items": []}
