"""The index beside a file gives what the file gives, and nothing that the file does not (X-7)."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.backends.jsonl import indexed
from interlock.backends.jsonl.indexed import Indexed, index_path
from interlock.session.context import context
from interlock.session.tree import read_tree
from session.trees import file_of, random_entries

pytestmark = pytest.mark.req("X-7")


@pytest.fixture(autouse=True)
def small_files_have_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed, "INDEX_MIN_BYTES", 1)
    monkeypatch.setattr(indexed, "WHOLE_SHARE", 1)


def later() -> int:
    """An instant at which the file has long been still."""
    return time.time_ns() + 10**12


def opened(path: Path) -> tuple[bool, list[bytes], Any]:
    with Indexed(path, later) as file:
        found = file.from_index, file.page(0, 10_000), file.context()
    file.keep_index()
    return found


def test_what_comes_of_the_index_is_what_comes_of_the_file(tmp_path: Path) -> None:
    for seed in range(60):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(file_of(random_entries(random.Random(seed), 40, 0.15)))
        tree = read_tree(path.read_bytes().split(b"\n"))
        first, again = opened(path), opened(path)
        assert (first[0], again[0]) == (False, True)
        for _, page, found in (first, again):
            assert page == tree.lines
            assert found == context(tree)
            assert found.messages == context(tree).messages
        with Indexed(path, later) as file:
            assert [file.place(node.id) for node in tree.nodes] == list(range(40))
            assert file.place("ffffffff") is None
            assert file.page(38, 10) == tree.lines[38:]
            assert file.page(40, 10) == []


def test_an_append_or_an_edit_makes_the_index_another_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    entries = random_entries(random.Random(1), 20, 0)
    path.write_bytes(file_of(entries[:19]))
    opened(path)
    path.write_bytes(file_of(entries))
    from_index, page, _ = opened(path)
    assert (from_index, len(page)) == (False, 20)
    assert opened(path)[0] is True
    changed = path.read_bytes().replace(b'"hello"', b'"HELLO"')
    path.write_bytes(changed)
    from_index, page, _ = opened(path)
    assert (from_index, b"\n".join(page)) == (False, changed.split(b"\n", 1)[1].removesuffix(b"\n"))


def test_an_index_that_lies_is_found_out_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(2), 40, 0.2)))
    whole = opened(path)[1:]
    good = index_path(path).read_bytes()
    dice = random.Random(3)
    for _ in range(200):
        bad = bytearray(good)
        at = dice.randrange(len(bad))
        bad[at] ^= 1 << dice.randrange(8)
        index_path(path).write_bytes(bytes(bad))
        with Indexed(path, later) as file:
            assert file.context() == whole[1]
        index_path(path).write_bytes(bytes(bad))
        with Indexed(path, later) as file:
            assert set(file.page(0, 10_000)) <= set(whole[0])
    for cut in (0, 1, 40, len(good) - 1):
        index_path(path).write_bytes(good[:cut])
        assert opened(path)[1:] == whole


def test_a_file_that_changed_just_now_is_not_indexed_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(1), 5)))
    with Indexed(path, lambda: path.stat().st_mtime_ns + 1) as file:
        pass
    file.keep_index()
    assert not index_path(path).exists()


def test_damaged_and_missing_files_are_read_without_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert opened(path) == (False, [], context(read_tree(())))
    data = file_of(random_entries(random.Random(1), 5))
    for spoilt in (data[:-7], data.replace(b"\n", b"\n\n", 1), data + b"\0\0", b"", data.split(b"\n", 1)[1]):
        path.write_bytes(spoilt)
        assert opened(path)[1] == read_tree(spoilt.split(b"\n")).lines
        assert not index_path(path).exists()


def test_where_the_index_cannot_be_written_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(1), 5)))
    (tmp_path / f".{index_path(path).name}.new").mkdir()
    from_index, page, _ = opened(path)
    assert (from_index, len(page)) == (False, 5)
    assert not index_path(path).exists()
