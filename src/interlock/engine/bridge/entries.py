"""A session's entry in its lane: changes by people, overrides for the agent, resets (I-1, I-3, I-4)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.engine.bridge.commands.prompts import prompt_content
from interlock.engine.bridge.context.context_state import ContextState
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.payloads import PromptRequest
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import CommandBody, Notice
from interlock.session.chat.resets import Clocks
from interlock.session.store import entry as entries
from interlock.session.store.entry import BadField
from interlock.session.transcript.transcript import prompt_draft

MAX_AUDITED_CHARS = 200


def patch(lane: Lane, who: dict[str, str], wanted: Mapping[str, Any], *, keep_unknown: bool = False) -> None:
    """Set fields of the entry, with one audit record of all changes (V-2). `keep_unknown` keeps unknown fields, which a
    hand-edited file may have; otherwise they are refused. Raises Problem InvalidPayload."""
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
    # Labels and names may be about people, so their values are stored where they can be erased (U-4).
    shown = {change.name: change.after and change.after[:MAX_AUDITED_CHARS] for change in changes}
    lane.audit("session_change", who, {"fields": names}, personal={"comment": msgspec.json.encode(shown).decode()})


def describe(lane: Lane, shown: Mapping[str, str]) -> None:
    """Store the chat's names as the channel reports them: they change without a person's decision."""
    known = {name: text[:entries.TEXT_MAX_CHARS] for name, text in shown.items() if text.strip() and text.isprintable()}
    lane.state.change_entry(entries.patched(lane.state.entry, known)[0])


def record_unanswered(lane: Lane, who: dict[str, str], body: CommandBody, *, person: bool = True) -> None:
    """Append a message that must not be answered to the transcript: nothing runs (R-4, sendPolicy)."""
    assert isinstance(body.payload, msgspec.Raw)
    raw = bytes(body.payload)
    lane.state.note_message(lane.wall, person=person)
    lane.transcribe([prompt_draft(prompt_content(raw), lane.wall)])
    lane.audit("reject", who, {"rule": "sendPolicy", "digest": hashlib.sha256(raw).hexdigest()})


def clocks_of(state: LaneState) -> Clocks:
    """Return the two clocks of a session (I-2)."""
    started = state.entry.session_started_at or state.created_ms
    return Clocks(started, state.entry.last_interaction_at or started)


def successor(state: LaneState, session_id: str, now_ms: int) -> LaneState:
    """Return the initial state of the key's next session (I-3): the same place and overrides, without counters and
    conversation."""
    return LaneState(
        session_id=session_id, tenant_id=state.tenant_id, session_key=state.session_key, agent_id=state.agent_id,
        runner_id=state.runner_id, workspace=state.workspace, created_ms=now_ms, permission=state.permission,
        holding=state.holding,
        trusted_kinds=state.trusted_kinds, workspace_access=state.workspace_access,
        offered_box=state.offered_box, context=ContextState(owner=state.context.owner),
        entry=entries.carried_over(state.entry),
    )


def begin_again(lane: Lane, who: dict[str, str], before: str, cause: str, model: str | None) -> None:
    """Start the new session after a reset: one audit record names the old session (I-1)."""
    if model is not None:
        lane.state.change_entry(entries.patched(lane.state.entry, {"modelOverride": model})[0])
    lane.state.leaves, lane.state.leaves_asked = before if cause != "first" else "", cause == "asked"
    lane.audit("session_reset", who, {"reason": cause, "before": before, "session_key": lane.state.session_key})


def has_left(lane: Lane) -> None:
    """Record that the previous session's work has ended, or will end by itself."""
    lane.state.leaves, lane.state.leaves_asked = "", False
    lane.out.writes.append(lane.snapshot())


def with_overrides(lane: Lane, prompt: PromptRequest) -> PromptRequest:
    """Apply the overrides to a prompt for what it does not set itself, and report once which of them the agent does not
    support."""
    entry, features = lane.state.entry, lane.state.features
    missing = entries.lacking(entry, features)
    if missing:
        _report_refused(lane, missing, f"{lane.state.agent_id} does not offer it")
    overrides = entries.prompt_overrides(entry, features)
    named = {"modelOverride": prompt.model, "modeOverride": prompt.mode}
    lane.state.wished = [name for name in overrides.names if not named.get(name)]
    if not overrides.names:
        return prompt
    options = {**overrides.options, **(prompt.options or {})}
    return msgspec.structs.replace(prompt, model=prompt.model or overrides.model, mode=prompt.mode or overrides.mode,
                                   options=options or None)


def give_up_overrides(lane: Lane, record: CommandRecord, sentence: str) -> bool:
    """Handle the agent's refusal of a prompt's settings. Returns True if overrides caused it: this is reported once,
    and the prompt is sent without them."""
    wished, lane.state.wished = lane.state.wished, []
    if not wished or record.command.started_at is not None:
        return False
    _report_refused(lane, tuple(wished), sentence)
    return True


def _report_refused(lane: Lane, names: tuple[str, ...], why: str) -> None:
    lane.state.change_entry(entries.refusing(lane.state.entry, names))
    lane.notice(Notice(code="OverrideNotHonoured", message=f"{', '.join(names)}: {why} Go on without it."))
    lane.audit("session_change", SYSTEM, {"fields": list(names), "refused": True})
