"""The agent card: the public one reveals nothing beyond its URL, and the tag changes with its content (O-9)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.gateway.a2a.card import PUSH_SIGNATURES, card_of, etag_of
from interlock.protocol.resources import Node

pytestmark = pytest.mark.req("O-9")


def node(name: str) -> Node:
    return Node(node_id=name, device_name=name, status="online", last_seen="", capabilities=[],
                active_sessions_count=0, config_versions={})


def test_the_public_card_does_not_reveal_whether_the_agent_exists() -> None:
    there, elsewhere = card_of("claude", "https://g.example"), card_of("goose", "https://g.example")

    assert {name for name in there if there[name] != elsewhere[name]} == {"name", "description", "supportedInterfaces"}
    assert "runs on" not in there["description"]
    assert [one["url"] for one in there["supportedInterfaces"]] == ["https://g.example/a2a/claude"] * 2
    assert {one["protocolBinding"] for one in there["supportedInterfaces"]} == {"JSONRPC", "HTTP+JSON"}


def test_an_authenticated_card_names_the_hosts_in_order() -> None:
    card = card_of("claude", "https://g.example", [node("zeta"), node("alpha")])

    assert card["description"].endswith("It runs on alpha, zeta.")


def test_push_notifications_are_offered_only_with_the_key_that_checks_them() -> None:
    without, with_key = card_of("claude", "https://g.example"), card_of("claude", "https://g.example", push_key="KEY")

    assert not without["capabilities"]["pushNotifications"]
    assert "extensions" not in without["capabilities"]
    assert with_key["capabilities"]["pushNotifications"]
    (extension,) = with_key["capabilities"]["extensions"]
    assert (extension["uri"], extension["params"]) == (PUSH_SIGNATURES, {"publicKey": "KEY"})


def test_the_entity_tag_changes_with_the_cards_content() -> None:
    card: dict[str, Any] = card_of("claude", "https://g.example")

    assert etag_of(card) == etag_of(dict(card))
    assert etag_of(card) != etag_of({**card, "version": "0"})
    assert etag_of(card)[0] == etag_of(card)[-1] == '"'
