"""Over REST: an audit log without a matching checkpoint is accepted by an auditor, which is recorded (U-3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.small_gateway.desk import SmallDesk
from tests.small_gateway.running import Gateway, running

from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.gateway.audit.checkpoints import CheckpointSigner

pytestmark = pytest.mark.anyio


async def got(gateway: Gateway, path: str, **query: Any) -> Any:
    answer = await gateway.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.req("U-3", "U-1")
async def test_a_log_without_checkpoints_is_accepted_by_an_auditor_on_record(tmp_path: Path) -> None:
    desk = SmallDesk()
    await desk.audit(3)
    desk.ledger._room.begun.clear()  # pyright: ignore[reportPrivateUsage] - as if another process had written them
    desk.signer = CheckpointSigner(desk.ledger, Ed25519PrivateKey.generate(), "gw_1", CheckpointFiles(tmp_path),
                                   desk.signing)
    await desk.signer.sign()
    async with running(10, desk=desk) as gateway, gateway.as_role("operator") as operator:
        now = await got(gateway, "/v1/audit/signing")
        assert (now["size"], now["kept"]) == (3, [])
        assert "No checkpoint of the log of default is left" in now["unsigned"]
        body = {"size": 3, "root": now["root"], "reason": "moved"}
        headers = {"Idempotency-Key": "an-operator-may-not"}
        assert (await operator.post("/v1/audit/resume", json=body, headers=headers)).status_code == 403
        assert (await gateway.post("/v1/audit/resume", {**body, "root": "0"})).status_code == 400
        wrong = await gateway.post("/v1/audit/resume", {**body, "root": "0" * 64})
        assert (wrong.status_code, wrong.json()["code"]) == (409, "Conflict")
        done = await gateway.post("/v1/audit/resume", body, key="one-key-for-the-same")
        assert (done.status_code, done.json()) == (200, {"accepted": 3}), done.text
        again = await gateway.post("/v1/audit/resume", body, key="one-key-for-the-same")
        assert again.json() == done.json()
        assert (await got(gateway, "/v1/audit/signing"))["unsigned"] is None
        other = await gateway.post("/v1/audit/resume", body)
        assert (other.status_code, "nothing to accept" in other.json()["detail"]) == (409, True)
        acceptances = [json.loads(one.body) for one in await desk.ledger.audit("default", 3, 10)
                   if b'"audit_resume"' in one.body]
        assert [(one["who"]["id"], one["meta"]["accepted"], one["meta"]["root"]) for one in acceptances] == [
            ("user:owner", 3, now["root"])]
