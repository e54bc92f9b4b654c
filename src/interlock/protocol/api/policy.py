"""Rules, decisions and replays of them."""

from __future__ import annotations

from interlock.protocol.answers import Explanation, PolicyRules, RuleList
from interlock.protocol.api.operation import ADMINS, AUDITORS, OPERATORS, READERS, Operation
from interlock.protocol.bodies import ReplayBody, RevokeRuleBody
from interlock.protocol.policy_replay import PolicyReplay
from interlock.protocol.resources import RememberedRule

GET_POLICY = Operation(
    "getPolicy", "GET", "/policy",
    "Return every rule in force, in the order of evaluation.",
    roles=READERS, answers=PolicyRules,
    verb="policy show")
DECIDE = Operation(
    "decide", "GET", "/policy/decision",
    "Evaluate the rules for the call that the query describes (P-1). With the `session_id` of an existing session, "
    "`permission`, `box` and `cost_usd` default to that session's values.",
    roles=READERS,
    query=("door", "agent", "tool", "kind", "command", "path", "input", "subject", "workspace",
           "origin", "permission", "box", "type", "session_id", "cost_usd", "runner", "person"),
    answers=Explanation,
    verb="policy test")
LIST_REMEMBERED_RULES = Operation(
    "listRememberedRules", "GET", "/policy/rules",
    "List the rules that people created by always or never allowing something, including revoked ones (A-9).",
    roles=READERS, answers=RuleList,
    verb="policy rules")
REVOKE_REMEMBERED_RULE = Operation(
    "revokeRememberedRule", "POST", "/policy/rules/{rule_id}/revoke",
    "Revoke a remembered rule permanently.",
    roles=ADMINS, body=RevokeRuleBody, body_optional=True, answers=RememberedRule,
    verb="policy forget")
REPLAY_POLICY = Operation(
    "replayPolicy", "POST", "/policy/replay",
    "Evaluate recorded calls against these rules, and return each recorded decision with the new one. Nothing is "
    "changed, and no approval is opened.",
    roles=OPERATORS | AUDITORS, body=ReplayBody, body_optional=True, answers=PolicyReplay, codes=("NotFound",),
    verb="policy replay")
