"""A transcript's file as the body of a request: piece by piece, and from its beginning at each attempt (X-6)."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from interlock.sdk import AsyncInterlock, Interlock, RetryPolicy, Unreachable
from interlock.sdk.exchange import UPLOAD_BYTES

URL = "http://127.0.0.1:7"
QUICK = RetryPolicy(attempts=2, draw=lambda: -1.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(b"{}\n" * UPLOAD_BYTES)
    return path


@pytest.mark.anyio
@pytest.mark.req("X-6", "M-1")
async def test_a_file_is_sent_completely_at_each_attempt(file: Path) -> None:
    seen: list[tuple[bytes, str, str]] = []

    async def lose(request: httpx2.Request) -> httpx2.Response:
        seen.append((await request.aread(), request.headers["Content-Type"], request.headers["Idempotency-Key"]))
        raise httpx2.ReadError("the answer was lost")

    async with AsyncInterlock(URL, "k", retries=QUICK, transport=httpx2.MockTransport(lose)) as gateway:
        with pytest.raises(Unreachable):
            await gateway.transcripts.upload(file, "shell")
    assert seen == [(file.read_bytes(), "application/x-ndjson", seen[0][2])] * 2


@pytest.mark.req("X-6", "M-1")
def test_the_blocking_client_sends_it_completely_too(file: Path) -> None:
    seen: list[bytes] = []

    def lose(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.read())
        raise httpx2.ReadError("the answer was lost")

    with Interlock(URL, "k", retries=QUICK, transport=httpx2.MockTransport(lose)) as gateway, \
            pytest.raises(Unreachable):
        gateway.transcripts.upload(file, "shell")
    assert seen == [file.read_bytes()] * 2
