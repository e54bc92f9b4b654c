"""Files as chunks, and prompts whose content goes before them (E-5)."""

from __future__ import annotations

import base64
import hashlib
import itertools
from typing import Any

import msgspec
import pytest

from interlock.protocol.limits import FILE_CHUNK_BYTES, MAX_FILE_BYTES, MAX_FRAME_BYTES, MAX_PROMPT_BYTES
from interlock.protocol.payloads import FileChunk, FileTransfer, PromptRequest
from interlock.protocol.sizes import json_size
from interlock.session.transfers import (
    File,
    TransferRefused,
    bytes_of,
    carried,
    check_same,
    chunks,
    content_of,
    content_size,
    join,
    named,
    place_of,
    restored,
)

pytestmark = pytest.mark.req("E-5")
SIZES = [0, 1, FILE_CHUNK_BYTES - 1, FILE_CHUNK_BYTES, FILE_CHUNK_BYTES + 1, 3 * FILE_CHUNK_BYTES]


def file(size: int) -> File:
    return File("a.bin", "application/x-a", bytes(range(251)) * (size // 251) + bytes(size % 251), "output")


def ids() -> Any:
    numbers = itertools.count(1)
    return lambda: f"t{next(numbers)}"


def text_prompt(text: str) -> PromptRequest:
    return PromptRequest(prompt_id="p", input_type="text", origin="user", text=text)


def blocks_prompt(*blocks: dict[str, Any]) -> PromptRequest:
    return PromptRequest(prompt_id="p", input_type="blocks", origin="user", content=list(blocks))


def whole(prompt: PromptRequest, transfers: list[FileTransfer]) -> list[dict[str, Any]]:
    of = {one.transfer_id: [t for t in transfers if t.transfer_id == one.transfer_id] for one in transfers}
    return [restored(block, of[block["transfer_id"]]) if "transfer_id" in block else block
            for block in content_of(prompt)]


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_cut_at_the_chunk_and_joined_again(size: int) -> None:
    cut = chunks("t", file(size))
    assert len(cut) == max(1, -(-size // FILE_CHUNK_BYTES))
    assert [place_of(one) for one in cut] == [(index, len(cut)) for index in range(len(cut))]
    assert {len(bytes_of(one)) for one in cut[:-1]} <= {FILE_CHUNK_BYTES}
    assert join(cut) == file(size).data
    for one in cut:
        assert len(msgspec.json.encode(one)) < MAX_FRAME_BYTES
        check_same(cut[0], one)


def test_a_file_has_a_largest_size() -> None:
    assert len(chunks("t", file(MAX_FILE_BYTES))) == MAX_FILE_BYTES // FILE_CHUNK_BYTES
    with pytest.raises(TransferRefused, match=f"{MAX_FILE_BYTES + 1} bytes; a file has at most"):
        chunks("t", file(MAX_FILE_BYTES + 1))


@pytest.mark.parametrize(("change", "sentence"), [
    ({"sha256": hashlib.sha256(b"other").hexdigest()}, "sha256 is not the one announced"),
    ({"size": 4}, "3 bytes, 4 were announced"),
    ({"content": "!!!!"}, "not base64"),
])
def test_a_file_that_differs_from_its_announcement_is_refused(change: dict[str, Any], sentence: str) -> None:
    cut = [msgspec.structs.replace(chunks("t", File("a", "b", b"abc", "prompt"))[0], **change)]
    with pytest.raises(TransferRefused, match=sentence):
        join(cut)


@pytest.mark.parametrize(("index", "count", "size"), [
    (-1, 1, 9), (1, 1, 9), (0, 0, 9), (5, 3, 9), (0, 10, 9), (0, 1, -1), (0, 1, MAX_FILE_BYTES + 1), (0, 2, 0)])
def test_an_impossible_chunk_index_is_refused(index: int, count: int, size: int) -> None:
    one = msgspec.structs.replace(chunks("t", file(9))[0], size=size, chunk=FileChunk(index=index, count=count))
    with pytest.raises(TransferRefused, match=r"not a place|no size"):
        place_of(one)


@pytest.mark.parametrize("change", [{"name": "b"}, {"media_type": "c"}, {"size": 1}, {"sha256": ""}, {"purpose": "x"},
                                    {"chunk": FileChunk(index=0, count=9)}])
def test_chunks_that_disagree_are_refused(change: dict[str, Any]) -> None:
    first, other = chunks("t", file(FILE_CHUNK_BYTES + 1))
    with pytest.raises(TransferRefused, match="disagree"):
        check_same(first, msgspec.structs.replace(other, **change))


# --- prompts: the boundary, counted as encoded JSON ---
@pytest.mark.parametrize("letter", ["a", '"', "\x01", "é", "漢", "😀"])
def test_a_text_at_the_limit_stays_inline_and_one_more_byte_makes_it_a_file(letter: str) -> None:
    cost = json_size(letter)
    fits = letter * (MAX_PROMPT_BYTES // cost) + "a" * (MAX_PROMPT_BYTES % cost)
    assert content_size(text_prompt(fits)) == MAX_PROMPT_BYTES
    assert carried(text_prompt(fits), ids()) == (text_prompt(fits), [])
    prompt, transfers = carried(text_prompt(fits + "a"), ids())
    assert prompt.text is None
    assert prompt.content == [{"type": "text", "transfer_id": "t1", "media_type": "text/plain; charset=utf-8",
                               "sha256": hashlib.sha256((fits + "a").encode()).hexdigest()}]
    assert whole(prompt, transfers) == [{"type": "text", "text": fits + "a"}]


def test_the_largest_blocks_become_files_until_the_rest_fits() -> None:
    image = {"type": "image", "data": base64.b64encode(bytes(200_000)).decode(), "media_type": "image/png"}
    small = {"type": "image", "data": base64.b64encode(b"x" * 3_000).decode(), "media_type": "image/gif"}
    words = {"type": "text", "text": "look"}
    given = blocks_prompt(words, image, small)
    prompt, transfers = carried(given, ids())
    assert [sorted(block) for block in content_of(prompt)] == [
        ["text", "type"], ["media_type", "sha256", "transfer_id", "type"], ["data", "media_type", "type"]]
    assert named(content_of(prompt)) == ["t1"]
    assert content_size(prompt) <= MAX_PROMPT_BYTES
    assert whole(prompt, transfers) == content_of(given)


def test_too_many_parts_that_are_too_small_for_files_are_refused() -> None:
    crumbs = blocks_prompt(*({"type": "text", "text": "x" * 900} for _ in range(300)))
    with pytest.raises(TransferRefused, match="many small parts"):
        carried(crumbs, ids())


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"media_type": "image/png"}])
def test_a_name_that_is_not_the_files_is_refused(change: dict[str, Any]) -> None:
    prompt, transfers = carried(text_prompt("x" * (MAX_PROMPT_BYTES + 1)), ids())
    with pytest.raises(TransferRefused, match="another sha256 or media_type"):
        restored({**content_of(prompt)[0], **change}, transfers)


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    part = chunks("t", File("a", "text/plain", b"\xff", "prompt"))
    with pytest.raises(TransferRefused, match="not UTF-8"):
        restored({"type": "text", "sha256": part[0].sha256, "media_type": "text/plain"}, part)
