"""Conversations with a RAWP Local Client: we are the gateway, and listen (rawp.md, seen from the near end)."""

from __future__ import annotations

from typing import Any

from interlock.conformance.steps import (
    FILLED,
    Again,
    Closed,
    Conversation,
    Cut,
    Hear,
    Join,
    Link,
    Never,
    Say,
    Silence,
    Step,
    Unless,
    at_least,
    holding,
    one_of,
)
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.limits import OPENING_TIMEOUT_MS

OPENING_S = OPENING_TIMEOUT_MS / 1000 + 3
ENDING_S = 30.0
"""An agent that is closed has its grace before it is ended (A-4)."""

ASK: dict[str, Any] = {"input_type": "text", "origin": "user", "text": "$text", "prompt_id": "$prompt"}
OPENING: dict[str, Any] = {"session_id": "$session", "agent_id": "$agent", "workspace": "", "workspace_access": "rw"}
NEVER_ASKS = "its agent never asks before a tool"


def prompt(**changes: Any) -> Say:
    """A prompt."""
    return Say("control.prompt.request", {**ASK, **changes}, keep="asked")


def failed(code: Code, part: str = "") -> Hear:
    """A refusal that ends nothing."""
    return Hear("session.error", has={"payload.error_code": code.value, "payload.fatal": False,
                                      "payload.message": holding(part)})


def turn_over(*stop_reasons: str) -> tuple[Step, ...]:
    """The turn's end, and the usage that it owes right behind it."""
    return (Hear("session.turn.end", has={"payload.turn_id": "$turn", "payload.stop_reason": one_of(*stop_reasons)},
                 within_s=ENDING_S),
            Hear("session.usage", next_=True, has={"payload.token_usage.input_tokens": at_least(0),
                                                   "payload.time_to_reset": FILLED}))


OPEN: tuple[Step, ...] = (
    Join(), Say("control.session.open", OPENING, keep="open"),
    Hear("session.capabilities", within_s=ENDING_S, keep={"features": "payload.features"},
         has={"metadata.in_reply_to": "$open_id", "payload.dps_version": DPS_VERSION,
              "payload.features.adapter_type": one_of("process", "sdk")}),
)
STARTED = Hear("session.turn.start", has={"metadata.prompt_id": "$prompt"}, keep={"turn": "payload.turn_id"})
ASKED: tuple[Step, ...] = (
    *OPEN, Unless("features", "permission", "never", NEVER_ASKS), prompt(), STARTED,
    Hear("tool.invoke.request", has={"payload.turn_id": "$turn"}, keep={"call": "payload.invocation_id"}),
    Hear("agent.interaction.request", keep={"question": "payload.interaction_id"},
         has={"payload.interaction_type": "PERMISSION", "payload.context.tool_name": FILLED}),
    Say("x-interlock.interaction.held", {"interaction_id": "$question", "approval_id": "a", "expires_in_ms": 60_000}),
)


def resolved(*outcomes: str) -> Hear:
    """What the runner handed to its agent."""
    return Hear("x-interlock.interaction.resolved",
                has={"payload.interaction_id": "$question", "payload.outcome": one_of(*outcomes)})


def decided(decision: str) -> Say:
    """A person's answer."""
    return Say("control.interaction.response", {"interaction_id": "$question", "decision": decision, "by": "someone"})


def result(status: str) -> Hear:
    """How the tool call ended."""
    return Hear("tool.invoke.result", has={"payload.invocation_id": "$call", "payload.status": status})


ALLOWED: tuple[Step, ...] = (decided("allow"), resolved("allowed"), result("ok"), *turn_over("end_turn"))

WITH_RUNNER: tuple[Conversation, ...] = (
    Conversation("hello-first", ("L-4", "L-2"), "The runner's first frame is a hello, and it waits for the welcome.", (
        Cut(), Link(),
        Hear("x-interlock.hello", next_=True, has={
            "payload.versions": holding(DPS_VERSION), "payload.runner_id": FILLED, "payload.boot_id": FILLED}),
        Silence(), Cut(), Join())),
    Conversation("welcome-in-time", ("L-4", "L-5"), "Without a welcome the runner leaves after ten seconds.",
                 (Cut(), Link(), Hear("x-interlock.hello"), Closed((), OPENING_S), Join()), slow=True),
    Conversation("open", ("A-6", "D-7"), "An open is confirmed, and answered by the agent's capabilities.", (
        *OPEN, Say("control.turn.cancel", {"reason": "there is none"}),
        Hear("x-interlock.ack", where={"payload.session_id": "$session", "payload.seq": at_least(2)}))),
    Conversation("open-fails", ("A-6", "W-2"), "An agent that is not there fails the open, which is then closed.", (
        Join(), Say("control.session.open", {**OPENING, "agent_id": "no-such-agent"}, keep="open"),
        Hear("session.error", has={"payload.error_code": Code.AGENT_START_FAILED.value, "payload.fatal": True,
                                   "metadata.in_reply_to": "$open_id"}),
        Hear("session.closed"))),
    Conversation("not-open", ("W-2",), "A prompt for a session that is not open is refused, and ends nothing.", (
        Join(), prompt(), failed(Code.SESSION_NOT_FOUND))),
    Conversation("workspace", ("A-1", "W-2"), "A workspace outside the runner's roots fails the open.", (
        Join(), Say("control.session.open", {**OPENING, "workspace": "/"}, keep="open"),
        Hear("session.error", has={"payload.error_code": Code.WORKSPACE_REFUSED.value, "payload.fatal": True,
                                   "metadata.in_reply_to": "$open_id"}),
        Hear("session.closed"))),
    Conversation("gap-again", ("E-3", "W-2", "T-5"), "The same gap a second time closes that session and its agent, "
                 "and leaves the link.", (
        *OPEN, Say("control.turn.cancel", {"reason": "too early"}, skip=1), Closed((CloseCode.GAP,)), Join(),
        Hear("session.history", next_=True), Say("control.turn.cancel", {"reason": "too early"}, skip=1),
        Hear("session.error", has={"payload.error_code": Code.INTERNAL.value, "payload.fatal": True}),
        Hear("session.closed", within_s=ENDING_S), Join())),
    Conversation("allow", ("A-5", "T-2", "T-3", "D-7"), "A tool waits for the yes; the turn ends with its usage.",
                 (*ASKED, Silence(("tool.invoke.result", "x-interlock.interaction.resolved")), *ALLOWED)),
    Conversation("deny", ("A-5",), "A no holds: the tool does not run.", (
        *ASKED, decided("deny"), resolved("denied"), result("denied"), *turn_over("end_turn", "error"))),
    Conversation("timeout", ("A-5",), "A timeout means no.", (
        *ASKED, Say("control.interaction.timeout", {"interaction_id": "$question"}), resolved("expired", "denied"),
        result("denied"), *turn_over("end_turn", "error"))),
    Conversation("in-progress", ("T-1", "W-2"), "A second prompt during a turn is refused, and the turn goes on.", (
        *ASKED, prompt(prompt_id="$other"), failed(Code.PROMPT_IN_PROGRESS), *ALLOWED)),
    Conversation("cancel", ("A-4", "T-2"), "A cancel ends the turn as cancelled, with its usage.", (
        *ASKED, Say("control.turn.cancel", {"reason": "a person asked"}), *turn_over("cancelled"))),
    Conversation("duplicate", ("D-7",), "A control frame that comes twice is obeyed once.", (
        *ASKED, Again("asked"), Silence(("session.error", "session.turn.start"), 1.0), *ALLOWED)),
    Conversation("gap", ("E-3",), "A gap closes the link with 4409, and the reattach repairs it.", (
        *OPEN, Say("control.turn.cancel", {"reason": "too early"}, skip=1), Closed((CloseCode.GAP,)), Join(),
        Hear("session.history", next_=True))),
    Conversation("invalid", ("E-1", "W-1", "W-2"), "A malformed frame is refused with its place; the link stays up.", (
        *OPEN, Say("control.prompt.request", {"prompt_id": "p"}), failed(Code.INVALID_FRAME, "payload.input_type"),
        Unless("features", "permission", "never", NEVER_ASKS), prompt(), STARTED)),
    Conversation("unknown", ("E-1", "E-2"), "Unknown types and fields end nothing.", (
        *OPEN, Say("x-acme.weather", {"sun": 1}), prompt(colour="red"), STARTED)),
    Conversation("direction", ("W-1",), "A frame that only a runner sends is refused from a gateway.", (
        *OPEN, Say("session.turn.end", {"turn_id": "t", "stop_reason": "end_turn"}),
        failed(Code.INVALID_FRAME, "type"), prompt(), STARTED)),
    Conversation("unsupported", ("A-6", "W-2"), "A mode switch without plan_mode is refused by the feature's name.", (
        *OPEN, Unless("features", "plan_mode", True, "its agent has plan_mode"),
        Say("control.mode.switch", {"mode": "plan"}), failed(Code.UNSUPPORTED_CAPABILITY, "plan_mode"),
        prompt(), STARTED)),
    Conversation("compaction", ("A-6", "W-2"), "A compaction that is not offered is refused by the feature's name.", (
        *OPEN, Unless("features", "context_compaction", True, "its agent compacts"),
        Say("control.session.compact", {"request_id": "c"}),
        failed(Code.UNSUPPORTED_CAPABILITY, "context_compaction"))),
    Conversation("unknown-turn", ("T-4", "W-2"), "A cancel of a turn that is not open changes nothing.", (
        *OPEN, Say("control.turn.cancel", {"reason": "of what", "turn_id": "no-such-turn"}),
        failed(Code.UNKNOWN_TURN))),
    Conversation("history", ("D-2", "D-1", "A-5"), "After a cut the session begins with its history, from what was not "
                 "acknowledged, and a question that waits is still answered.", (
        *ASKED, Cut(), Join(durable=0),
        Hear("session.history", next_=True, has={
            "payload.buffer_status.truncated": False, "payload.frames.0.seq": 1,
            "payload.frames.0.type": FILLED, "payload.last_message_id": ""}),
        *ALLOWED), acks=False),
    Conversation("close", ("A-4",), "A close ends with session.closed, and nothing comes behind it.", (
        *OPEN, Say("control.session.close", {"reason": "enough"}), Hear("session.closed", within_s=ENDING_S),
        Silence(("agent.state.changed", "session.error", "agent.error"), 0.3), Never("session.error"))),
)
"""Every conversation with a runner."""
