"""The short form of proof S5: schemathesis drives a gateway from its own document."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lazily import lazily
from small_gateway.running import Gateway

schema = lazily("proof.protocol.api_schema")


@pytest.mark.req("F-1", "F-2")
@pytest.mark.anyio
async def test_valid_and_invalid_requests_of_every_operation_get_documented_responses(
    gateway: Gateway, tmp_path: Path
) -> None:
    await gateway.desk.add_session("s1")
    await gateway.desk.add_approval("apr_1")
    known = {"session_id": "s1", "approval_id": "apr_1", "command_id": await gateway.execute()}
    # The check sends more refused credentials in a second than their rate limit allows.
    checks = [check for check in schema.CHECKS if check != "ignored_auth"]
    found = await asyncio.to_thread(schema.drive, gateway.base, "ilk_default_owner", known, seed=5, examples=1,
                                    phases="fuzzing", place=tmp_path, checks=checks)
    assert found.passed, found.says
    assert len({label for label, _, _ in found.answers}) > 50
    assert {200, 400} <= {status for _, status, _ in found.answers}
