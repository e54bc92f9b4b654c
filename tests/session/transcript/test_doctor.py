"""Defects are reported, and a repaired file is valid and reads the same, or better (X-4)."""

from __future__ import annotations

import os
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.session.context.context import context
from interlock.session.transcript.doctor import examine, repair
from interlock.session.transcript.entries import Header, read_stub
from interlock.session.transcript.tree import read_tree
from session.trees import AT, file_of, lines_of, random_entries

pytestmark = pytest.mark.req("X-4")
TOP = Header(version=3, id="S", timestamp=AT, cwd="/w")


def repaired(data: bytes) -> bytes:
    lines = repair(data, TOP, os.urandom).lines
    assert examine(b"".join(line + b"\n" for line in lines)).sound
    return b"".join(line + b"\n" for line in lines)


def texts(data: bytes) -> list[Any]:
    return [message.get("content") for message in context(read_tree(data.split(b"\n"))).messages]


def chain(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "message", "id": f"e{number}", "parentId": f"e{number - 1}" if number else None, "timestamp": AT,
             "message": {"role": "user", "content": text, "timestamp": 1}} for number, text in enumerate(texts)]


def test_a_sound_file_needs_no_repair() -> None:
    data = file_of(random_entries(random.Random(1), 40))
    report = examine(data)
    assert (report.sound, report.entries, report.version) == (True, 40, 3)
    assert [msgspec.json.decode(line) for line in repaired(data).split(b"\n")[:-1]] == [
        msgspec.json.decode(line) for line in data.split(b"\n")[:-1]]


@pytest.mark.parametrize(("spoil", "kinds", "left"), [
    (lambda d: d[:-9], ["torn_tail"], ["a", "b"]),
    (lambda d: d[:-1], ["no_line_feed"], ["a", "b", "c"]),
    (lambda d: d + b"\0" * 4096, ["nul_run"], ["a", "b", "c"]),
    (lambda d: d.replace(b"\n", b"\nhello?\n", 1), ["garbage"], ["a", "b", "c"]),
    (lambda d: d.replace(b"\n", b"\n[1]\n", 1), ["no_entry"], ["a", "b", "c"]),
    (lambda d: d.split(b"\n", 1)[1], ["missing_header"], ["a", "b", "c"]),
    (lambda d: d.replace(b'"content":"b"', b'"content":"\xff"'), ["bad_text"], ["a", "\ufffd", "c"]),
    (lambda d: d.replace(b'"parentId":null', b'"parentId":"e2"'), ["parent_cycle"], ["a", "b", "c"]),
    (lambda d: b"\n".join(line for line in d.split(b"\n") if b'"id":"e1"' not in line), ["unresolved_parent"],
     ["a", "c"]),
    (lambda d: d.replace(b'"version":3', b'"version":2'), ["old_version"], ["a", "b", "c"]),
    (lambda d: d.replace(b'"version":3', b'"version":9'), ["newer_version"], ["a", "b", "c"]),
    (lambda d: d.replace(b'"content":"b"', rb'"content":"\ud83d b"'), ["half_pair"], ["a", "\ufffd b", "c"]),
    (lambda d: d.replace(b'"timestamp":1}', b'"timestamp":1,"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}", 1),
     ["too_deep"], ["a", "b", "c"]),
    (lambda d: d.replace(b'"id":"S"', b'"id":5'), ["missing_header"], ["a", "b", "c"]),
    (lambda d: d.replace(b'"message":{"role":"user","content":"b","timestamp":1}', b'"text":"b"'), ["broken_field"],
     ["a", "c"]),
    (lambda d: d.replace(b'"content":"b"', b'"content":7'), ["broken_field"], ["a", "c"]),
    (lambda d: d.replace(b'"role":"user","content":"b"', b'"role":"assistant","content":"b"'), ["broken_field"],
     ["a", [{"type": "text", "text": "b"}], "c"]),
])  # fmt: skip
def test_each_damage_is_reported_and_repaired(spoil: Any, kinds: list[str], left: list[str]) -> None:
    data = spoil(file_of(chain("a", "b", "c")))
    assert list(examine(data).counts) == kinds
    assert texts(repaired(data)) == left


def test_a_torn_line_joined_with_the_next_yields_the_next() -> None:
    lines = lines_of(chain("a", "b", "c"))
    data = b"\n".join([lines[0], lines[1], lines[2][:30] + lines[3], b""])
    assert examine(data).counts == {"garbage": 1}
    assert texts(data) == ["a"]
    assert texts(repaired(data)) == ["a", "c"], "what follows the lost entry hangs below the entry before it"


def test_of_two_entries_with_one_id_the_last_keeps_it_and_the_context_stays() -> None:
    entries = chain("a", "b", "c")
    data = file_of([*entries[:2], {**entries[1], "message": {"role": "user", "content": "B", "timestamp": 1}},
                    entries[2]])
    assert examine(data).counts == {"duplicate_id": 1}
    assert texts(data) == texts(repaired(data)) == ["a", "B", "c"]
    assert len(read_tree(repaired(data).split(b"\n")).nodes) == 4, "what was said under the other is kept"
    same = file_of([*entries[:2], entries[1], entries[2]])
    assert len(read_tree(repaired(same).split(b"\n")).nodes) == 3


def test_places_are_reported_in_lines_and_bytes() -> None:
    data = file_of(chain("a", "b")).replace(b"\n", b"\n\n?\n", 1)
    (found,) = examine(data).findings
    assert found.line == 3
    assert data[found.offset : (found.offset or 0) + 1] == b"?"


@given(st.integers(0, 2**32), st.data())
@settings(max_examples=80, deadline=None)
def test_a_repaired_file_is_sound_after_any_damage(seed: int, data: st.DataObject) -> None:
    entries = random_entries(random.Random(seed), 12)
    dice = random.Random(seed + 1)
    for _ in range(data.draw(st.integers(0, 3))):
        dice.choice(entries)["parentId"] = dice.choice([dice.choice(entries)["id"], "nowhere", 5])
    dice.choice(entries)["id"] = dice.choice(entries)["id"]
    whole = file_of(entries)
    at = data.draw(st.integers(0, len(whole)))
    spoilt = whole[:at] + data.draw(st.binary(max_size=20)) + whole[at + data.draw(st.integers(0, 300)) :]
    before = {node.id for node in read_tree(spoilt.split(b"\n")).nodes}
    assert before <= set(read_tree(repaired(spoilt).split(b"\n")).at), "no entry that could be read is lost"


@pytest.mark.parametrize("entry", [
    {"type": "message"}, {"type": "message", "message": None}, {"type": "message", "message": "text"},
    {"type": "message", "message": {"content": "no role"}}, {"type": "message", "message": {"role": "user"}},
    {"type": "message", "message": {"role": "assistant", "content": ["text"]}},
    {"type": "message", "message": {"role": "toolResult", "content": [], "toolName": "ls"}},
    {"type": "message", "message": {"role": "bashExecution", "command": "ls"}},
    {"type": "custom_message", "customType": "x"}, {"type": "compaction", "summary": 5, "firstKeptEntryId": "e0"},
    {"type": "compaction", "summary": "s", "firstKeptEntryId": "e0", "tokensBefore": "many"},
    {"type": "branch_summary"}, {"type": "model_change", "provider": "p"}, {"type": "thinking_level_change"},
    {"type": "label", "label": "l"}, {"type": "session_info", "name": 5},
])
def test_an_entry_without_required_fields_is_kept_out_of_context(entry: dict[str, Any]) -> None:
    before, after = chain("a", "b")
    data = file_of([before, {**entry, "id": "x", "parentId": "e0", "timestamp": AT}, {**after, "parentId": "x"}])
    report = examine(data)
    assert (report.sound, report.counts) == (False, {"broken_field": 1})
    assert report.findings[0].entry_id == "x"
    whole = read_tree(repaired(data).split(b"\n"))
    assert texts(repaired(data)) == ["a", "b"]
    kept = whole.entry(whole.at["x"])
    assert (kept["type"], kept["customType"], kept["parentId"]) == ("custom", "interlock.broken", "e0")
    assert entry.items() <= kept["data"].items(), "nothing of it is lost"


@pytest.mark.parametrize("entry", [
    {"type": "session_info"}, {"type": "unheard_of"}, {"type": "custom"}, {"type": "label", "targetId": "e0"},
    {"type": "message", "message": {"role": "newRole"}},
    {"type": "message", "message": {"role": "custom", "content": "old hook"}},
])
def test_unused_fields_may_be_missing(entry: dict[str, Any]) -> None:
    before, after = chain("a", "b")
    data = file_of([before, {**entry, "id": "x", "parentId": "e0", "timestamp": AT}, {**after, "parentId": "x"}])
    assert examine(data).sound


def test_half_a_surrogate_pair_hides_no_message() -> None:
    """pi writes such escapes. 23 of 24 messages went with the one that could not be decoded."""
    data = file_of(chain(*map(str, range(24)))).replace(b'"content":"22"', rb'"content":"22 \ud83d"')
    assert texts(data) == [*map(str, range(22)), "22 \ufffd", "23"]
    assert (examine(data).sound, examine(data).counts) == (True, {"half_pair": 1})
    for line in data.split(b"\n")[:-1]:
        stub = read_stub(line)
        assert stub is not None
    msgspec.json.decode(msgspec.json.encode(context(read_tree(data.split(b"\n"))).raw))
