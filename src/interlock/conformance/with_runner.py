"""Conversations with a RAWP Local Client: we are the gateway, and listen (rawp.md, from the near end)."""

from __future__ import annotations

from typing import Any

from interlock.conformance.steps import (
    FILLED,
    Again,
    ConformanceConversation,
    CutLink,
    ExpectClose,
    ExpectFrame,
    Join,
    Never,
    RefusedLink,
    SendFrame,
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
"""Maximum time for closing an agent: its grace period precedes its end (A-4)."""

ASK: dict[str, Any] = {"input_type": "text", "origin": "user", "text": "$text", "prompt_id": "$prompt"}
OPENING: dict[str, Any] = {"session_id": "$session", "agent_id": "$agent", "workspace": "", "workspace_access": "rw"}
NEVER_ASKS = "its agent never asks before a tool"


def prompt(**changes: Any) -> SendFrame:
    """Send a prompt."""
    return SendFrame("control.prompt.request", {**ASK, **changes}, keep="asked")


def failed(code: Code, part: str = "") -> ExpectFrame:
    """Expect a refusal that ends nothing."""
    return ExpectFrame("session.error", has={"payload.error_code": code.value, "payload.fatal": False,
                                             "payload.message": holding(part)})


def turn_over(*stop_reasons: str) -> tuple[Step, ...]:
    """Expect the end of the turn, directly followed by its usage report."""
    return (ExpectFrame("session.turn.end",
                        has={"payload.turn_id": "$turn", "payload.stop_reason": one_of(*stop_reasons)},
                        within_s=ENDING_S),
            ExpectFrame("session.usage", next_=True, has={"payload.token_usage.input_tokens": at_least(0),
                                                          "payload.time_to_reset": FILLED}))


OPEN: tuple[Step, ...] = (
    Join(), SendFrame("control.session.open", OPENING, keep="open"),
    ExpectFrame("session.capabilities", within_s=ENDING_S, keep={"features": "payload.features"},
                has={"metadata.in_reply_to": "$open_id", "payload.dps_version": DPS_VERSION,
                     "payload.features.adapter_type": one_of("process", "sdk")}),
)
STARTED = ExpectFrame("session.turn.start", has={"metadata.prompt_id": "$prompt"}, keep={"turn": "payload.turn_id"})
ASKED: tuple[Step, ...] = (
    *OPEN, Unless("features", "permission", "never", NEVER_ASKS), prompt(), STARTED,
    ExpectFrame("tool.invoke.request", has={"payload.turn_id": "$turn"}, keep={"call": "payload.invocation_id"}),
    ExpectFrame("agent.interaction.request", keep={"question": "payload.interaction_id"},
                has={"payload.interaction_type": "PERMISSION", "payload.context.tool_name": FILLED}),
    SendFrame("x-interlock.interaction.held",
              {"interaction_id": "$question", "approval_id": "a", "expires_in_ms": 60_000}),
)


def resolved(*outcomes: str) -> ExpectFrame:
    """Expect the outcome that the runner passed to its agent."""
    return ExpectFrame("x-interlock.interaction.resolved",
                       has={"payload.interaction_id": "$question", "payload.outcome": one_of(*outcomes)})


def decided(decision: str) -> SendFrame:
    """Send a person's answer."""
    return SendFrame("control.interaction.response",
                     {"interaction_id": "$question", "decision": decision, "by": "someone"})


def result(status: str) -> ExpectFrame:
    """Expect the end of the tool call."""
    return ExpectFrame("tool.invoke.result", has={"payload.invocation_id": "$call", "payload.status": status})


ALLOWED: tuple[Step, ...] = (decided("allow"), resolved("allowed"), result("ok"), *turn_over("end_turn"))

WITH_RUNNER: tuple[ConformanceConversation, ...] = (
    ConformanceConversation("hello-first", ("L-4", "L-2"),
                            "The runner's first frame is a hello, and it waits for the welcome.", (
        CutLink(), RefusedLink(),
        ExpectFrame("x-interlock.hello", next_=True, has={
            "payload.versions": holding(DPS_VERSION), "payload.runner_id": FILLED, "payload.boot_id": FILLED}),
        Silence(), CutLink(), Join())),
    ConformanceConversation("welcome-in-time", ("L-4", "L-5"),
                            "Without a welcome the runner closes the link after ten seconds.",
                            (CutLink(), RefusedLink(), ExpectFrame("x-interlock.hello"), ExpectClose((), OPENING_S),
                             Join()), slow=True),
    ConformanceConversation("open", ("A-6", "D-7"), "An open is confirmed, and answered by the agent's capabilities.", (
        *OPEN, SendFrame("control.turn.cancel", {"reason": "there is none"}),
        ExpectFrame("x-interlock.ack", where={"payload.session_id": "$session", "payload.seq": at_least(2)}))),
    ConformanceConversation("open-fails", ("A-6", "W-2"),
                            "An open for an unknown agent fails, and its session is closed.", (
        Join(), SendFrame("control.session.open", {**OPENING, "agent_id": "no-such-agent"}, keep="open"),
        ExpectFrame("session.error", has={"payload.error_code": Code.AGENT_START_FAILED.value, "payload.fatal": True,
                                          "metadata.in_reply_to": "$open_id"}),
        ExpectFrame("session.closed"))),
    ConformanceConversation("not-open", ("W-2",),
                            "A prompt for a session that is not open is refused, and changes nothing.", (
        Join(), prompt(), failed(Code.SESSION_NOT_FOUND))),
    ConformanceConversation("workspace", ("A-1", "W-2"), "A workspace outside the runner's roots fails the open.", (
        Join(), SendFrame("control.session.open", {**OPENING, "workspace": "/"}, keep="open"),
        ExpectFrame("session.error", has={"payload.error_code": Code.WORKSPACE_REFUSED.value, "payload.fatal": True,
                                          "metadata.in_reply_to": "$open_id"}),
        ExpectFrame("session.closed"))),
    ConformanceConversation("gap-again", ("E-3", "W-2", "T-5"),
                            "A second gap at the same place closes that session and its agent, "
                            "and keeps the link.", (
        *OPEN, SendFrame("control.turn.cancel", {"reason": "too early"}, skip=1), ExpectClose((CloseCode.GAP,)), Join(),
        ExpectFrame("session.history", next_=True), SendFrame("control.turn.cancel", {"reason": "too early"}, skip=1),
        ExpectFrame("session.error", has={"payload.error_code": Code.INTERNAL.value, "payload.fatal": True}),
        ExpectFrame("session.closed", within_s=ENDING_S), Join())),
    ConformanceConversation("allow", ("A-5", "T-2", "T-3", "D-7"),
                            "A tool runs only after the yes; the turn ends with its usage.",
                            (*ASKED, Silence(("tool.invoke.result", "x-interlock.interaction.resolved")), *ALLOWED)),
    ConformanceConversation("deny", ("A-5",), "After a no, the tool does not run.", (
        *ASKED, decided("deny"), resolved("denied"), result("denied"), *turn_over("end_turn", "error"))),
    ConformanceConversation("timeout", ("A-5",), "A timeout counts as a no.", (
        *ASKED, SendFrame("control.interaction.timeout", {"interaction_id": "$question"}),
        resolved("expired", "denied"),
        result("denied"), *turn_over("end_turn", "error"))),
    ConformanceConversation("in-progress", ("T-1", "W-2"),
                            "A second prompt during a turn is refused, and the turn continues.", (
        *ASKED, prompt(prompt_id="$other"), failed(Code.PROMPT_IN_PROGRESS), *ALLOWED)),
    ConformanceConversation("cancel", ("A-4", "T-2"), "A cancel ends the turn as cancelled, with its usage.", (
        *ASKED, SendFrame("control.turn.cancel", {"reason": "a person asked"}), *turn_over("cancelled"))),
    ConformanceConversation("duplicate", ("D-7",), "A control frame that is received twice is applied once.", (
        *ASKED, Again("asked"), Silence(("session.error", "session.turn.start"), 1.0), *ALLOWED)),
    ConformanceConversation("gap", ("E-3",), "A gap closes the link with 4409, and the reattach repairs it.", (
        *OPEN, SendFrame("control.turn.cancel", {"reason": "too early"}, skip=1), ExpectClose((CloseCode.GAP,)), Join(),
        ExpectFrame("session.history", next_=True))),
    ConformanceConversation("invalid", ("E-1", "W-1", "W-2"),
                            "A malformed frame is refused with its place; the link stays open.", (
        *OPEN, SendFrame("control.prompt.request", {"prompt_id": "p"}),
        failed(Code.INVALID_FRAME, "payload.input_type"),
        Unless("features", "permission", "never", NEVER_ASKS), prompt(), STARTED)),
    ConformanceConversation("unknown", ("E-1", "E-2"), "Unknown types and fields are ignored.", (
        *OPEN, SendFrame("x-acme.weather", {"sun": 1}), prompt(colour="red"), STARTED)),
    ConformanceConversation("direction", ("W-1",), "A frame that only a runner sends is refused from a gateway.", (
        *OPEN, SendFrame("session.turn.end", {"turn_id": "t", "stop_reason": "end_turn"}),
        failed(Code.INVALID_FRAME, "type"), prompt(), STARTED)),
    ConformanceConversation("unsupported", ("A-6", "W-2"),
                            "A mode switch without plan_mode is refused by the feature's name.", (
        *OPEN, Unless("features", "plan_mode", True, "its agent has plan_mode"),
        SendFrame("control.mode.switch", {"mode": "plan"}), failed(Code.UNSUPPORTED_CAPABILITY, "plan_mode"),
        prompt(), STARTED)),
    ConformanceConversation("compaction", ("A-6", "W-2"),
                            "A compaction that is not offered is refused by the feature's name.", (
        *OPEN, Unless("features", "context_compaction", True, "its agent compacts"),
        SendFrame("control.session.compact", {"request_id": "c"}),
        failed(Code.UNSUPPORTED_CAPABILITY, "context_compaction"))),
    ConformanceConversation("unknown-turn", ("T-4", "W-2"), "A cancel of a turn that is not open changes nothing.", (
        *OPEN, SendFrame("control.turn.cancel", {"reason": "of what", "turn_id": "no-such-turn"}),
        failed(Code.UNKNOWN_TURN))),
    ConformanceConversation("history", ("D-2", "D-1", "A-5"),
                            "After a cut the session resumes with its history, from the first frame that was not "
                            "acknowledged, and a waiting question can still be answered.", (
        *ASKED, CutLink(), Join(durable=0),
        ExpectFrame("session.history", next_=True, has={
            "payload.buffer_status.truncated": False, "payload.frames.0.seq": 1,
            "payload.frames.0.type": FILLED, "payload.last_message_id": ""}),
        *ALLOWED), acks=False),
    ConformanceConversation("close", ("A-4",), "A close ends with session.closed, and no frame follows it.", (
        *OPEN, SendFrame("control.session.close", {"reason": "enough"}),
        ExpectFrame("session.closed", within_s=ENDING_S),
        Silence(("agent.state.changed", "session.error", "agent.error"), 0.3), Never("session.error"))),
)
"""Every conversation with a runner."""
