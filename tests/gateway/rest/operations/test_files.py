"""A session's files by name, and as bytes (E-5)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from interlock.gateway.rest.operations.files import disposition
from interlock.ports.ledger import PutFile, WriteBatch
from interlock.ports.objects import ObjectsError
from interlock.protocol.records import FileRecord
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
FILES = "/v1/sessions/s1/files"


async def keep(gateway: Gateway, transfer_id: str, *parts: bytes, **fields: Any) -> bytes:
    whole = b"".join(parts)
    names = [(await gateway.desk.objects.put([part])).sha256 for part in parts]
    given = {"name": "plot.png", "media_type": "image/png", "purpose": "output", "sha256":
             hashlib.sha256(whole).hexdigest(), **fields}
    await gateway.desk.ledger.commit(WriteBatch([PutFile(FileRecord(
        session_id="s1", transfer_id=transfer_id, size=len(whole), created_ms=0, objects=names, **given),
        "default")]))
    return whole


async def test_a_file_is_fetched_whole(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    whole = await keep(gateway, "f1", b"one", b"two")
    answer = await gateway.http.get(f"{FILES}/f1")
    assert (answer.status_code, answer.content) == (200, whole)
    received = answer.headers
    assert (received["content-type"], received["content-length"]) == ("image/png", "6")
    assert received["content-disposition"] == "attachment; filename=\"plot.png\"; filename*=UTF-8''plot.png"
    assert (received["x-content-type-options"], received["content-security-policy"]) == ("nosniff", "sandbox")


async def test_a_file_that_a_browser_could_run_is_sent_as_bytes(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await keep(gateway, "f1", b"<script>", media_type="text/html")
    await keep(gateway, "f2", b"<svg>", media_type="image/svg+xml\r\nX: y")
    for name in ("f1", "f2"):
        assert (await gateway.http.get(f"{FILES}/{name}")).headers["content-type"] == "application/octet-stream"


async def test_files_are_listed_by_the_page(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for number in range(3):
        await keep(gateway, f"f{number}", b"x" * number)
    first = (await gateway.http.get(FILES + "?limit=2")).json()
    assert [(one["transfer_id"], one["size"]) for one in first["items"]] == [("f0", 0), ("f1", 1)]
    assert first["has_more"] is True
    last = (await gateway.http.get(f"{FILES}?limit=2&cursor={first['next_cursor']}")).json()
    assert [one["transfer_id"] for one in last["items"]] == ["f2"]
    assert (last["has_more"], last["next_cursor"]) == (False, None)
    assert set(last["items"][0]) == {"transfer_id", "name", "media_type", "size", "sha256", "purpose", "created_at"}


async def test_a_missing_file_is_404(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await keep(gateway, "f1", b"gone")
    await gateway.desk.objects.drop(hashlib.sha256(b"gone").hexdigest())
    for path in (f"{FILES}/none", f"{FILES}/f1", "/v1/sessions/other/files", "/v1/sessions/other/files/f1"):
        answer = await gateway.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "NotFound")


@pytest.mark.parametrize(("name", "written"), [
    ("a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"),
    ('../"x"\r\n.txt', "attachment; filename=\"_x_.txt\"; filename*=UTF-8''%22x%22.txt"),
    ("é.png", "attachment; filename=\"_.png\"; filename*=UTF-8''%C3%A9.png"),
    ("/", "attachment; filename=\"file\"; filename*=UTF-8''file"),
])
def test_a_name_chosen_by_an_agent_cannot_leave_its_header(name: str, written: str) -> None:
    assert disposition(name) == written


async def test_an_unreachable_store_is_unavailable_and_the_file_not_reported_missing(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await keep(gateway, "f1", b"one")

    async def silent(_: str) -> int | None:
        raise ObjectsError("The bucket does not answer.")

    gateway.desk.objects.size = silent  # type: ignore[method-assign]
    answer = await gateway.http.get(f"{FILES}/f1")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "Unavailable", "5")
