"""Whether a chat is answered at all: `sendPolicy` (R-4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from interlock.session.chat.chat_route import Chat, ChatType
from interlock.session.store.entry import SendPolicy


class SendRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`[[session.sendPolicy.rules]]`: chats that match all fields that are set are answered, or not."""

    action: SendPolicy
    channel: str | None = None
    chat_type: ChatType | None = None
    key_prefix: str | None = None


class SendRules(NamedTuple):
    """`session.sendPolicy`: the first rule that matches, otherwise `default`."""

    default: SendPolicy = "allow"
    rules: Sequence[SendRule] = ()


def may_send(rules: SendRules, own: SendPolicy | None, chat: Chat, key: str) -> bool:
    """Return whether a chat is answered: by its own entry, otherwise by the first rule that matches, otherwise by the
    default."""
    fitting = (rule.action for rule in rules.rules if _fits(rule, chat, key))
    return (own or next(fitting, rules.default)) == "allow"


def _fits(rule: SendRule, chat: Chat, key: str) -> bool:
    return ((rule.channel is None or rule.channel.lower() == chat.channel.lower())
            and (rule.chat_type is None or rule.chat_type == chat.chat_type)
            and (rule.key_prefix is None or key.startswith(rule.key_prefix)))
