"""The words of a prompt and their answers, each within its limit."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.model_stand_in.script import (
    FLOOD_CHUNK,
    MAX_CALLS,
    MAX_CHUNKS,
    MAX_DELAY_MS,
    MAX_WIDTH,
    Script,
    chunk_texts,
    flood_texts,
    read_script,
    words_as_chunks,
)


@pytest.mark.parametrize(("prompt", "fields"), [
    ("hello", {}), ("[[tool: ls ]]", {"calls": (("", "ls"),)}),
    ("[[tool:a]] then [[call:write {\"p\":1}]]", {"calls": (("", "a"), ("write", '{"p":1}'))}),
    ("[[do:edit {\"path\":\"a\"}]]", {"action": ("edit", '{"path":"a"}')}), ("[[many:3]]", {"many": 3}),
    ("[[say:a]][[say:b]]", {"says": ("a", "b")}), ("[[think:hm]]", {"thinks": "hm"}), ("[[empty]]", {"empty": True}),
    ("[[hang]][[cut]][[ends]][[length]]", {"hangs": True, "cut": True, "ends": True, "length": True}),
    ("[[flaky:503:2]]", {"flaky": (503, 2)}), ("[[room:9]]", {"room_chars": 9}), ("state", {"state": True}),
    ("[[chunks:3]][[wide:40]][[delay:50]]", {"chunks": 3, "width": 40, "delay_seconds": 0.05}), ("[[fail:429]]",
    {"fail_status": 429}),
    ("[[fail:200]]", {}), ("[[overflow]]", {"overflow": True}), ("[[agent: ls ]]", {"delegated": "ls"}),
    ("[[ask:which?]]", {"question": "which?"}), ("[[unheard:1]] [[tool:open", {}),
])
def test_known_words_are_read_and_others_ignored(prompt: str, fields: dict[str, Any]) -> None:
    assert read_script(prompt) == Script(**fields)


@pytest.mark.parametrize("prompt", [
    f"[[chunks:{MAX_CHUNKS + 1}]][[wide:{MAX_WIDTH + 1}]][[delay:{MAX_DELAY_MS + 1}]][[many:{MAX_CALLS + 1}]]"])
def test_figures_are_limited(prompt: str) -> None:
    found = read_script(prompt)
    assert (found.chunks, found.width, found.delay_seconds, found.many) == (
        MAX_CHUNKS, MAX_WIDTH, MAX_DELAY_MS / 1000, MAX_CALLS)


def test_only_the_last_paragraph_counts_and_a_word_may_contain_a_blank_line() -> None:
    assert read_script("[[fail:500]]\n\n[[say:now]]").fail_status is None
    assert read_script("[[tool:a\n\nb]]").calls == (("", "a\n\nb"),)
    assert read_script("[[say:x]]\n\nNote of Interlock, which starts you: denied").says == ("x",)


def test_chunks_are_numbered_and_have_the_requested_width() -> None:
    assert chunk_texts(2) == ("chunk 1 of 2\n", "chunk 2 of 2\n")
    assert {len(chunk) for chunk in chunk_texts(3, 40)} == {40}
    assert chunk_texts(0) == ()


def test_a_flood_has_distinct_chunks() -> None:
    texts = flood_texts(3 * FLOOD_CHUNK + 5)
    assert [text[:10] for text in texts] == ["0000000000", "0000000001", "0000000002"]
    assert {len(text) for text in texts} == {FLOOD_CHUNK}


@pytest.mark.parametrize("text", ["one two  three\n", "", "word"])
def test_a_sentence_in_chunks_is_the_same_sentence(text: str) -> None:
    assert "".join(words_as_chunks(text)) == text
