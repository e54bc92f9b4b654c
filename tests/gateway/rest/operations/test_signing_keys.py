"""Over REST: a page registers a passkey, which is listed and revoked like any key for votes (J-17)."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from authenticator import SoftAuthenticator
from gateway.rest.test_routes import refused
from interlock.ports.ledger import Put
from interlock.protocol.clock import iso
from interlock.protocol.records import SigningKeyRecord
from interlock.protocol.resources import Actor, PasskeyBody, SigningKey
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-17")]
PAGE = "https://ok.example"


async def register(gateway: Gateway, body: PasskeyBody, origin: str | None = PAGE) -> httpx2.Response:
    headers = {"Origin": origin} if origin is not None else {}
    fields: dict[str, Any] = msgspec.to_builtins(body)
    return await gateway.post("/v1/passkeys", {name: one for name, one in fields.items() if one is not None},
                              headers=headers)


async def test_a_passkey_is_registered_for_the_caller_listed_audited_and_revoked(gateway: Gateway) -> None:
    soft = SoftAuthenticator(origin=PAGE)
    answer = await register(gateway, soft.registration("user:owner", iso(NOW)))
    assert answer.status_code == 201, answer.text
    key = answer.json()
    assert (key["owner"]["id"], key["label"]) == ("owner", "phone")
    assert key["passkey"] == {"credential_id": soft.credential_id, "origin": PAGE}
    refused(await register(gateway, soft.registration("user:owner", iso(NOW))), "Conflict")
    listed = (await gateway.http.get("/v1/signing-keys")).json()["signing_keys"]
    assert [one["key_id"] for one in listed] == [key["key_id"]]
    records = [msgspec.json.decode(one.body) for one in await gateway.desk.ledger.audit("default", 0, 100)]
    (meta,) = [one["meta"] for one in records if one["action"] == "key_rotate"]
    assert (meta["change"], meta["origin"], meta["signing_key"]) == ("registered", PAGE, key["key_id"])
    revoked = await gateway.post(f"/v1/signing-keys/{key['key_id']}/revoke", {})
    assert revoked.json()["revoked_at"] is not None


async def test_a_key_that_has_an_id_of_an_earlier_version_is_not_registered_again(gateway: Gateway) -> None:
    body = SoftAuthenticator(origin=PAGE).registration("user:owner", iso(NOW))
    earlier = SigningKey(key_id="sgk_0123456789abcdef", tenant_id="default", owner=Actor(type="user", id="owner"),
                         public_key=body.public_key, label="phone", created_at=iso(NOW))
    await gateway.desk.commit([Put(SigningKeyRecord(key=earlier))])
    problem = refused(await register(gateway, body), "Conflict")
    assert problem["detail"] == "The key sgk_0123456789abcdef is registered already."


@pytest.mark.parametrize("how", [
    {"owner": "user:mallory"}, {"flags": 0x01}, {"host": "evil.example"}, {"at": iso(NOW - 6 * 60_000)},
    {"origin": "https://evil.example"},
])
async def test_a_registration_without_fresh_user_verification_is_refused(
    gateway: Gateway, how: dict[str, Any]
) -> None:
    body = SoftAuthenticator(origin=PAGE).registration(**{"owner": "user:owner", "at": iso(NOW), **how})
    refused(await register(gateway, body), "Forbidden")


@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:1"])
async def test_neither_a_program_nor_another_origin_can_register_a_passkey(
    gateway: Gateway, origin: str | None
) -> None:
    soft = SoftAuthenticator(origin=PAGE)
    refused(await register(gateway, soft.registration("user:owner", iso(NOW)), origin),
            "Forbidden")


@pytest.mark.parametrize("changes", [{"public_key": "aGk="}, {"credential_id": "a b"}, {"at": "noon"}])
async def test_an_unreadable_registration_is_refused_with_its_place(gateway: Gateway, changes: dict[str, Any]) -> None:
    soft = SoftAuthenticator(origin=PAGE)
    body = soft.registration("user:owner", iso(NOW))
    refused(await register(gateway, msgspec.structs.replace(body, **changes)), "InvalidPayload")
