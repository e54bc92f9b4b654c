"""Rules, decisions and replays of them."""

from __future__ import annotations

from interlock.protocol.answers import Explanation, PolicyRules, RuleList
from interlock.protocol.api.operation import ADMINS, AUDITORS, OPERATORS, READERS, Operation
from interlock.protocol.bodies import ReplayBody, RevokeRuleBody
from interlock.protocol.policy_replay import PolicyReplay
from interlock.protocol.resources import RememberedRule

GET_POLICY = Operation(
    "getPolicy", "GET", "/policy",
    "Every rule in force in the order in which they are asked.",
    roles=READERS, answers=PolicyRules,
    verb="policy show")
DECIDE = Operation(
    "decide", "GET", "/policy/decision",
    "What the rules say of a call that is described by the query (P-1). With the `session_id` of a session that there "
    "is, `permission`, `box` and `cost_usd` are that session's own where the query does not give them.",
    roles=READERS,
    query=("door", "agent", "tool", "kind", "command", "path", "input", "subject", "workspace",
           "origin", "permission", "box", "type", "session_id", "cost_usd", "runner", "person"),
    answers=Explanation,
    verb="policy test")
LIST_REMEMBERED_RULES = Operation(
    "listRememberedRules", "GET", "/policy/rules",
    "What people always allow or never allow, revoked ones too (A-9).",
    roles=READERS, answers=RuleList,
    verb="policy rules")
REVOKE_REMEMBERED_RULE = Operation(
    "revokeRememberedRule", "POST", "/policy/rules/{rule_id}/revoke",
    "The rule decides nothing from now on; a revoked one stays so.",
    roles=ADMINS, body=RevokeRuleBody, body_optional=True, answers=RememberedRule,
    verb="policy forget")
REPLAY_POLICY = Operation(
    "replayPolicy", "POST", "/policy/replay",
    "Recorded calls, each with what was decided and what these rules would decide. It changes nothing and opens no "
    "approval.",
    roles=OPERATORS | AUDITORS, body=ReplayBody, body_optional=True, answers=PolicyReplay, codes=("NotFound",),
    verb="policy replay")
