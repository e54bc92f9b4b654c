"""Requests on policy rules and their decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.protocol.answers import Explanation
from interlock.protocol.api.policy import (
    DECIDE,
    GET_POLICY,
    LIST_REMEMBERED_RULES,
    REPLAY_POLICY,
    REVOKE_REMEMBERED_RULE,
)
from interlock.protocol.bodies import ReplayBody, RevokeRuleBody
from interlock.protocol.policy_replay import PolicyReplay
from interlock.protocol.resources import RememberedRule
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain, read


def decide(agent: str, **subject: str | int | None) -> RequestSpec[Explanation]:
    """Return how the rules decide a call; `subject` takes the parameters of `GET /v1/policy/decision`."""
    return read(DECIDE, agent=agent, **subject)


def replay_policy(rules: Sequence[Mapping[str, Any]] | None = None, *, session_id: str | None = None,
                  sessions: int = 20, calls: int = 200, changed: bool = False, idempotency_key: str | None = None
                  ) -> RequestSpec[PolicyReplay]:
    """Evaluate rules, as `[[policy.rules]]` has them, on recorded tool calls; without `rules` those in force. With
    `changed` only calls that would be decided otherwise. Nothing is changed."""
    return change(REPLAY_POLICY, body=ReplayBody(
        rules=[dict(rule) for rule in rules] if rules is not None else None, session_id=session_id, sessions=sessions,
        calls=calls, changed=changed), key=idempotency_key)


def revoke_rule(rule_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RememberedRule]:
    """Revoke a remembered rule."""
    return change(REVOKE_REMEMBERED_RULE, rule_id, body=RevokeRuleBody(), key=idempotency_key)


class PolicyMethods(ApiResource[LinkT]):
    """Policy rules, and their decisions."""

    get = SingleRequest(plain(GET_POLICY, "Return every rule in force, in the order in which they decide."))
    decide = SingleRequest(decide)
    replay = SingleRequest(replay_policy)
    remembered = SingleRequest(plain(LIST_REMEMBERED_RULES,
        "Return the remembered rules: what people answered always or never to."))
    revoke = SingleRequest(revoke_rule)
