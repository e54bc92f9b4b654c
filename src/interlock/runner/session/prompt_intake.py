"""Complete a prompt or a compaction plan before the agent gets it: insert files, apply settings (E-5)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.ports.agent import Agent, ContextMissing, NotAsking, PromptSettings, SettingRefused
from interlock.protocol import payloads as p
from interlock.protocol.box import Box, covers, phrase
from interlock.protocol.codes import Code
from interlock.runner.session.uploads import ContentRefused, Uploads
from interlock.runner.turn.turn_settings import settings_of, settle
from interlock.session.transfers import content_of, named


class PromptRefused(Exception):
    """The prompt or the plan is refused, with code and sentence. Nothing has changed."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def check_box(box: Box | None, payload: p.PromptRequest) -> None:
    """Check that an opening's box has every restriction that the prompt was approved for (H-18). Raises PromptRefused.
    """
    if not covers(box, payload.only_in_box):
        now = phrase(box) if box is not None else "no box"
        raise PromptRefused(Code.NOT_BOXED, f"The agent's box restricts less than the one that was decided on. Now: "
                            f"{now}.")


async def take_prompt(uploads: Uploads, agent: Agent, features: p.Features, payload: p.PromptRequest, *,
                      reads_only: bool = False) -> tuple[list[dict[str, Any]], PromptSettings]:
    """Return the content with every file inserted, and the settings that the agent applied. An agent that may only read
    its workspace must ask before its tools. Raises PromptRefused."""
    try:
        content = await uploads.whole(content_of(payload), features)
        settings = settings_of(payload)._replace(context=await _context(uploads, payload.context),
                                                 only_if_asks=payload.only_if_asks or reads_only)
        await settle(agent, features, settings)
    except ContextMissing as refused:
        # As if the session were not open: the gateway opens it again and sends the whole conversation (B-1).
        raise PromptRefused(Code.SESSION_NOT_FOUND, str(refused)) from None
    except NotAsking as refused:
        code = Code.NOT_ASKING if payload.only_if_asks else Code.WORKSPACE_REFUSED
        raise PromptRefused(code, str(refused)) from None
    except SettingRefused as refused:
        raise PromptRefused(Code.UNSUPPORTED_CAPABILITY, str(refused)) from None
    except ContentRefused as refused:
        raise PromptRefused(refused.code, str(refused)) from None
    return content, settings


async def take_plan(uploads: Uploads, request: p.SessionCompact) -> p.SessionCompact:
    """Return the request with its plan's context inserted (Z-4). Raises PromptRefused."""
    plan = request.plan
    if plan is None or not isinstance(plan.get("context"), dict):
        return request
    try:
        context = await _context(uploads, plan["context"])
    except ContentRefused as refused:
        raise PromptRefused(refused.code, str(refused)) from None
    return msgspec.structs.replace(request, plan={**plan, "context": context})


async def _context(uploads: Uploads, context: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the context; a context that is too large for a frame was sent before it as a file."""
    if context is None or "transfer_id" not in context:
        return context
    block = await uploads.one({**context, "type": "text"})
    try:
        return msgspec.json.decode(block["text"].encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ContentRefused(Code.INVALID_FRAME, f"The context's file cannot be read: {error}.") from None


def files_of(payload: p.Payload) -> list[str]:
    """Return the transfers that a prompt or a plan names."""
    match payload:
        case p.PromptRequest():
            return named([*content_of(payload), payload.context or {}])
        case p.SessionCompact():
            context = (payload.plan or {}).get("context")
            return named([context]) if isinstance(context, dict) else []  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return []
