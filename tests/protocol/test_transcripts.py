"""Requests and responses of the API for transcripts (X-1, X-4, X-6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.transcripts import BranchBody, Finding, ForkBody, ImportBody, LabelBody, TreeNode


@pytest.mark.req("X-6")
@pytest.mark.parametrize(("form", "body"), [
    (LabelBody, {"entry_id": "e"}), (LabelBody, {"label": "x"}), (LabelBody, {"entry_id": 1, "label": None}),
    (BranchBody, {}), (BranchBody, {"entry_id": "e", "label": "x"}), (ForkBody, {"entry": "e"}),
    (ImportBody, {"content": ""}), (ImportBody, {"content": b"x", "agent_id": "a", "version": 3}),
])
def test_a_body_with_missing_or_unknown_fields_is_refused(form: Any, body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, form)


@pytest.mark.req("X-6")
def test_only_null_removes_a_label_and_a_fork_begins_at_the_leaf_by_default() -> None:
    assert msgspec.convert({"entry_id": "e", "label": None}, LabelBody).label is None
    assert msgspec.convert({}, ForkBody).entry_id is None


@pytest.mark.req("X-4")
def test_a_finding_has_its_known_places() -> None:
    assert msgspec.json.encode(Finding(kind="torn_tail", line=3)) == b'{"kind":"torn_tail","line":3}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "strange"}, Finding)


@pytest.mark.req("X-1")
def test_a_root_has_an_explicit_parent_of_null() -> None:
    assert msgspec.json.encode(TreeNode("e", None, "message")) == b'{"id":"e","parent_id":null,"type":"message"}'
