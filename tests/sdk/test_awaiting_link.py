"""The awaiting shell by itself: what it sends, how long it sleeps, and which parts of a response it passes to the
flows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock.sdk import RetryPolicy, Unreachable, problems
from interlock.sdk.awaiting_link import AsyncLink
from interlock.sdk.exchange import UPLOAD_BYTES
from interlock.sdk.requests import commands, gateway, transcripts

pytestmark = pytest.mark.anyio
STEADY = RetryPolicy(attempts=3, draw=lambda: 1.0)
Answer = Callable[[httpx2.Request], httpx2.Response]


class Far:
    """A gateway that answers in order; the requests it received, and the slept durations."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[httpx2.Request] = []
        self.bodies: list[bytes] = []
        self.slept: list[float] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        self.bodies.append(await request.aread())
        return self.answers.pop(0)(request)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def link(self, key: Any = "ilk_k") -> AsyncLink:
        return AsyncLink("https://gw.example/base", key, STEADY, in_clear=False, tls=True,
                         transport=httpx2.MockTransport(self), sleep=self.sleep, clock=lambda: 0.0)


def ok(body: bytes = b'{"ok":true}', status: int = 200, **headers: str) -> Answer:
    return lambda _: httpx2.Response(status, content=body, headers=headers)


def cut(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadError("reset by peer")


async def test_a_request_is_sent_below_the_gateways_url_with_its_credential() -> None:
    far = Far(ok())
    assert (await far.link().answer(gateway.alive())).ok
    [sent] = far.sent
    assert str(sent.url) == "https://gw.example/base/healthz"
    assert sent.headers["Authorization"] == "Bearer ilk_k"


@pytest.mark.req("M-1")
async def test_it_sleeps_between_attempts_and_keeps_the_idempotency_key() -> None:
    far = Far(cut, cut, ok(b'{"code":"Conflict","detail":"no"}', 409))
    with pytest.raises(problems.Conflict):
        await far.link().answer(commands.cancel("cmd_1"))
    assert far.slept == [0.25, 0.5]
    assert len({sent.headers["Idempotency-Key"] for sent in far.sent}) == 1


async def test_a_gateway_that_never_answers_is_one_sentence() -> None:
    with pytest.raises(Unreachable, match="No gateway answers GET /healthz"):
        await Far(cut, cut, cut).link().answer(gateway.alive())


async def test_a_refusal_has_its_headers() -> None:
    far = Far(ok(b'{"code":"Timeout"}', 504, Location="/v1/commands/c"))
    with pytest.raises(problems.Timeout) as caught:
        await far.link().answer(commands.submit("ls", agent="shell", wait_s=1))
    assert caught.value.location == "/v1/commands/c"
    assert far.sent[0].headers["Prefer"] == "wait=1"


@pytest.mark.req("Y-11")
async def test_a_key_is_requested_for_each_request_and_a_gateway_may_move() -> None:
    far, keys = Far(ok(), ok()), iter(["one", "two"])
    link = far.link(lambda: next(keys))
    await link.answer(gateway.alive())
    link.move_to("https://other.example")
    await link.answer(gateway.alive())
    assert [sent.headers["Authorization"] for sent in far.sent] == ["Bearer one", "Bearer two"]
    assert far.sent[1].url.host == "other.example"
    await link.close()


@pytest.mark.req("X-6")
async def test_a_file_is_sent_piece_by_piece_from_its_beginning_at_each_attempt(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"x" * (2 * UPLOAD_BYTES + 7))
    far = Far(cut, ok(b'{"code":"QuotaExceeded","detail":"full"}', 422))
    with pytest.raises(problems.QuotaExceeded):
        await far.link().answer(transcripts.upload(file, "shell"))
    assert [len(body) for body in far.bodies] == [file.stat().st_size] * 2
    assert far.sent[1].headers["Content-Type"] == "application/x-ndjson"
