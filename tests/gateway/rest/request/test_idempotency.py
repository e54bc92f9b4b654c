"""The storm of equal requests, in a small form (M-1)."""

import pytest

from proof.sessions.idempotency_storm import storm
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("M-1", "M-2")]


async def test_equal_requests_at_once_make_one_command_and_other_bodies_are_refused(gateway: Gateway) -> None:
    seen = await storm(gateway.http, 4, 25, {"agent_id": "shell"})
    assert seen.wrong == []
    assert seen.commands == 4
    assert set(seen.answers) <= {202, 409}
