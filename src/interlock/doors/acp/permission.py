"""Approvals in the editor: the request with its digest, and a vote bound to that digest (O-4)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.card.permission_request import (
    lines_of_approval,
    not_of_its_digest,
    request_of_approval,
    title_of_approval,
)
from interlock.command.card.votes import tally
from interlock.doors.acp.card import ShownCards, is_whole
from interlock.doors.acp.view import of_subject, text_content
from interlock.jsonrpc import PeerLost, Rpc, RpcError
from interlock.protocol.api.approvals import ANSWER_QUESTION, VOTE
from interlock.protocol.resources import Approval, Remembering, RuleMatch
from interlock.sdk import AsyncInterlock
from interlock.sdk.problems import InterlockError

VOTERS = VOTE.roles
ANSWERERS = ANSWER_QUESTION.roles
ALLOW, ALLOW_SESSION, DENY = "allow", "allow_session", "deny"
SESSION = Remembering(scope="session", match=RuleMatch(width="exact"))
COMMENT = "in the editor (ACP)"


class _Outcome(msgspec.Struct, rename="camel"):
    outcome: str = "cancelled"
    option_id: str | None = None


class _Answer(msgspec.Struct):
    outcome: _Outcome = msgspec.field(default_factory=_Outcome)


_answer = msgspec.json.Decoder(_Answer)


class _Fields(msgspec.Struct):
    answer: str = ""


class _Written(msgspec.Struct):
    action: str = "cancel"
    content: _Fields | None = None


_written = msgspec.json.Decoder(_Written)
FORM = {"type": "object", "required": ["answer"],
        "properties": {"answer": {"type": "string", "title": "Answer", "minLength": 1}}}
"""A question is answered in words, as with `interlock answer`; choices, if any, are numbered in its text."""


class Permissions:
    """Asks an editor about approvals, and votes with the door's key."""

    def __init__(self, gateway: AsyncInterlock, rpc: Rpc, shows_forms: bool = False) -> None:
        """`shows_forms`: the editor supports forms (`elicitation/create`)."""
        self._gateway = gateway
        self._rpc = rpc
        self._shows_forms = shows_forms
        self._roles: frozenset[str] | None = None

    async def ask(self, editor_session: str, approval_id: str, shown: ShownCards) -> None:
        """Ask about one approval and vote according to the answer; note in `shown` approvals that the
        editor has shown whole. A cancelled or lost request is not a vote; the approval stays. Cancel this call if the
        approval is decided elsewhere: the editor then withdraws its question."""
        try:
            approval = await self._gateway.approvals.get(approval_id)
            if approval.state != "pending":
                return
            if approval.kind == "question" and self._shows_forms and await self._has_role(ANSWERERS):
                await self._answer(editor_session, approval)
                return
            if approval.kind == "question" or approval.signed or not await self._has_role(VOTERS):
                await self._show(editor_session, approval, waits(approval))
                return
            if (why := not_of_its_digest(approval)) is not None:
                await self._show(editor_session, approval, f"{why} Deny it with: interlock deny {approval.id}")
                return
            await self._vote(editor_session, approval, shown)
        except InterlockError as error:
            await self._show_sentence(editor_session, approval_id, str(error))
        except (RpcError, PeerLost, msgspec.MsgspecError):
            return  # An editor that leaves, or answers with an error, has not voted.

    async def _answer(self, editor_session: str, approval: Approval) -> None:
        """Ask a question in a form and send the answer. A cancelled form is not an answer; the question stays."""
        raw = await self._rpc.request("elicitation/create", {
            "sessionId": editor_session, **({"toolCallId": approval.invocation_id} if approval.invocation_id else {}),
            "mode": "form", "message": "\n".join(line.text for line in lines_of_approval(approval)),
            "requestedSchema": FORM, "_meta": meta(approval)}, cancels=True)
        written = _written.decode(raw)
        answer = written.content.answer.strip() if written.content is not None else ""
        if written.action == "decline" or (written.action == "accept" and answer):
            await self._gateway.approvals.answer(approval.id, answer if written.action == "accept" else None)

    async def _vote(self, editor_session: str, approval: Approval, shown: ShownCards) -> None:
        raw = await self._rpc.request("session/request_permission", {
            "sessionId": editor_session, "toolCall": tool_call(approval), "options": await self._options(approval),
            "_meta": meta(approval)}, cancels=True)
        outcome = _answer.decode(raw).outcome
        if is_whole(approval):
            shown.add(approval)
        if outcome.outcome != "selected":
            return
        if outcome.option_id in (ALLOW, ALLOW_SESSION):
            remember = SESSION if outcome.option_id == ALLOW_SESSION else None
            voted = await self._gateway.approvals.grant(approval.id, digest=approval.digest, comment=COMMENT,
                                                        remember=remember)
        elif outcome.option_id == DENY:
            # No comment: the agent would read it as the reason.
            voted = await self._gateway.approvals.vote(approval.id, "deny", digest=approval.digest)
        else:
            return
        if voted.state == "pending":
            await self._show(editor_session, voted, waits(voted))

    async def _options(self, approval: Approval) -> list[dict[str, Any]]:
        options = [{"optionId": ALLOW, "name": "Allow once", "kind": "allow_once"}]
        if await self._may_remember(approval):
            options.append({"optionId": ALLOW_SESSION, "name": "Allow this in the session", "kind": "allow_always"})
        return [*options, {"optionId": DENY, "name": "Deny", "kind": "reject_once"}]

    async def _may_remember(self, approval: Approval) -> bool:
        if approval.door != "tool":
            return False
        try:
            proposed = await self._gateway.approvals.rule(approval.id, scope="session", decision="grant", width="exact")
        except InterlockError:
            return False
        return "exact" in {width.width for width in proposed.widths}

    async def _has_role(self, roles: frozenset[str]) -> bool:
        if self._roles is None:
            self._roles = frozenset((await self._gateway.whoami()).roles)
        return not roles.isdisjoint(self._roles)

    async def _show(self, editor_session: str, approval: Approval, sentence: str) -> None:
        update = tool_call(approval)
        update["content"] = [text_content(sentence), *update.get("content", [])]
        await self._rpc.notify("session/update", {
            "sessionId": editor_session, "_meta": meta(approval),
            "update": {"sessionUpdate": "tool_call" if approval.invocation_id is None else "tool_call_update",
                       **update}})

    async def _show_sentence(self, editor_session: str, approval_id: str, sentence: str) -> None:
        await self._rpc.notify("session/update", {"sessionId": editor_session, "update": {
            "sessionUpdate": "agent_thought_chunk",
            "content": {"type": "text", "text": f"Approval {approval_id}: {sentence}\n"}}})


def tool_call(approval: Approval) -> dict[str, Any]:
    """Return an approval as an ACP tool call: the act itself as its title, and everything that a yes covers."""
    found: dict[str, Any] = {"toolCallId": approval.invocation_id or approval.id, "title": title_of_approval(approval),
                             "status": "pending"}
    if isinstance(approval.subject, msgspec.Raw):
        found |= of_subject(bytes(approval.subject))
    if "rawInput" not in found:
        found["rawInput"] = msgspec.json.decode(request_of_approval(approval).input)
    return found


def meta(approval: Approval) -> dict[str, Any]:
    """Return further facts for the decision: what asks, where it runs, which rule asks, and the digest."""
    return {"interlock": {
        "approvalId": approval.id, "digest": approval.digest, "rule": approval.rule, "agent": approval.agent_id,
        "runner": approval.runner_id, "workspace": approval.workspace, "required": approval.required,
        "agentTitle": approval.agent_title, "expiresAt": approval.expires_at}}


def waits(approval: Approval) -> str:
    """Return who must decide, and how."""
    if approval.kind == "question":
        return f"The agent asks a question. Answer it with: interlock answer {approval.id}"
    if approval.signed == "passkey":
        return f"This approval counts votes with a passkey only. Vote on the gateway's page /a/{approval.id}."
    if approval.signed:
        return f"This approval counts signed votes only. Vote with: interlock approve {approval.id} --sign"
    return (f"This waits for an approval ({tally(approval)}, rule {approval.rule}). An approver decides with: "
            f"interlock approve {approval.id}")
