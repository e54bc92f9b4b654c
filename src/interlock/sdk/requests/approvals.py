"""Requests on approvals (racp section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from interlock.protocol.answers import ApprovalPage, Explanation, ProposedRule
from interlock.protocol.api.access import CREATE_SIGNING_KEY, LIST_SIGNING_KEYS, REGISTER_PASSKEY, REVOKE_SIGNING_KEY
from interlock.protocol.api.approvals import (
    ANSWER_QUESTION,
    EXPLAIN_APPROVAL,
    GET_APPROVAL,
    GET_APPROVAL_INPUT,
    LIST_APPROVALS,
    PROPOSE_RULE,
    REPORT_CARDS,
    VOTE,
    WITHDRAW_VOTE,
)
from interlock.protocol.bodies import RevokeKeyBody
from interlock.protocol.resources import (
    AnswerBody,
    Approval,
    ApprovalState,
    CardsBody,
    Decision,
    GrantBody,
    PasskeyAssertion,
    PasskeyBody,
    Remembering,
    SigningKey,
    SigningKeyBody,
    WithdrawalBody,
)
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, Every, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain, read


def listing(*, state: ApprovalState | None = None, decided: bool = False, agent: str | None = None,
            session: str | None = None, by: str | None = None, q: str | None = None, cursor: str | None = None,
            limit: int | None = None) -> RequestSpec[ApprovalPage]:
    """Return a page of approvals, newest first; `state="pending"` is the inbox. `by` is a person who voted or decided,
    `q` a text in title, tool, agent, directory, comment or rule."""
    return read(LIST_APPROVALS, state=state, decided="true" if decided else None, agent=agent, session=session, by=by,
                q=q, cursor=cursor, limit=limit)


def show(approval_id: str) -> RequestSpec[Approval]:
    """Return an approval."""
    return read(GET_APPROVAL, approval_id)


def voted_bytes(approval_id: str) -> RequestSpec[bytes]:
    """Return the exact bytes that the approval's digest covers. Hash them before you show them."""
    return read(GET_APPROVAL_INPUT, approval_id)


def vote(
    approval_id: str,
    decision: Decision,
    *,
    digest: str | None = None,
    comment: str | None = None,
    remember: Remembering | None = None,
    signature: str | None = None,
    assertion: PasskeyAssertion | None = None,
    key_id: str | None = None,
    at: str | None = None,
    option_id: str | None = None,
    updated_input: object = msgspec.UNSET,
    idempotency_key: str | None = None,
) -> RequestSpec[Approval]:
    """Vote on an approval. Returns its state after the vote. With `digest`, the vote counts for that request only
    (P-2); with `signature` it is signed by a key (P-4), with `assertion` by a passkey (J-17)."""
    method = "signature" if signature is not None else "passkey" if assertion is not None else "acl"
    changed = msgspec.UNSET if updated_input is msgspec.UNSET else msgspec.Raw(msgspec.json.encode(updated_input))
    return change(VOTE, approval_id, body=GrantBody(
        decision=decision, comment=comment, method=method, signature=signature, assertion=assertion,
        key_id=key_id, at=at, option_id=option_id, updated_input=changed, remember=remember,
        digest=digest,
    ), key=idempotency_key)


def grant(approval_id: str, *, digest: str | None = None, comment: str | None = None,
          remember: Remembering | None = None, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Vote yes. Returns the approval after the vote."""
    return vote(approval_id, "grant", digest=digest, comment=comment, remember=remember,
                idempotency_key=idempotency_key)


def deny(approval_id: str, *, comment: str | None = None, remember: Remembering | None = None,
         idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Vote no. Returns the approval after the vote."""
    return vote(approval_id, "deny", comment=comment, remember=remember, idempotency_key=idempotency_key)


def withdraw(approval_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Withdraw the caller's own vote while the approval is undecided (P-3)."""
    return change(WITHDRAW_VOTE, approval_id, body=WithdrawalBody(), key=idempotency_key)


def answer(approval_id: str, text: str | None, *, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Answer an agent's question in words; None declines it."""
    return change(ANSWER_QUESTION, approval_id, body=AnswerBody(text=text), key=idempotency_key)


def report_cards(approval_id: str, service: str, chats: Sequence[str], *, idempotency_key: str | None = None
                 ) -> RequestSpec[Approval]:
    """Report the chats of a service where this bridge has posted the approval; they replace those reported before.
    Returns the approval. For bridges: approvers then see where else it is shown."""
    return change(REPORT_CARDS, approval_id, body=CardsBody(service=service, chats=list(chats)), key=idempotency_key)


def explain(approval_id: str) -> RequestSpec[Explanation]:
    """Return which rule decides this call now, and why the rules before it do not."""
    return read(EXPLAIN_APPROVAL, approval_id)


def rule(approval_id: str, *, scope: Literal["session", "rule"] | None = None, decision: Decision | None = None,
         width: Literal["exact", "program", "below", "described"] | None = None) -> RequestSpec[ProposedRule]:
    """Return the rule that a vote with `remember` would create, and the widths that fit the call."""
    return read(PROPOSE_RULE, approval_id, scope=scope, decision=decision, width=width)


def add_signing_key(public_key: str, *, label: str = "", idempotency_key: str | None = None) -> RequestSpec[SigningKey]:
    """Register an Ed25519 public key, 32 bytes as base64, for the caller."""
    return change(CREATE_SIGNING_KEY, body=SigningKeyBody(public_key=public_key, label=label), key=idempotency_key)


def register_passkey(credential_id: str, public_key: str, at: str, assertion: PasskeyAssertion, *, label: str = "",
                     idempotency_key: str | None = None) -> RequestSpec[SigningKey]:
    """Register a passkey for the caller, as a key for votes. Only a page in a browser may send it: a program is refused
    (J-17)."""
    body = PasskeyBody(credential_id=credential_id, public_key=public_key, at=at, assertion=assertion, label=label)
    return change(REGISTER_PASSKEY, body=body, key=idempotency_key)


def revoke_signing_key(key_id: str, *, idempotency_key: str | None = None) -> RequestSpec[SigningKey]:
    """Revoke a signing key: votes that it signs from now on do not count."""
    return change(REVOKE_SIGNING_KEY, key_id, body=RevokeKeyBody(), key=idempotency_key)


class ApprovalMethods(ApiResource[LinkT]):
    """Approvals, and votes on them."""

    list = SingleRequest(listing)
    every = Every(listing)
    get = SingleRequest(show)
    input = SingleRequest(voted_bytes)
    vote = SingleRequest(vote)
    grant = SingleRequest(grant)
    deny = SingleRequest(deny)
    withdraw = SingleRequest(withdraw)
    answer = SingleRequest(answer)
    report_cards = SingleRequest(report_cards)
    explain = SingleRequest(explain)
    rule = SingleRequest(rule)
    signing_keys = SingleRequest(plain(LIST_SIGNING_KEYS, "Return every registered key for signed votes."))
    add_signing_key = SingleRequest(add_signing_key)
    register_passkey = SingleRequest(register_passkey)
    revoke_signing_key = SingleRequest(revoke_signing_key)
