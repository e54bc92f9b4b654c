"""From a chat to its key and its agent (R-1, R-2, R-3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.session.chat.chat_route import (
    BadChat,
    Binding,
    Chat,
    DmScope,
    Naming,
    agent_for,
    chat_key,
    cron_key,
    hook_key,
)
from interlock.session.keys import canonical_key

ANN = Chat("Telegram", "direct", account_id="work", peer="ann")


@pytest.mark.req("R-1")
@pytest.mark.parametrize(("chat", "key"), [
    (Chat("Discord", "group", group_id="g1"), "agent:a:discord:group:g1"),
    (Chat("discord", "room", group_id="r1"), "agent:a:discord:room:r1"),
    (Chat("slack", "channel", group_id="C42"), "agent:a:slack:channel:C42"),
    (Chat("slack", "channel", group_id="C42", thread_id="17.5"), "agent:a:slack:channel:C42:thread:17.5"),
    (Chat("telegram", "group", group_id="-100", topic_id="7"), "agent:a:telegram:group:-100:topic:7"),
    (ANN, "agent:a:main"),
    (ANN._replace(thread_id="t"), "agent:a:main:thread:t"),
])
def test_a_chats_key_names_its_channel_kind_and_id(chat: Chat, key: str) -> None:
    assert chat_key(chat, "A") == key


@pytest.mark.req("R-1")
@pytest.mark.parametrize(("scope", "key"), [
    ("main", "agent:a:main"),
    ("per-peer", "agent:a:dm:ann"),
    ("per-channel-peer", "agent:a:telegram:dm:ann"),
    ("per-account-channel-peer", "agent:a:telegram:work:dm:ann"),
])
def test_direct_messages_are_separated_by_the_configured_scope(scope: DmScope, key: str) -> None:
    assert chat_key(ANN, "a", Naming(scope)) == key


@pytest.mark.req("R-1")
def test_keys_of_cron_hooks_and_main_sessions() -> None:
    assert cron_key("a", "nightly build") == "agent:a:cron:nightly%20build"
    assert hook_key("a", "u1") == "agent:a:hook:u1"


@pytest.mark.req("R-1")
@pytest.mark.parametrize("scope", ["per-peer", "per-channel-peer", "per-account-channel-peer"])
def test_linked_peers_are_one_person_on_every_channel(scope: DmScope) -> None:
    naming = Naming(scope, {"alice": ["telegram:ann", "discord:4711"]})
    assert chat_key(ANN, "a", naming) == chat_key(Chat("discord", "direct", peer="4711"), "a", naming)
    assert chat_key(ANN, "a", naming) == "agent:a:dm:alice"
    assert chat_key(ANN, "a", naming._replace(dm_scope="main")) == "agent:a:main"


@pytest.mark.req("R-1")
def test_a_stranger_with_a_linked_persons_name_gets_another_session() -> None:
    naming = Naming("per-peer", {"alice": ["telegram:ann"]})
    assert chat_key(Chat("irc", "direct", peer="alice"), "a", naming) == "agent:a:irc:dm:alice"
    # A link names the channel too: the same id on another channel is another person.
    assert chat_key(Chat("irc", "direct", peer="ann"), "a", naming) == "agent:a:dm:ann"


@pytest.mark.req("R-1")
def test_a_chat_without_its_id_has_no_key() -> None:
    with pytest.raises(BadChat, match="needs its id"):
        chat_key(Chat("irc", "group", peer="ann"), "a")
    with pytest.raises(BadChat, match="who writes"):
        chat_key(Chat("irc", "direct"), "a", Naming("per-peer"))


ids = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
scopes = st.sampled_from(("per-peer", "per-channel-peer", "per-account-channel-peer"))


@pytest.mark.req("R-1", "R-2")
@given(ids, ids, st.sampled_from(("group", "room", "channel", "direct")), scopes)
def test_keys_are_canonical_and_no_id_can_imitate_another_part(
    one: str, other: str, chat_type: str, scope: DmScope
) -> None:
    def key(place: str, thread: str | None) -> str:
        chat = Chat("irc", chat_type, account_id=other, peer=place, group_id=place, thread_id=thread)  # type: ignore[arg-type]
        return chat_key(chat, "a", Naming(scope))

    made = key(one, other)
    assert canonical_key(made, "default") == made
    assert key(f"{one}:thread:{other}", None) != made


def bound(*, agent: str = "won", **fields: str) -> Binding:
    return Binding(agent=agent, **fields)


CHAT = Chat("Slack", "channel", account_id="acc", peer="p", group_id="g", parent_peer="pp", guild_id="gu", team_id="t")


@pytest.mark.req("R-3")
@pytest.mark.parametrize(("stronger", "weaker"), [
    ({"peer": "p"}, {"parent_peer": "pp", "group_id": "g", "channel": "slack"}),
    ({"parent_peer": "pp"}, {"group_id": "g"}),
    ({"group_id": "g"}, {"team_id": "t"}),
    ({"guild_id": "gu"}, {"team_id": "t"}),
    ({"team_id": "t"}, {"account_id": "acc"}),
    ({"account_id": "acc"}, {"channel": "slack"}),
    ({"channel": "SLACK"}, {}),
    ({"group_id": "g", "account_id": "acc"}, {"group_id": "g"}),
])
def test_the_most_specific_binding_selects_the_agent(stronger: dict[str, str], weaker: dict[str, str]) -> None:
    bindings = [bound(agent="lost", **weaker), bound(**stronger)]
    assert agent_for(CHAT, bindings, "default") == "won"
    assert agent_for(CHAT, bindings[::-1], "default") == "won"


@pytest.mark.req("R-3")
def test_a_binding_matches_only_if_all_its_fields_match() -> None:
    assert agent_for(CHAT, [bound(peer="p", channel="irc")], "Default") == "default"
    assert agent_for(CHAT, [bound(agent="first", channel="slack"), bound(channel="slack")], "x") == "first"
