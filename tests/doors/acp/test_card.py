"""Approvals as text in a conversation: shown completely in a fence that they cannot close, or not shown (H-4, O-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.doors.acp import card
from interlock.doors.acp.card import CARD_CHARS, ShownCards, card_of, is_whole
from interlock.protocol.resources import Actor, Approval

pytestmark = pytest.mark.req("O-5", "H-4")


def approval(id_: str = "apr_1", digest: str = "d1", **fields: Any) -> Approval:
    given = {"door": "tool", "state": "pending", "created_at": "2026-01-01T00:00:00.000Z",
             "expires_at": "2026-01-01T01:00:00.000Z", "title": "run it", "session_id": "s1", "tenant_id": "t1",
             "requested_by": Actor(type="agent", id="shell"), "agent_id": "shell", "rule": "default", "required": 1,
             "self_approval": True, "tool_name": "shell", "input": msgspec.Raw(b'{"command":"ls"}'), **fields}
    return Approval(id=id_, digest=digest, **given)


def test_a_shown_card_covers_a_grant_only_if_unchanged() -> None:
    shown = ShownCards()
    shown.add(approval())

    assert shown.covers(approval())
    assert not shown.covers(approval(digest="d2"))
    assert not shown.covers(approval("apr_2"))


def test_only_the_newest_cards_can_be_decided_by_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "CARDS_KEPT", 2)
    shown = ShownCards()
    for name in ("a", "b", "a", "c"):
        shown.add(approval(name))

    assert [shown.covers(approval(name)) for name in "abc"] == [True, False, True]


def test_a_card_shows_the_request_its_rule_and_its_digest_in_a_fence_it_cannot_close() -> None:
    ticks = "`" * 5
    made = card_of(approval(input=msgspec.Raw(msgspec.json.encode({"command": f"echo {ticks}"}))))

    assert made.whole
    fence = "`" * 6
    assert made.text.count(f"{fence}\n") == 1
    assert made.text.endswith(f"\n{fence}")
    assert "rule default" in made.text
    assert "sha256 d1" in made.text
    assert ticks in made.text


def test_a_card_that_is_too_long_is_not_shown_and_names_another_way_to_decide() -> None:
    made = card_of(approval(input=msgspec.Raw(msgspec.json.encode({"command": "x\n" * CARD_CHARS}))))

    assert not made.whole
    assert "interlock approve apr_1" in made.text
    assert len(made.text) < 1_000


def test_an_unreadable_request_is_not_complete() -> None:
    assert is_whole(approval())
    assert not is_whole(approval(subject=msgspec.Raw(b"7")))
