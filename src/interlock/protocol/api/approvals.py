"""Approvals and votes."""

from __future__ import annotations

from interlock.protocol.answers import ApprovalPage, Explanation, ProposedRule
from interlock.protocol.api.operation import APPROVERS, BINARY, OPERATORS, READERS, Operation
from interlock.protocol.resources import AnswerBody, Approval, CardsBody, GrantBody, WithdrawalBody

LIST_APPROVALS = Operation(
    "listApprovals", "GET", "/approvals",
    "List approvals: the inbox with `state=pending`, decided ones with `decided=true`, otherwise all. A page of a "
    "search may have fewer items than `limit` although `has_more` is true.",
    roles=READERS, query=("state", "decided", "agent", "session", "by", "q", "cursor", "limit"), answers=ApprovalPage,
    verb="approvals")
GET_APPROVAL = Operation(
    "getApproval", "GET", "/approvals/{approval_id}",
    "Return one approval.",
    roles=READERS, answers=Approval,
    verb="approvals")
GET_APPROVAL_INPUT = Operation[bytes](
    "getApprovalInput", "GET", "/approvals/{approval_id}/input",
    "Return the exact bytes whose SHA-256 is the approval's digest, which is what a vote decides on (P-2). "
    "`Repr-Digest` repeats their SHA-256 (RFC 9530).",
    roles=READERS, media=(BINARY,), codes=("Conflict",),
    verb="approvals")
VOTE = Operation(
    "vote", "POST", "/approvals/{approval_id}/grants",
    "Vote on an approval; return the approval afterwards.",
    roles=APPROVERS, body=GrantBody, answers=Approval, codes=("Conflict", "QuotaExceeded", "UnsupportedCapability"),
    verb="approve")
ANSWER_QUESTION = Operation(
    "answerQuestion", "POST", "/approvals/{approval_id}/answers",
    "Answer an agent's question with text (C-8); return the approval afterwards.",
    roles=OPERATORS | APPROVERS, body=AnswerBody, answers=Approval, codes=("Conflict",),
    verb="answer")
WITHDRAW_VOTE = Operation(
    "withdrawVote", "POST", "/approvals/{approval_id}/withdrawals",
    "Withdraw the caller's own vote, or the vote of an agent that the caller drives; return the approval afterwards "
    "(P-3).",
    roles=APPROVERS, body=WithdrawalBody, body_optional=True, answers=Approval, codes=("Conflict",),
    verb="withdraw")
REPORT_CARDS = Operation(
    "reportCards", "POST", "/approvals/{approval_id}/cards",
    "Report the chats where a bridge has posted the approval, so that other approvers see where it is shown (J-5). "
    "They replace the chats that the same principal reported for this service before, and are removed when the "
    "approval ends. A report decides nothing and leaves no audit record. Roles that only read may not send one.",
    roles=OPERATORS | APPROVERS, body=CardsBody, answers=Approval, codes=("Conflict", "QuotaExceeded"),
    no_verb="A bridge reports the cards that it has posted itself.")
PROPOSE_RULE = Operation(
    "proposeRule", "GET", "/approvals/{approval_id}/rule",
    "Return the rule that a vote with `remember` would create, without saving it (A-9).",
    roles=APPROVERS, query=("scope", "decision", "width"), answers=ProposedRule, codes=("Conflict",),
    verb="approve")
EXPLAIN_APPROVAL = Operation(
    "explainApproval", "GET", "/approvals/{approval_id}/explain",
    "Return the rule that decides this call under the policy now in force, by the facts that were used for the "
    "original decision, and why the rules before it do not match (P-1).",
    roles=READERS, answers=Explanation,
    verb="policy explain")
