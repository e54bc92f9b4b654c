"""Proofs from the audit log over REST verify by themselves, and a missing record is refused in a sentence (U-3,
U-5)."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.small_gateway.running import Gateway

from interlock.command.audit.audit_tree import continues, includes
from interlock.command.audit.note import is_genuine, parse_checkpoint

pytestmark = pytest.mark.anyio
PUBLIC = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()


async def got(gateway: Gateway, path: str, **query: Any) -> Any:
    answer = await gateway.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.req("U-3", "U-5")
async def test_a_checkpoint_and_its_proofs_verify_offline(gateway: Gateway) -> None:
    await gateway.desk.audit(300)
    answer = await gateway.http.get("/v1/audit/checkpoint")
    assert answer.headers["Content-Type"].startswith("text/plain")
    earlier = parse_checkpoint(answer.text)
    assert is_genuine(earlier, PUBLIC)
    assert earlier.size == 300
    await gateway.desk.audit(123)
    later = parse_checkpoint((await gateway.http.get("/v1/audit/checkpoint")).text)
    proved = await got(gateway, "/v1/audit/proof/consistency", first=300)
    proof = [bytes.fromhex(one) for one in proved["proof"]]
    assert continues(300, earlier.root, 423, later.root, proof)
    for seq in (1, 256, 257, 423):
        proved = await got(gateway, "/v1/audit/proof/inclusion", seq=seq)
        proof = [bytes.fromhex(one) for one in proved["proof"]]
        assert includes(bytes.fromhex(proved["hash"]), seq - 1, 423, proof, later.root)
        assert not includes(bytes.fromhex(proved["hash"]), seq, 423, proof, later.root)
    assert (await got(gateway, "/v1/audit/proof/inclusion", seq=3, size=300))["root"] == earlier.root.hex()


@pytest.mark.req("U-5")
@pytest.mark.parametrize(("path", "status"), [
    ("inclusion", 400), ("inclusion?seq=0", 400), ("inclusion?seq=9", 404), ("inclusion?seq=1&size=99", 404),
    ("consistency", 400), ("consistency?first=4&second=3", 400), ("consistency?first=1&second=99", 404),
])
async def test_a_proof_of_a_missing_record_is_refused_in_one_sentence(gateway: Gateway, path: str, status: int) -> None:
    await gateway.desk.audit(3)
    answer = await gateway.http.get("/v1/audit/proof/" + path)
    assert answer.status_code == status
    assert answer.json()["detail"]
