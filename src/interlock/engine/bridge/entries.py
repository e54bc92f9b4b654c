"""A session's entry in its lane: changes by people, overrides on their way to the agent, resets (I-1, I-3, I-4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.engine.bridge.context_state import ContextState
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.prompts import prompt_content
from interlock.protocol.payloads import PromptRequest
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import CommandBody, Notice
from interlock.session import entry as entries
from interlock.session.entry import BadField
from interlock.session.resets import Clocks
from interlock.session.transcript import prompt_draft

MAX_AUDITED_CHARS = 200


def patch(lane: Lane, who: dict[str, str], wanted: Mapping[str, Any], *, keep_unknown: bool = False) -> None:
    """Set fields of the entry, with one audit record of all that changed (V-2). `keep_unknown` keeps what is not known,
    as a file edited by hand may hold; else it is refused. Raises Problem InvalidPayload."""
    known = {name: value for name, value in wanted.items() if not keep_unknown or entries.is_known(name)}
    unknown = {name: value for name, value in wanted.items() if name not in known}
    try:
        changed, changes = entries.patched(lane.state.entry, known)
        if unknown:
            changed = entries.with_unknown(changed, unknown)
    except BadField as bad:
        raise Problem("InvalidPayload", f"/{bad}", errors=(Place(f"/{bad.name}", str(bad)),)) from None
    if changed == lane.state.entry:
        return
    lane.state.change_entry(changed)
    names = [*(change.name for change in changes), *unknown]
    # Labels and names may be about people, so values stand where they can be erased (U-4).
    said = {change.name: change.after and change.after[:MAX_AUDITED_CHARS] for change in changes}
    lane.audit("session_change", who, {"fields": names}, personal={"comment": msgspec.json.encode(said).decode()})


def describe(lane: Lane, said: Mapping[str, str]) -> None:
    """Store what the channel reports of the chat: names that change by themselves, without a person's decision."""
    known = {name: text[:entries.TEXT_MAX_CHARS] for name, text in said.items() if text.strip() and text.isprintable()}
    lane.state.change_entry(entries.patched(lane.state.entry, known)[0])


def record_unanswered(lane: Lane, who: dict[str, str], body: CommandBody, *, person: bool = True) -> None:
    """Put a message that must not be answered into the transcript: nothing runs (R-4, sendPolicy)."""
    assert isinstance(body.payload, msgspec.Raw)
    raw = bytes(body.payload)
    lane.state.note_message(lane.wall, person=person)
    lane.transcribe([prompt_draft(prompt_content(raw), lane.wall)])
    lane.audit("reject", who, {"rule": "sendPolicy", "digest": hashlib.sha256(raw).hexdigest()})


def clocks_of(state: LaneState) -> Clocks:
    """The two clocks of a session (I-2)."""
    started = state.entry.session_started_at or state.created_ms
    return Clocks(started, state.entry.last_interaction_at or started)


def successor(state: LaneState, session_id: str, now_ms: int) -> LaneState:
    """What the next session of the key begins with (I-3): the same place and overrides, no counter, no conversation."""
    return LaneState(
        session_id=session_id, tenant_id=state.tenant_id, session_key=state.session_key, agent_id=state.agent_id,
        runner_id=state.runner_id, workspace=state.workspace, created_ms=now_ms, permission=state.permission,
        holding=state.holding,
        trusted_kinds=state.trusted_kinds, workspace_access=state.workspace_access,
        offered_box=state.offered_box, context=ContextState(owner=state.context.owner),
        entry=entries.carried_over(state.entry),
    )


def begin_again(lane: Lane, who: dict[str, str], before: str, cause: str, model: str | None) -> None:
    """Begin a reset's new session: one audit record names the old one (I-1)."""
    if model is not None:
        lane.state.change_entry(entries.patched(lane.state.entry, {"modelOverride": model})[0])
    lane.state.leaves, lane.state.leaves_asked = before if cause != "first" else "", cause == "asked"
    lane.audit("session_reset", who, {"reason": cause, "before": before, "session_key": lane.state.session_key})


def has_left(lane: Lane) -> None:
    """The work of the session before is ended, or ends by itself."""
    lane.state.leaves, lane.state.leaves_asked = "", False
    lane.out.writes.append(lane.snapshot())


def with_overrides(lane: Lane, prompt: PromptRequest) -> PromptRequest:
    """Put the overrides on a prompt that sets nothing else itself, and report once what the agent does not offer."""
    entry, features = lane.state.entry, lane.state.features
    missing = entries.lacking(entry, features)
    if missing:
        _tell_refused(lane, missing, f"{lane.state.agent_id} does not offer it")
    overrides = entries.prompt_overrides(entry, features)
    named = {"modelOverride": prompt.model, "modeOverride": prompt.mode}
    lane.state.wished = [name for name in overrides.names if not named.get(name)]
    if not overrides.names:
        return prompt
    options = {**overrides.options, **(prompt.options or {})}
    return msgspec.structs.replace(prompt, model=prompt.model or overrides.model, mode=prompt.mode or overrides.mode,
                                   options=options or None)


def give_up_overrides(lane: Lane, record: CommandRecord, sentence: str) -> bool:
    """The agent refused a prompt for what it was to be set to. True where overrides had asked for that: it is said
    once, and the prompt goes out without them."""
    wished, lane.state.wished = lane.state.wished, []
    if not wished or record.command.started_at is not None:
        return False
    _tell_refused(lane, tuple(wished), sentence)
    return True


def _tell_refused(lane: Lane, names: tuple[str, ...], why: str) -> None:
    lane.state.change_entry(entries.refusing(lane.state.entry, names))
    lane.notice(Notice(code="OverrideNotHonoured", message=f"{', '.join(names)}: {why} Go on without it."))
    lane.audit("session_change", SYSTEM, {"fields": list(names), "refused": True})
