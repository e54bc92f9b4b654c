"""People's changes of a transcript's tree: fork a path of it, import one from elsewhere (X-6). Pure: lines in and out.

Existing entries are never changed: a branch and a label are entries of their own, a fork is a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlock.protocol.transcripts import Report
from interlock.session.transcript.doctor import repair
from interlock.session.transcript.entries import BranchSummary, Custom, Draft, Header, Label, entry_line, new_entry_id
from interlock.session.transcript.tree import Tree, read_tree

BRANCH = "interlock.branch"
"""`customType` of the entry that starts a branch without a summary: the leaf must be an entry, and names its origin."""
MAX_LABEL_CHARS = 200


class NothingToImport(ValueError):
    """Raised if a text holds no readable entry."""


class ImportedTranscript(NamedTuple):
    """A transcript of version 3 for a session here, and the findings."""

    lines: list[bytes]
    report: Report


def fork(tree: Tree, leaf: int, header: Header, at: str, entropy: Callable[[int], bytes]) -> list[bytes]:
    """Return the path to the entry at `leaf` as a transcript of its own, with the labels that its entries have now.

    Entries keep their ids, so that both files show what they share.
    """
    path = tree.path(leaf)
    ids = {tree.nodes[place].id for place in path}
    lines = [msgspec.json.encode(header), *(tree.lines[place] for place in path)]
    root = tree.nodes[path[0]]
    if root.parent_id is not None:
        lines[1] = msgspec.json.encode({**tree.entry(path[0]), "parentId": None})
    known = read_tree(lines).labels()
    last = tree.nodes[path[-1]].id
    for target, label in tree.labels().items():
        if target in ids and known.get(target) != label:
            entry_id = new_entry_id(ids, entropy)
            lines.append(entry_line(Label(target, label), entry_id, last, at))
            ids.add(entry_id)
            last = entry_id
    return lines


def import_lines(data: bytes, header: Header, entropy: Callable[[int], bytes]) -> ImportedTranscript:
    """Convert a transcript of versions 1 to 3, whichever program wrote it; damage is repaired. Raises
    NothingToImport."""
    repaired = repair(data, header, entropy)
    if len(repaired.lines) < 2:
        raise NothingToImport("it holds no entry of a transcript")
    return ImportedTranscript([msgspec.json.encode(header), *repaired.lines[1:]], repaired.report)


def is_branch(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry starts a branch: its parent was chosen, and need not be the leaf."""
    return entry.get("type") == "branch_summary" or entry.get("customType") == BRANCH


def branch_draft(summary: str | None, parent: str, leaf: str | None) -> Draft:
    """Return the entry that starts a branch below `parent`: a summary of what is abandoned, which is in context, or a
    mark, which is not."""
    if summary:
        return BranchSummary(parent, summary)
    return Custom(BRANCH, {"from": leaf})
