"""Routing of a chat to its session key and its agent (R-1, R-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from interlock.session.keys import MAIN_KEY, canonical_agent

ChatType = Literal["direct", "group", "room", "channel"]
DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]


class Chat(NamedTuple):
    """The chat of a message. Ids are the channel's own; `guild_id` and `team_id` are what the chat belongs to."""

    channel: str
    chat_type: ChatType
    account_id: str | None = None
    peer: str | None = None
    group_id: str | None = None
    thread_id: str | None = None
    topic_id: str | None = None
    parent_peer: str | None = None
    guild_id: str | None = None
    team_id: str | None = None

    @property
    def place(self) -> str:
        """Return the id of the chat itself: the peer of a direct one, otherwise the group's."""
        return (self.peer if self.chat_type == "direct" else self.group_id) or ""


class BadChat(ValueError):
    """Raised if a chat lacks a part of its key: (field, sentence)."""


class Binding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[bindings]]`: chats that match all fields that are set are routed to `agent` (R-3)."""

    agent: str
    channel: str | None = None
    account_id: str | None = None
    team_id: str | None = None
    guild_id: str | None = None
    group_id: str | None = None
    parent_peer: str | None = None
    peer: str | None = None

    def __post_init__(self) -> None:
        canonical_agent(self.agent)


_RANKS = (("peer",), ("parent_peer",), ("group_id", "guild_id"), ("team_id",), ("account_id",), ("channel",))
"""The most specific first (R-3)."""


def agent_for(chat: Chat, bindings: Sequence[Binding], default_agent: str) -> str:
    """Return the agent that answers a chat: by the most specific binding that matches; of two, by the one with more
    fields, then by the first."""
    fitting = [binding for binding in bindings if _fits(binding, chat)]
    return canonical_agent(min(fitting, key=_rank).agent) if fitting else canonical_agent(default_agent)


def _fits(binding: Binding, chat: Chat) -> bool:
    matched = {name: value for names in _RANKS for name in names if (value := getattr(binding, name)) is not None}
    if "channel" in matched:
        matched["channel"] = matched["channel"].lower()
    lowered = chat._replace(channel=chat.channel.lower())
    return all(getattr(lowered, name) == value for name, value in matched.items())


def _rank(binding: Binding) -> tuple[int, int]:
    matched = [any(getattr(binding, name) is not None for name in names) for names in _RANKS]
    return (matched.index(True) if True in matched else len(matched)), -sum(matched)


class Naming(NamedTuple):
    """The config of keys. `links` maps people's names to their `channel:peer` ids (identity links)."""

    dm_scope: DmScope = "main"
    links: Mapping[str, Sequence[str]] = {}


MAIN_ALONE = Naming()
"""All direct messages to an agent in its main session."""


def chat_key(chat: Chat, agent_id: str, naming: Naming = MAIN_ALONE) -> str:
    """Return the session key of a chat (R-1). Raises BadChat if it lacks the id that its key is made of."""
    scope = _direct(chat, naming) if chat.chat_type == "direct" else _shared(chat)
    thread = [*(["thread", _part(chat.thread_id)] if chat.thread_id else []),
              *(["topic", _part(chat.topic_id)] if chat.topic_id else [])]
    return _key(agent_id, *scope, *thread)


def cron_key(agent_id: str, job_id: str) -> str:
    """Return the session key of a cron job."""
    return _key(agent_id, "cron", _part(job_id))


def hook_key(agent_id: str, uuid: str) -> str:
    """Return the session key of one delivery of a hook that names no key."""
    return _key(agent_id, "hook", uuid)


def _shared(chat: Chat) -> list[str]:
    if not chat.group_id:
        raise BadChat("group_id", f"a chat of type {chat.chat_type} needs its id")
    return [_channel(chat), chat.chat_type, _part(chat.group_id)]


def _direct(chat: Chat, naming: Naming) -> list[str]:
    if naming.dm_scope == "main":
        return [MAIN_KEY]
    if not chat.peer:
        raise BadChat("peer", "a direct chat needs the id of who writes")
    named = f"{chat.channel.lower()}:{chat.peer}"
    person = next((name for name, peers in naming.links.items() if named in peers), None)
    if person is not None:
        return ["dm", _part(person)]
    peer = _part(chat.peer)
    # A peer that only has the same name as a linked person must not get that person's session.
    scope = "per-channel-peer" if naming.dm_scope == "per-peer" and chat.peer in naming.links else naming.dm_scope
    if scope == "per-peer":
        return ["dm", peer]
    if scope == "per-channel-peer":
        return [_channel(chat), "dm", peer]
    return [_channel(chat), _part(chat.account_id or "default"), "dm", peer]


def _channel(chat: Chat) -> str:
    return _part(chat.channel.lower())


def _key(agent_id: str, *parts: str) -> str:
    return ":".join(("agent", canonical_agent(agent_id), *parts))


def _part(text: str) -> str:
    """Escape an id so that it stays one part of a key: separators and invisible characters are escaped as in a URL.

    Otherwise the group `a:thread:b` would be the thread `b` of the group `a`.
    """
    return "".join(c if c.isprintable() and c not in ": %" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))
