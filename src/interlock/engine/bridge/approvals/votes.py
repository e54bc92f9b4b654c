"""Votes in a lane: counting, withdrawal, votes on a changed input, remembering as a rule (P-2, P-3, P-4, A-9); and the
chats in which bridges ask for them (J-5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from interlock.command.approval import Ballot, check, count, named, withdraw
from interlock.command.audit.register import bound
from interlock.command.card.lines import prompt_title
from interlock.command.card.permission_request import request_of_approval, with_input
from interlock.command.policy.policy import PolicyVerdict, RuleSet
from interlock.command.policy.remembered_rule import plain, rule_of
from interlock.command.signature import Statement, stricter, verify
from interlock.engine.bridge.approvals import workspace_trust
from interlock.engine.bridge.approvals.approvals import accepts_change, open_approval, release
from interlock.engine.bridge.approvals.policy_subjects import judged, quorums, subject_of_approval
from interlock.engine.bridge.commands import budget_decisions
from interlock.engine.bridge.lane import Lane
from interlock.ports.ledger import Put
from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.limits import MAX_CARDS, MAX_PROMPT_BYTES
from interlock.protocol.problems import Place, Problem, malformed
from interlock.protocol.records import ApprovalRecord, Principal, RuleRecord
from interlock.protocol.resources import Approval, ApprovalCard, GrantBody, Quorum, RememberedRule, SigningKey

MAX_COMMENT_CHARS = 8_000
"""A comment is sent to the agent with the answer, so both must fit a frame (L-2)."""


class VoteContext(NamedTuple):
    """What a vote is checked against: the rules in force, the key that it names, and the number of remembered rules."""

    policy: RuleSet
    key: SigningKey | None = None
    remembered: int = 0


_TERMS = ("rule", "required", "groups", "deny_threshold", "self_approval", "signed",
          "require_independent", "dangerous")
"""What an approval requires of its voters, and the rule that requires it."""
MAX_REMEMBERED_RULES = 1_000
"""Remembered rules of a tenant that are in force at one time: every call is matched against them."""


def vote(lane: Lane, principal: Principal, approval_id: str, body: GrantBody, context: VoteContext) -> Approval:
    """Count a vote; vote, release, event and audit record are one decision (P-5). Raises Problem."""
    record = _pending(lane, approval_id)
    if record.approval.kind == "question":
        raise Problem("Conflict", f"{approval_id} is a question of the agent: it is answered, not voted on",
                      hint="Answer it with POST /v1/approvals/{id}/answers, or `interlock answer ID TEXT`.")
    if len(body.comment or "") > MAX_COMMENT_CHARS:
        raise malformed("/comment", f"a comment has at most {MAX_COMMENT_CHARS} characters")
    ballot = _ballot(lane, principal, record.approval, body, context.key)
    if isinstance(body.updated_input, msgspec.Raw):
        if check(record.approval, ballot) is not None:
            raise Problem("Conflict", f"{named(ballot.by)} has already granted approval {approval_id} as it is",
                          hint="Take that vote back first.")
        ballot = ballot._replace(digest=None)
        record = _supersede(lane, record, ballot, body, context.policy, _who(principal))
    counted = count(record.approval, ballot)
    if counted.outcome == "repeated":
        return counted.approval
    who = _who(principal)
    approval = counted.approval
    if body.remember is not None:
        if approval.budget is not None:
            raise malformed("/remember", "a yes to a budget holds for this turn or this day alone",
                          hint="Vote without remember, or raise the budget in the config.")
        if approval.workspace_files:
            raise malformed("/remember", "a yes to these files is remembered by itself until they change",
                            hint="Vote without remember; see and revoke it with `interlock trust`.")
        if counted.outcome == "counted":
            raise Problem("Conflict", "One vote does not decide this approval, so one person's always cannot "
                          "replace it", hint="Vote without remember.")
        approval = _remember(lane, msgspec.structs.replace(record, approval=approval), principal, body, context)
    if approval.workspace_files and counted.outcome == "granted":
        approval = workspace_trust.remember(lane, approval, named(principal.actor), who, context.remembered,
                                            MAX_REMEMBERED_RULES)
    kept = lane.keep_approval(msgspec.structs.replace(record, approval=approval))
    lane.audit("vote", who, _vote_meta(approval, ballot, body), command_id=approval.command_id, approval_id=approval.id,
               personal={"comment": body.comment})
    if counted.outcome == "counted":
        lane.feed_approval(kept, who["id"])
    else:
        lane.record_approval(kept, who)
        if approval.budget is not None:
            budget_decisions.decided(lane, approval, who)
        elif approval.workspace_files:
            workspace_trust.decided(lane, approval, who)
        else:
            release(lane, approval, who)
    return approval


def take_back(lane: Lane, principal: Principal, approval_id: str) -> Approval:
    """Withdraw a vote that has decided nothing yet (P-3). Raises Problem Conflict."""
    record = _pending(lane, approval_id)
    approval = withdraw(record.approval, principal.actor, lane.at, principal.driver)
    kept = lane.keep_approval(msgspec.structs.replace(record, approval=approval))
    (taken,) = (now.by for before, now in zip(record.approval.votes, approval.votes, strict=True) if before != now)
    meta = {"digest": approval.digest, **({"vote_of": taken} if taken != named(principal.actor) else {})}
    lane.audit("withdraw", _who(principal), meta, command_id=approval.command_id, approval_id=approval_id)
    lane.feed_approval(kept, _who(principal)["id"])
    return approval


def _pending(lane: Lane, approval_id: str) -> ApprovalRecord:
    lane.check_controlled()
    record = lane.approvals.get(approval_id)
    if record is None:
        raise Problem("Conflict", f"Approval {approval_id} is decided; this vote was not counted")
    return record


def _ballot(lane: Lane, principal: Principal, approval: Approval, body: GrantBody, key: SigningKey | None) -> Ballot:
    """Return the vote as it is counted. A signature covers the digest that it was made on, and is checked first
    (P-4)."""
    ballot = Ballot(by=principal.actor, decision=body.decision, at=lane.at, comment=body.comment, digest=body.digest,
                    role=principal.role, driver=principal.driver, option_id=body.option_id,
                    key_makers=principal.key_makers)
    if body.method == "acl":
        return ballot
    if body.option_id is not None:
        raise malformed("/option_id", "a signature covers a yes or a no, not how the agent hears it",
                        hint="Vote without option_id, or with method acl.")
    if isinstance(body.updated_input, msgspec.Raw):
        raise malformed("/updated_input", "a signature covers what was asked, not what it is changed to",
                      hint="Change the input with method acl, then sign the approval that takes its place.")
    signature = body.signature if body.method == "signature" else body.assertion
    if not body.key_id or not body.at or not signature:
        raise Problem("InvalidPayload", "A vote by signature names key_id, at and signature"
                      if body.method == "signature" else "A vote with a passkey names key_id, at and assertion")
    if key is None:
        raise Problem("Forbidden", f"There is no signing key {body.key_id}; the vote was not counted",
                      hint="Register the key with `interlock signing-keys create`.")
    approver = named(principal.actor)
    statement = Statement(approval.tenant_id, approval.id, approval.digest, body.decision, approver, key.key_id,
                          body.at)
    verify(key, approver, statement, signature, lane.wall)
    return ballot._replace(key_id=key.key_id, passkey=key.passkey is not None)


def _supersede(
    lane: Lane, record: ApprovalRecord, ballot: Ballot, body: GrantBody, policy: RuleSet, who: dict[str, str]
) -> ApprovalRecord:
    """End an approval whose input is changed, and open one for the new digest instead (P-2). Raises Problem, also if
    the changing vote would not count on the new one; nothing has changed then."""
    old = record.approval
    assert isinstance(body.updated_input, msgspec.Raw)
    raw = bytes(body.updated_input)
    _check_change(lane, old, body, raw)
    request = with_input(request_of_approval(old), raw)
    changed = msgspec.structs.replace(old, input=msgspec.Raw(raw), subject=_raw(request.subject))
    subject = subject_of_approval(msgspec.structs.replace(record, approval=changed), lane.wall)
    verdict = policy.decide(subject)
    if verdict.effect == "deny":
        raise Problem("Forbidden", f"Policy rule {verdict.rule} denies the changed input: "
                      f"{verdict.reason or 'no reason'}")
    terms = _terms(old, verdict)
    check(msgspec.structs.replace(changed, votes=[], **terms), ballot)
    opened = open_approval(
        lane, door=old.door, title=request.title if old.door == "tool" else prompt_title(old.agent_id, raw),
        agent_title=old.agent_title, input_bytes=raw, subject_bytes=request.subject,
        ttl_ms=max(1, record.expires_ms - lane.now),
        requested_by=old.requested_by, driver=old.driver, options=old.options, command_id=old.command_id,
        interaction_id=old.interaction_id, invocation_id=old.invocation_id, tool_name=old.tool_name, kind=old.kind,
        accepts_change=True,
        supersedes=old.id, judged=judged(subject, _box(record), fell=lane.state.fell), **terms,
    )
    lane.move_approval(record, "superseded", who, decided_at=lane.at, decided_by=who["id"], superseded_by=opened.id)
    if opened.interaction_id is not None:
        lane.control("x-interlock.interaction.held", p.InteractionHeld(
            interaction_id=opened.interaction_id, approval_id=opened.id, expires_in_ms=record.expires_ms - lane.now))
    return lane.approvals[opened.id]


def _raw(subject: bytes | None) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if subject is None else msgspec.Raw(subject)


def _terms(old: Approval, verdict: PolicyVerdict) -> dict[str, Any]:
    """Return the requirements for a changed input: the previous ones combined with those of the rule that it matches
    now, so that a change never makes an approval easier."""
    before: dict[str, Any] = {name: getattr(old, name) for name in _TERMS}
    if verdict.effect != "ask":
        return before
    mins = {group.role: group.min for group in old.groups}
    for group in verdict.groups:
        mins[group.role] = max(group.min, mins.get(group.role, 0))
    both = {
        "rule": verdict.rule, "required": max(old.required, verdict.required),
        "groups": [Quorum(role=role, min=least) for role, least in mins.items()],
        "deny_threshold": min(old.deny_threshold, verdict.deny_threshold),
        "self_approval": old.self_approval and verdict.self_approval, "signed": stricter(old.signed, verdict.signed),
        "require_independent": old.require_independent or verdict.require_independent,
        "dangerous": old.dangerous or verdict.dangerous,
    }
    now = {**both, "required": verdict.required, "groups": quorums(verdict), "deny_threshold": verdict.deny_threshold,
           "self_approval": verdict.self_approval, "signed": verdict.signed,
           "require_independent": verdict.require_independent, "dangerous": verdict.dangerous}
    if both == now:
        return both
    return {**both, "rule": old.rule if {**both, "rule": old.rule} == before else f"{old.rule} and {verdict.rule}"}


def _check_change(lane: Lane, old: Approval, body: GrantBody, raw: bytes) -> None:
    if old.door != "tool" or old.kind != "permission" or not accepts_change(lane, old.tool_name, old.invocation_id):
        raise Problem("UnsupportedCapability", f"Agent {old.agent_id} does not take a changed input here; "
                      "deny it and say why instead")
    if body.decision != "grant" or body.remember is not None:
        raise malformed("/updated_input", "only a plain grant changes what is asked for")
    try:
        msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        raise Problem("InvalidPayload", "/updated_input: a tool's input is an object",
                      errors=(Place("/updated_input", "not an object"),)) from None
    if len(raw) > MAX_PROMPT_BYTES:
        raise malformed("/updated_input", f"{len(raw)} bytes, the limit is {MAX_PROMPT_BYTES}")


def _remember(
    lane: Lane, record: ApprovalRecord, principal: Principal, body: GrantBody, context: VoteContext
) -> Approval:
    """Store a decisive vote's "always" as a rule, in the vote's own transaction (A-9)."""
    assert body.remember is not None
    approval = record.approval
    if principal.roles.isdisjoint(("admin", "owner")) and body.remember.scope == "rule":
        raise Problem("Forbidden", f"The role {principal.role} decides for this session; a rule of the tenant is kept "
                      "by an admin", hint="Remember it for the session, or vote without remember.")
    if context.remembered >= MAX_REMEMBERED_RULES:
        raise Problem("QuotaExceeded", f"{MAX_REMEMBERED_RULES} rules are remembered already",
                      hint="Revoke some: interlock policy rules.")
    rule = rule_of(approval, subject_of_approval(record, lane.wall), body.decision, body.remember,
                   described=context.policy.remember_described)
    remembered = RememberedRule(id=lane.new_id("rul"), tenant_id=approval.tenant_id, created_at=lane.at,
                                created_by=named(principal.actor), approval_id=approval.id, rule=plain(rule))
    lane.out.writes.append(Put(RuleRecord(rule=remembered)))
    lane.audit("policy_change", _who(principal), {"rule": remembered.id, "change": "remembered", "effect": rule.effect,
                                                  **bound(RuleRecord(rule=remembered))},
               command_id=approval.command_id, approval_id=approval.id)
    return msgspec.structs.replace(approval, remembered=remembered.id)


def _vote_meta(approval: Approval, ballot: Ballot, body: GrantBody) -> dict[str, Any]:
    meta: dict[str, Any] = {"decision": ballot.decision, "digest": approval.digest}
    if ballot.key_id is not None:  # So that a reader of the log can check the signature with the key (P-4).
        meta |= {"key_id": ballot.key_id, "at": body.at, **(
            {"assertion": msgspec.to_builtins(body.assertion)} if ballot.passkey else {"signature": body.signature})}
    if ballot.driver is not None:
        meta["driver"] = named(ballot.driver)
    made_by = approval.votes[-1].key_made_by
    if made_by is not None:  # A reader of the log can see that one person could have cast both sides.
        meta["key_made_by"] = made_by
    if ballot.key_makers:
        meta["key_makers"] = list(ballot.key_makers)
    if ballot.option_id is not None:
        meta["option_id"] = ballot.option_id
    return meta


def _who(principal: Principal) -> dict[str, str]:
    return {"id": named(principal.actor), "role": principal.role}


def _box(record: ApprovalRecord) -> Box | None:
    return record.judged.box if record.judged is not None else None


def report_cards(lane: Lane, principal: Principal, approval_id: str, service: str, chats: Sequence[str]) -> Approval:
    """Replace the chats that a bridge reported for its service. This leaves no audit record, since no decision and no
    permission depends on it. Raises Problem Conflict if the approval has ended, QuotaExceeded above MAX_CARDS."""
    lane.check_controlled()
    record = lane.approvals.get(approval_id)
    if record is None or record.approval.state != "pending":
        raise Problem("Conflict", f"Approval {approval_id} is decided; where it was posted is not kept")
    approval, by = record.approval, named(principal.actor)
    others = [card for card in approval.cards if (card.reported_by, card.service) != (by, service)]
    own = [ApprovalCard(service=service, chat=chat, reported_by=by) for chat in dict.fromkeys(chats)]
    if own and len(others) + len(own) > MAX_CARDS:
        raise Problem("QuotaExceeded", f"{len(others)} chats are named of approval {approval_id} already, of at most "
                      f"{MAX_CARDS}", hint="Name fewer chats in the bridge's config, or run fewer bridges.")
    reported = msgspec.structs.replace(approval, cards=[*others, *own])
    if reported == approval:
        return approval
    return lane.keep_approval(msgspec.structs.replace(record, approval=reported)).approval
