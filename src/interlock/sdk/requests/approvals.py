"""Approvals (racp section 3)."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol.answers import ApprovalPage, Explanation, ProposedRule, SigningKeyList
from interlock.protocol.bodies import RevokeKeyBody
from interlock.protocol.resources import (
    AnswerBody,
    Approval,
    ApprovalState,
    Decision,
    GrantBody,
    Remembering,
    SigningKey,
    SigningKeyBody,
    WithdrawalBody,
)
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import get, post, raw, segment


def listing(*, state: ApprovalState | None = None, decided: bool = False, agent: str | None = None,
            session: str | None = None, by: str | None = None, q: str | None = None, cursor: str | None = None,
            limit: int | None = None) -> RequestSpec[ApprovalPage]:
    """A page of approvals, newest first; `state="pending"` is the inbox. `by` is a person who voted or decided, `q` a
    text in title, tool, agent, directory, comment or rule."""
    return get("/v1/approvals", ApprovalPage, state=state, decided="true" if decided else None, agent=agent,
               session=session, by=by, q=q, cursor=cursor, limit=limit)


def show(approval_id: str) -> RequestSpec[Approval]:
    """An approval as it is."""
    return get(_path(approval_id), Approval)


def voted_bytes(approval_id: str) -> RequestSpec[bytes]:
    """The very bytes that the approval's digest is of: what a vote is about. Hash them before you show them."""
    return raw(f"{_path(approval_id)}/input", "application/octet-stream")


def vote(
    approval_id: str,
    decision: Decision,
    *,
    digest: str | None = None,
    comment: str | None = None,
    remember: Remembering | None = None,
    signature: str | None = None,
    key_id: str | None = None,
    at: str | None = None,
    option_id: str | None = None,
    updated_input: object = msgspec.UNSET,
    idempotency_key: str | None = None,
) -> RequestSpec[Approval]:
    """Vote; the approval after it. With `digest` the vote counts for that input alone (P-2); with `signature` it is a
    signed one (P-4)."""
    changed = msgspec.UNSET if updated_input is msgspec.UNSET else msgspec.Raw(msgspec.json.encode(updated_input))
    return post(_path(approval_id, "/grants"), Approval, GrantBody(
        decision=decision, comment=comment, method="signature" if signature is not None else "acl",
        signature=signature, key_id=key_id, at=at, option_id=option_id, updated_input=changed, remember=remember,
        digest=digest,
    ), idempotency_key)


def grant(approval_id: str, *, digest: str | None = None, comment: str | None = None,
          remember: Remembering | None = None, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Vote yes."""
    return vote(approval_id, "grant", digest=digest, comment=comment, remember=remember,
                idempotency_key=idempotency_key)


def deny(approval_id: str, *, comment: str | None = None, remember: Remembering | None = None,
         idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Vote no."""
    return vote(approval_id, "deny", comment=comment, remember=remember, idempotency_key=idempotency_key)


def withdraw(approval_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Take one's own vote back while it has decided nothing (P-3)."""
    return post(_path(approval_id, "/withdrawals"), Approval, WithdrawalBody(), idempotency_key)


def answer(approval_id: str, text: str | None, *, idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Answer an agent's question in words; None declines to."""
    return post(_path(approval_id, "/answers"), Approval, AnswerBody(text=text), idempotency_key)


def explain(approval_id: str) -> RequestSpec[Explanation]:
    """Which rule decides this call now, and why the ones before it do not."""
    return get(_path(approval_id, "/explain"), Explanation)


def rule(approval_id: str, *, scope: Literal["session", "rule"] | None = None, decision: Decision | None = None,
         width: Literal["exact", "program", "below", "described"] | None = None) -> RequestSpec[ProposedRule]:
    """The rule that a vote with `remember` would leave behind, and the widths that fit the call."""
    return get(_path(approval_id, "/rule"), ProposedRule, scope=scope, decision=decision, width=width)


def signing_keys() -> RequestSpec[SigningKeyList]:
    """Every key for signed votes that was ever registered."""
    return get("/v1/signing-keys", SigningKeyList)


def add_signing_key(public_key: str, *, label: str = "", idempotency_key: str | None = None) -> RequestSpec[SigningKey]:
    """Register an Ed25519 public key, 32 bytes as base64, for the one who asks."""
    return post("/v1/signing-keys", SigningKey, SigningKeyBody(public_key=public_key, label=label), idempotency_key)


def revoke_signing_key(key_id: str, *, idempotency_key: str | None = None) -> RequestSpec[SigningKey]:
    """Have no vote count any more that this key signs from now on."""
    return post(f"/v1/signing-keys/{segment(key_id)}/revoke", SigningKey, RevokeKeyBody(), idempotency_key)


def _path(approval_id: str, rest: str = "") -> str:
    return f"/v1/approvals/{segment(approval_id)}{rest}"
