"""Over REST: an agent's question is answered, a session's context compacted; both once, even if sent several times."""

from __future__ import annotations

import msgspec
import pytest

from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
KEY = {"Idempotency-Key": "a-key-of-sixteen-characters"}


@pytest.mark.req("C-8", "M-1")
async def test_a_question_is_answered_once(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", kind="question", input=msgspec.Raw(b'{"question":"which"}'))
    async with gateway.as_role("operator") as someone:
        path = "/v1/approvals/apr_1/answers"
        first = await someone.post(path, json={"text": "the left one"}, headers=KEY)
        again = await someone.post(path, json={"text": "the left one"}, headers=KEY)
        assert (first.status_code, first.json()["answer"]) == (200, "the left one")
        assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
        for body in ({}, {"text": 3}, {"text": "x", "more": 1}):
            wrong = await someone.post(path, json=body, headers={"Idempotency-Key": "b-key-of-sixteen-characters"})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "InvalidPayload")
    async with gateway.as_role("viewer") as someone:
        assert (await someone.post(path, json={"text": "x"}, headers=KEY)).status_code == 403


@pytest.mark.req("T-6", "M-1")
async def test_a_compaction_is_requested_once_and_followed_from_its_cursor(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with gateway.as_role("operator") as someone:
        path = "/v1/sessions/s1/compact"
        first = await someone.post(path, json={"instructions": "keep names"}, headers=KEY)
        assert first.status_code == 202
        response = first.json()
        assert (response["session_id"], response["message_id"]) == ("s1", "m-1")
        page = await someone.get("/v1/sessions/s1/frames", params={"since": response["cursor"]})
        assert (page.status_code, page.json()["events"]) == (200, [])
        again = await someone.post(path, json={"instructions": "keep names"}, headers=KEY)
        assert again.content == first.content
        refused = await someone.post(path, json={"instructions": "nothing"},
                                     headers={"Idempotency-Key": "b-key-of-sixteen-characters"})
        assert refused.status_code == 409
        assert (await someone.post("/v1/sessions/none/compact", headers=KEY)).status_code == 404
