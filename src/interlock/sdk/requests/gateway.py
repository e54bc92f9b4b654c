"""The gateway itself, its runners, policy, audit log and webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from interlock.protocol.answers import (
    Arrived,
    AuditLine,
    AuditPage,
    ConsistencyProof,
    DeliveryList,
    DrainList,
    Erased,
    Explanation,
    Health,
    InclusionProof,
    Pruned,
    Readiness,
    Resumed,
)
from interlock.protocol.api.audit import (
    ERASE_AUDIT,
    GET_AUDIT_RECORD,
    PROVE_CONSISTENCY,
    PROVE_INCLUSION,
    READ_AUDIT,
    RESUME_SIGNING,
)
from interlock.protocol.api.commands import DRAIN, UNDRAIN
from interlock.protocol.api.policy import (
    DECIDE,
    REPLAY_POLICY,
    REVOKE_REMEMBERED_RULE,
)
from interlock.protocol.api.runners import OFFER_PAIRING, PAIR_RUNNER, REVOKE_RUNNER, ROTATE_RUNNER
from interlock.protocol.api.upkeep import PRUNE
from interlock.protocol.api.webhooks import (
    GET_USAGE,
    LIST_DELIVERIES,
    RETRY_DELIVERY,
    TEST_WEBHOOK,
)
from interlock.protocol.bodies import (
    PairBody,
    PairingBody,
    PruneBody,
    ReplayBody,
    RevokeRuleBody,
    RunnerBody,
    WebhookBody,
)
from interlock.protocol.drains import DrainBody, DrainScope
from interlock.protocol.policy_replay import PolicyReplay
from interlock.protocol.resources import (
    AuditErasureBody,
    AuditResumeBody,
    Delivery,
    DeliveryState,
    PairingCode,
    RememberedRule,
    Runner,
    RunnerToken,
    UsageDimension,
    UsageReport,
)
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import change, document, read


def alive() -> RequestSpec[Health]:
    """Whether the gateway's process answers."""
    return document("/healthz", Health)


def ready() -> RequestSpec[Readiness]:
    """Whether the gateway can work: its ledger writes, its lanes are up, and whether it is being drained. One that is
    not ready says so here, and nothing is raised."""
    return replace(document("/readyz", Readiness), also=frozenset({503}))


def description() -> RequestSpec[dict[str, Any]]:
    """The OpenAPI document."""
    return document("/openapi.json", dict[str, Any])


def drain(scope: DrainScope, *, id: str | None = None, reason: str | None = None,  # noqa: A002 - the API's name
          idempotency_key: str | None = None) -> RequestSpec[DrainList]:
    """Let what runs finish and start nothing new, in the tenant, a runner, an agent or a session (C-5)."""
    return change(DRAIN, body=DrainBody(scope=scope, id=id, reason=reason), key=idempotency_key)


def undrain(scope: DrainScope, *, id: str | None = None,  # noqa: A002 - the API's name
            idempotency_key: str | None = None) -> RequestSpec[DrainList]:
    """Have what waits start."""
    return change(UNDRAIN, body=DrainBody(scope=scope, id=id), key=idempotency_key)


def usage(*, from_: str | None = None, to: str | None = None, by: Sequence[UsageDimension] = ("day",),
          agent: str | None = None, model: str | None = None, session: str | None = None, person: str | None = None,
          limit: int | None = None) -> RequestSpec[UsageReport]:
    """What agents reported to have used, apart by `by`. `from_` and `to` are days of UTC, such as 2026-11-25, the last
    one included; left out they are the last 30 (J-13)."""
    return read(GET_USAGE, to=to, by=",".join(by), agent=agent, model=model, session=session, person=person,
                limit=limit, **{"from": from_})


# --- runners ---
def offer_pairing(*, device_name: str = "", idempotency_key: str | None = None) -> RequestSpec[PairingCode]:
    """A code that pairs one runner."""
    return change(OFFER_PAIRING, body=PairingBody(device_name=device_name), key=idempotency_key)


def pair(code: str, *, device_name: str = "") -> RequestSpec[RunnerToken]:
    """Use a pairing code. It answers once, so this is never sent a second time."""
    return change(PAIR_RUNNER, body=PairBody(code=code, device_name=device_name))


def rotate_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RunnerToken]:
    """Another token for a runner."""
    return change(ROTATE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


def revoke_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Runner]:
    """Shut a runner out for good."""
    return change(REVOKE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


# --- policy ---
def decide(agent: str, **subject: str | int | None) -> RequestSpec[Explanation]:
    """What the rules say of a call; `subject` takes the parameters of `GET /v1/policy/decision`."""
    return read(DECIDE, agent=agent, **subject)


def replay_policy(rules: Sequence[Mapping[str, Any]] | None = None, *, session_id: str | None = None,
                  sessions: int = 20, calls: int = 200, changed: bool = False, idempotency_key: str | None = None
                  ) -> RequestSpec[PolicyReplay]:
    """Hold rules, as `[[policy.rules]]` has them, against recorded tool calls; without `rules` those in force. With
    `changed` only calls that would be decided otherwise. Nothing is changed."""
    return change(REPLAY_POLICY, body=ReplayBody(
        rules=[dict(rule) for rule in rules] if rules is not None else None, session_id=session_id, sessions=sessions,
        calls=calls, changed=changed), key=idempotency_key)


def revoke_rule(rule_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RememberedRule]:
    """Have a remembered rule decide nothing any more."""
    return change(REVOKE_REMEMBERED_RULE, rule_id, body=RevokeRuleBody(), key=idempotency_key)


# --- audit ---
def audit(*, since: str | None = None, limit: int | None = None, order: Literal["oldest", "newest"] | None = None,
          actor: str | None = None, action: str | None = None, command: str | None = None, session: str | None = None,
          approval: str | None = None, from_: str | None = None, to: str | None = None) -> RequestSpec[AuditPage]:
    """A page of the audit log, oldest first unless `order` says otherwise. `from_` and `to` are ISO 8601 instants. A
    page of a search may be short, or empty, while `has_more` says that there are more."""
    return read(READ_AUDIT, since=since, limit=limit, order=order, actor=actor, action=action,
                command=command, session=session, approval=approval, to=to, **{"from": from_})


def audit_record(seq: int) -> RequestSpec[AuditLine]:
    """One record of the audit log."""
    return read(GET_AUDIT_RECORD, str(seq))


def prove_inclusion(seq: int, *, size: int | None = None) -> RequestSpec[InclusionProof]:
    """That a record is in the tree of `size` records."""
    return read(PROVE_INCLUSION, seq=seq, size=size)


def prove_consistency(first: int, *, second: int | None = None) -> RequestSpec[ConsistencyProof]:
    """That one tree is the beginning of another."""
    return read(PROVE_CONSISTENCY, first=first, second=second)


def erase(*, records: Sequence[int] | None = None, who: str | None = None, idempotency_key: str | None = None
          ) -> RequestSpec[Erased]:
    """Forget the personal data of some records, or of all that one person caused."""
    body = AuditErasureBody(records=list(records) if records is not None else None, who=who)
    return change(ERASE_AUDIT, body=body, key=idempotency_key)


def resume_signing(size: int, root: str, *, reason: str | None = None, idempotency_key: str | None = None
                   ) -> RequestSpec[Resumed]:
    """Accept the first `size` records of a log that cannot be signed, under this root, and have it signed again."""
    body = AuditResumeBody(size=size, root=root, reason=reason)
    return change(RESUME_SIGNING, body=body, key=idempotency_key)


def prune(older_than_ms: int, *, dry_run: bool | None = None,
          idempotency_key: str | None = None) -> RequestSpec[Pruned]:
    """Forget frames, events and files of sessions whose last turn is older; with `dry_run` only count them."""
    body = PruneBody(older_than_ms=older_than_ms, dry_run=bool(dry_run))
    return change(PRUNE, body=body, key=idempotency_key)


# --- webhooks ---
def deliveries(*, state: DeliveryState | None = None, limit: int | None = None) -> RequestSpec[DeliveryList]:
    """What went out; `state="dead"` is what never arrived."""
    return read(LIST_DELIVERIES, state=state, limit=limit)


def retry_delivery(delivery_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Delivery]:
    """Send what never arrived again."""
    return change(RETRY_DELIVERY, delivery_id, body=WebhookBody(), key=idempotency_key)


def try_webhook(name: str, *, idempotency_key: str | None = None) -> RequestSpec[Arrived]:
    """Send a message that asks nothing."""
    return change(TEST_WEBHOOK, name, body=WebhookBody(), key=idempotency_key)
