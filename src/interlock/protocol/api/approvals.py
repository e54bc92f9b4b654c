"""Approvals and votes."""

from __future__ import annotations

from interlock.protocol.answers import ApprovalPage, Explanation, ProposedRule
from interlock.protocol.api.operation import APPROVERS, BINARY, OPERATORS, READERS, Operation
from interlock.protocol.resources import AnswerBody, Approval, CardsBody, GrantBody, WithdrawalBody

LIST_APPROVALS = Operation(
    "listApprovals", "GET", "/approvals",
    "The inbox with `state=pending`, what was decided with `decided=true`, everything without. A page of a search "
    "may have fewer items than asked for while `has_more` says that there are more.",
    roles=READERS, query=("state", "decided", "agent", "session", "by", "q", "cursor", "limit"), answers=ApprovalPage,
    verb="approvals")
GET_APPROVAL = Operation(
    "getApproval", "GET", "/approvals/{approval_id}", "",
    roles=READERS, answers=Approval,
    verb="approvals")
GET_APPROVAL_INPUT = Operation[bytes](
    "getApprovalInput", "GET", "/approvals/{approval_id}/input",
    "The very bytes whose SHA-256 is the approval's digest, and so what a vote is about (P-2). `Repr-Digest` states "
    "their SHA-256 again (RFC 9530).",
    roles=READERS, media=(BINARY,), codes=("Conflict",),
    verb="approvals")
VOTE = Operation(
    "vote", "POST", "/approvals/{approval_id}/grants",
    "Count a vote; the answer is the approval after it.",
    roles=APPROVERS, body=GrantBody, answers=Approval, codes=("Conflict", "QuotaExceeded", "UnsupportedCapability"),
    verb="approve")
ANSWER_QUESTION = Operation(
    "answerQuestion", "POST", "/approvals/{approval_id}/answers",
    "Answer an agent's question in words (C-8); the answer is the approval after it.",
    roles=OPERATORS | APPROVERS, body=AnswerBody, answers=Approval, codes=("Conflict",),
    verb="answer")
WITHDRAW_VOTE = Operation(
    "withdrawVote", "POST", "/approvals/{approval_id}/withdrawals",
    "Take one's own vote back, or that of an agent that one drives; the answer is the approval after it (P-3).",
    roles=APPROVERS, body=WithdrawalBody, body_optional=True, answers=Approval, codes=("Conflict",),
    verb="withdraw")
REPORT_CARDS = Operation(
    "reportCards", "POST", "/approvals/{approval_id}/cards",
    "Name the chats where a bridge has posted the approval, so that those who read it see where else it waits (J-5). "
    "They replace the ones that the same principal reported of this service before, and are removed when the approval "
    "ends. A report decides nothing, and leaves no audit record. A role that only reads may not send one.",
    roles=OPERATORS | APPROVERS, body=CardsBody, answers=Approval, codes=("Conflict", "QuotaExceeded"),
    no_verb="A bridge reports the cards that it has posted itself.")
PROPOSE_RULE = Operation(
    "proposeRule", "GET", "/approvals/{approval_id}/rule",
    "The rule that a vote with `remember` would leave behind, before it is saved (A-9).",
    roles=APPROVERS, query=("scope", "decision", "width"), answers=ProposedRule, codes=("Conflict",),
    verb="approve")
EXPLAIN_APPROVAL = Operation(
    "explainApproval", "GET", "/approvals/{approval_id}/explain",
    "Which of the rules that are in force now decides this call, on the facts that it was decided on, and why the "
    "ones before it do not (P-1).",
    roles=READERS, answers=Explanation,
    verb="policy explain")
