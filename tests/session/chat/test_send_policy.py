"""Whether a chat is answered (R-4): its own entry, else the first rule that fits, else the default."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.session.chat.chat_route import Chat
from interlock.session.chat.send_policy import SendRule, SendRules, may_send

pytestmark = pytest.mark.req("R-4")
KEY = "agent:main:telegram:group:7"
GROUP = Chat(channel="Telegram", chat_type="group", group_id="7")
SILENT = SendRule(action="deny")


@pytest.mark.parametrize(("rule", "fits"), [
    (SILENT, True), (SendRule(action="deny", channel="telegram"), True),
    (SendRule(action="deny", channel="slack"), False), (SendRule(action="deny", chat_type="group"), True),
    (SendRule(action="deny", chat_type="direct"), False), (SendRule(action="deny", key_prefix="agent:main:"), True),
    (SendRule(action="deny", key_prefix="agent:other:"), False),
    (SendRule(action="deny", channel="telegram", chat_type="direct"), False),
])
def test_a_rule_matches_a_chat_with_all_its_fields(rule: SendRule, fits: bool) -> None:
    assert may_send(SendRules(rules=[rule]), None, GROUP, KEY) is not fits


def test_the_first_matching_rule_decides_and_otherwise_the_default() -> None:
    allow = SendRule(action="allow", channel="telegram")
    assert may_send(SendRules("deny", [allow, SILENT]), None, GROUP, KEY)
    assert not may_send(SendRules("allow", [SILENT, allow]), None, GROUP, KEY)
    assert not may_send(SendRules("deny"), None, GROUP, KEY)
    assert may_send(SendRules(), None, GROUP, KEY)


def test_the_sessions_own_policy_takes_precedence_over_every_rule() -> None:
    assert may_send(SendRules(rules=[SILENT]), "allow", GROUP, KEY)
    assert not may_send(SendRules(), "deny", GROUP, KEY)


@pytest.mark.parametrize("table", [{}, {"action": "maybe"}, {"action": "deny", "chat_type": "group"},
                                   {"action": "deny", "chatType": "dm"}, {"action": "deny", "peer": "x"}])
def test_a_rule_with_an_unknown_action_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(table, SendRule)
