"""A long transcript from elsewhere, line by line (X-6): damage is counted as the doctor counts it."""

from __future__ import annotations

import random

import msgspec
import pytest

from interlock.session.transcript.doctor import examine
from interlock.session.transcript.entries import Header
from interlock.session.transcript.transcript_import import UnderHeader, surveyed
from session.trees import AT, file_of, lines_of, random_entries

pytestmark = pytest.mark.req("X-6", "X-4")
ENTRIES = random_entries(random.Random(5), 60)
OURS = Header(version=3, id="N", timestamp=AT, cwd="/n")


@pytest.mark.parametrize("seed", range(10))
def test_a_sound_file_is_sound_line_by_line(seed: int) -> None:
    entries = random_entries(random.Random(seed), 50)
    report, whole = surveyed(lines_of(entries)), examine(file_of(entries))
    assert (report.sound, report.version, report.entries, report.leaf) == (True, 3, 50, whole.leaf)
    assert report.counts == {}


@pytest.mark.parametrize(("kind", "lines"), [
    ("missing_header", lines_of(ENTRIES, header=None)),
    ("old_version", lines_of(ENTRIES, header={"type": "session", "id": "S", "timestamp": AT, "cwd": "/"})),
    ("garbage", [*lines_of(ENTRIES), b"{garbage}"]),
    ("duplicate_id", lines_of([*ENTRIES, ENTRIES[0]])),
    ("unresolved_parent", lines_of([*ENTRIES, {**ENTRIES[-1], "id": "new", "parentId": "lost"}])),
    ("broken_field", lines_of([*ENTRIES, {"type": "message", "id": "new", "parentId": None, "timestamp": AT}])),
    ("half_pair", [*lines_of(ENTRIES),
                   b'{"type":"custom","id":"new","parentId":null,"customType":"x","data":"\\ud800","timestamp":"t"}']),
])
def test_each_damage_is_counted_by_its_kind(kind: str, lines: list[bytes]) -> None:
    report = surveyed(lines)
    assert report.counts == {kind: 1}
    assert kind in examine(b"".join(line + b"\n" for line in lines)).counts


def test_a_parent_after_its_child_counts_as_unresolved() -> None:
    assert surveyed(lines_of([{**ENTRIES[0], "parentId": "later"}, {**ENTRIES[0], "id": "later"}])).counts == {
        "unresolved_parent": 1}


@pytest.mark.parametrize("lines", [[], [b""], [b"  ", b"\r"]])
def test_an_empty_file_has_no_entry(lines: list[bytes]) -> None:
    assert (surveyed(lines).entries, surveyed(lines).leaf) == (0, None)


def test_entries_are_copied_unchanged_under_another_header_repeatedly() -> None:
    lines = lines_of(ENTRIES)
    moved = UnderHeader(OURS, [lines[0], b"", *lines[1:], b'{"type":"session","id":"again"}'])
    assert list(moved) == [msgspec.json.encode(OURS), *lines[1:]]
    assert list(moved) == list(moved)
