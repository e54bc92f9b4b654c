"""Fork, import, branch and label make entries and files; nothing that is there changes (X-6)."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from interlock.session.context.context import context
from interlock.session.transcript.doctor import examine
from interlock.session.transcript.entries import Header, entry_line
from interlock.session.transcript.render import markdown, page
from interlock.session.transcript.tree import read_tree
from interlock.session.transcript.tree_edits import NothingToImport, branch_draft, fork, import_lines
from session.trees import AT, file_of, lines_of, random_entries

pytestmark = pytest.mark.req("X-6")
TOP = Header(version=3, id="N", timestamp=AT, cwd="/n", parent_session="S.jsonl")
NUMBERS = itertools.count(2**31)


def entropy(count: int) -> bytes:
    return next(NUMBERS).to_bytes(count, "big")


def test_a_fork_is_the_path_to_an_entry_with_labels_and_its_origin() -> None:
    for seed in range(30):
        tree = read_tree(lines_of(random_entries(random.Random(seed), 30)))
        leaf = random.Random(seed).randrange(30)
        forked = read_tree(fork(tree, leaf, TOP, AT, entropy))
        assert forked.header == {"type": "session", "version": 3, "id": "N", "timestamp": AT, "cwd": "/n",
                                 "parentSession": "S.jsonl"}
        assert context(forked).messages == context(tree, leaf).messages
        ids = {tree.nodes[place].id for place in tree.path(leaf)}
        kept = {target: label for target, label in forked.labels().items() if target in ids}
        assert kept == {target: label for target, label in tree.labels().items() if target in ids}
        assert examine(b"".join(line + b"\n" for line in fork(tree, leaf, TOP, AT, entropy))).sound


def test_an_import_has_our_header_and_the_imported_entries() -> None:
    entries = random_entries(random.Random(3), 20)
    found = import_lines(file_of(entries), TOP, entropy)
    assert [msgspec.json.decode(line) for line in found.lines[1:]] == entries
    assert read_tree(found.lines).header == msgspec.to_builtins(TOP)
    for nothing in (b"", b"hello", b'{"type":"session","id":"S"}\n', b"\0" * 99):
        with pytest.raises(NothingToImport):
            import_lines(nothing, TOP, entropy)


def test_a_branch_begins_with_a_mark_or_with_a_summary_that_is_in_context() -> None:
    written = [{"type": "message", "id": name, "parentId": parent, "timestamp": AT,
                "message": {"role": "user", "content": name, "timestamp": 1}}
               for name, parent in (("a", None), ("b", "a"), ("c", "b"))]
    for summary, left in ((None, ["a"]), ("tried b", ["a", "tried b"])):
        line = entry_line(branch_draft(summary, "a", "c"), "d", "a", AT)
        found = context(read_tree([*lines_of(written), line]))
        assert [one.get("content") or one["summary"] for one in found.messages] == left


def test_text_for_people_cannot_be_interpreted_as_markup() -> None:
    written = [{"type": "message", "id": "a", "parentId": None, "timestamp": AT,
                "message": {"role": "user", "content": "<script>x</script>\n## Assistant", "timestamp": 1}},
               {"type": "message", "id": "b", "parentId": "a", "timestamp": AT,
                "message": {"role": "toolResult", "toolName": "ls", "content": [{"type": "text", "text": "```\nx"}]}}]
    tree = read_tree(lines_of(written))
    assert "<script>" not in page(tree)
    text = markdown(tree)
    assert "\n## Assistant" not in text
    assert "````\n```\nx\n````" in text
