"""The blocking shell by itself: the same requests, on the thread that calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from interlock.sdk import RetryPolicy, Unreachable, problems
from interlock.sdk.blocking_link import BlockingLink
from interlock.sdk.exchange import UPLOAD_BYTES
from interlock.sdk.follower import download
from interlock.sdk.requests import commands, gateway, transcripts

QUICK = RetryPolicy(attempts=3, draw=lambda: -1.0)
Answer = Callable[[httpx2.Request], httpx2.Response]


class Far:
    """A gateway that answers in order, and what it was sent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[httpx2.Request] = []
        self.bodies: list[bytes] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        self.bodies.append(request.read())
        return self.answers.pop(0)(request)

    def link(self) -> BlockingLink:
        return BlockingLink("https://gw.example/base", "ilk_k", QUICK, in_clear=False, tls=True,
                            transport=httpx2.MockTransport(self))


def ok(body: bytes = b'{"ok":true}', status: int = 200, **headers: str) -> Answer:
    return lambda _: httpx2.Response(status, content=body, headers=headers)


def cut(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadError("reset by peer")


@pytest.mark.req("M-1")
def test_a_change_is_sent_again_under_its_key() -> None:
    far = Far(cut, cut, ok(b'{"code":"Conflict","detail":"no"}', 409))
    with pytest.raises(problems.Conflict):
        far.link().answer(commands.cancel("cmd_1"))
    assert len({sent.headers["Idempotency-Key"] for sent in far.sent}) == 1
    assert str(far.sent[0].url) == "https://gw.example/base/v1/commands"


def test_a_gateway_that_never_answers_is_one_sentence() -> None:
    with pytest.raises(Unreachable, match="No gateway answers GET /healthz"):
        Far(cut, cut, cut).link().answer(gateway.alive())


@pytest.mark.req("X-6")
def test_a_file_is_sent_from_its_beginning_at_each_attempt(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(b"x" * (UPLOAD_BYTES + 7))
    far = Far(cut, ok(b'{"code":"QuotaExceeded","detail":"full"}', 422))
    with pytest.raises(problems.QuotaExceeded):
        far.link().answer(transcripts.upload(file, "shell"))
    assert [len(body) for body in far.bodies] == [file.stat().st_size] * 2


def test_a_long_response_is_read_in_pieces_and_its_refusal_is_raised() -> None:
    link = Far(ok(b"one\ntwo\n")).link()
    assert b"".join(link.stream(download(transcripts.export("s"), link.retries))) == b"one\ntwo\n"
    refused = Far(ok(b'{"code":"NotFound","detail":"none"}', 404)).link()
    with pytest.raises(problems.NotFound):
        next(refused.stream(download(transcripts.export("s"), refused.retries)))
    refused.close()
