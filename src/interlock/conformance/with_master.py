"""Conversations with a RAWP Master: we are the runner (rawp.md, from the far end of the link)."""

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
    PersonAction,
    RefusedLink,
    SendFrame,
    Step,
    at_least,
    holding,
)
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.limits import OPENING_TIMEOUT_MS

AGENT = "conformance"
"""The agent that we claim to have; the master is asked to use it."""
OPENING_S = OPENING_TIMEOUT_MS / 1000 + 3

WARNING: dict[str, Any] = {"severity": "warning", "error_code": "CONFORMANCE", "message": "only a word"}
USAGE: dict[str, Any] = {
    "token_usage": {"input_tokens": 1, "output_tokens": 1}, "cost_usage": {"limit": -1, "used": 0, "unit": "USD"},
    "message_usage": {"limit": -1, "used": 1, "unit": "COUNT"}, "context_window": {},
    "time_to_reset": "2030-01-01T00:00:00.000Z",
}
CAPABILITIES: dict[str, Any] = {
    "dps_version": DPS_VERSION,
    "features": {"adapter_type": "process", "permission": "asks", "context_owner": "agent", "context_compaction": False,
                 "plan_mode": False, "pause": "none", "resume_session": False, "single_turn_process": False,
                 "images": False, "thinking": False},
    "agent": {"agent_id": AGENT, "name": AGENT},
}
QUESTION: dict[str, Any] = {
    "interaction_id": "$turn", "interaction_type": "PERMISSION", "title": "echo conformance",
    "context": {"tool_name": "conformance", "invocation_id": "call-1", "input": {"command": "echo conformance"}},
    "options": [{"option_id": "yes", "label": "Allow", "kind": "allow_once"},
                {"option_id": "no", "label": "Deny", "kind": "reject_once"}],
}
TOOL: dict[str, Any] = {"invocation_id": "call-1", "turn_id": "$turn", "tool_name": "conformance",
                        "input": {"command": "echo conformance"}}


def acked(seq: int) -> ExpectFrame:
    """Expect that everything up to `seq` is acknowledged."""
    return ExpectFrame("x-interlock.ack", where={"payload.session_id": "$session", "payload.seq": at_least(seq)})


def refused(part: str) -> ExpectFrame:
    """Expect a refusal of the frame that names the place of the error, and is not fatal."""
    return ExpectFrame("session.error", where={"payload.error_code": Code.INVALID_FRAME.value},
                       has={"payload.message": holding(part), "payload.fatal": False})


OPEN: tuple[Step, ...] = (
    Join(), PersonAction("prompt"),
    ExpectFrame("control.session.open", has={"payload.agent_id": AGENT, "seq": 1, "session_id": FILLED},
                keep={"session": "payload.session_id", "open_id": "message_id"}),
    SendFrame("session.capabilities", CAPABILITIES, {"in_reply_to": "$open_id"}),
    ExpectFrame("control.prompt.request",
                keep={"prompt": "payload.prompt_id", "prompt_id": "message_id", "prompt_seq": "seq"}),
)
"""Seq 1 is used."""
TURN: tuple[Step, ...] = (
    SendFrame("session.turn.start", {"turn_id": "$turn", "turn_index": 0}, {"prompt_id": "$prompt"}, keep="start"),
)
"""Seq 2 is used."""
ASKING: tuple[Step, ...] = (
    *OPEN, *TURN, SendFrame("tool.invoke.request", TOOL), SendFrame("agent.interaction.request", QUESTION),
    ExpectFrame("x-interlock.interaction.held",
                has={"payload.interaction_id": "$turn", "payload.expires_in_ms": at_least(1)}),
)


def answered(action: str, decision: str, outcome: str, status: str) -> tuple[Step, ...]:
    """Have a person decide; expect the decision as the runner, and send its outcome."""
    return (
        *ASKING, PersonAction(action),
        ExpectFrame("control.interaction.response",
                    has={"payload.interaction_id": "$turn", "payload.decision": decision}),
        SendFrame("x-interlock.interaction.resolved",
                  {"interaction_id": "$turn", "outcome": outcome, "decided_at": "2030-01-01T00:00:00.000Z"}),
        SendFrame("tool.invoke.result",
                  {"invocation_id": "call-1", "status": status, "output_type": "text", "output": "",
                                         "duration_ms": 1}),
        *ended("end_turn"), acked(7), Never("session.error"),
    )


def lost(policy: str, last: int) -> SendFrame:
    """Send a history that reports what its buffer lost: from 3 to `last`."""
    return SendFrame("session.history", {
        "frames": [], "last_sync_timestamp": "2030-01-01T00:00:00.000Z", "last_message_id": "",
        "buffer_status": {"policy_applied": policy, "truncated": True, "lost_frame_count": last - 2},
    }, {"lost_ranges": [[3, last]]})


def reported_loss(policy: str) -> ConformanceConversation:
    """Return the conversation in which a loss that the history names is not a gap."""
    return ConformanceConversation(f"loss-{policy.lower()}", ("D-3", "D-2", "E-3"),
                                   "A loss that a history reports is not a gap, under "
                                   f"{policy}; the frames after it are accepted.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2), lost(policy, 4),
        SendFrame("agent.error", WARNING, skip=2), acked(5), Never("session.error")))


def ended(stop_reason: str) -> tuple[Step, ...]:
    """Send the end of the turn, with the usage report that must follow."""
    return (SendFrame("session.turn.end", {"turn_id": "$turn", "stop_reason": stop_reason}),
            SendFrame("session.usage", {**USAGE, "turn_id": "$turn"}))


WITH_MASTER: tuple[ConformanceConversation, ...] = (
    ConformanceConversation("hello-welcome", ("L-4",),
                            "The gateway replies to a hello with a welcome, and sends nothing before it.", (
        RefusedLink(), SendFrame("x-interlock.hello", "$hello"),
        ExpectFrame("x-interlock.welcome", next_=True, has={
            "payload.version": DPS_VERSION, "payload.link_id": FILLED, "payload.gateway_id": FILLED}))),
    ConformanceConversation("hello-first", ("L-4", "W-1"), "A first frame other than a hello closes the link.", (
        RefusedLink(), SendFrame("x-interlock.heartbeat", {"agents": []}), ExpectClose((CloseCode.OPENING,)))),
    ConformanceConversation("hello-in-time", ("L-4",), "The gateway closes a link without a hello after ten seconds.", (
        RefusedLink(), ExpectClose((CloseCode.OPENING,), OPENING_S)), slow=True),
    ConformanceConversation("version", ("L-4", "W-2"), "A runner with no version in common is refused with a reason.", (
        RefusedLink(), SendFrame("x-interlock.hello", "$hello_of_old"), ExpectClose((CloseCode.VERSION,)))),
    ConformanceConversation("token", ("L-3",), "A wrong token is refused before the link opens.", (
        RefusedLink(token="wrong", refused=(401, 403)),)),
    ConformanceConversation("subprotocol", ("L-2",), "A link in another subprotocol is refused.", (
        RefusedLink(subprotocol="rawp-dps-0.0", refused=(400, 406, 426)),)),
    ConformanceConversation("ack", ("D-1",),
                            "An acknowledged frame is stored: the gateway resumes after it when the link was cut.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2))),
    ConformanceConversation("duplicate", ("E-3", "D-1"),
                            "A frame with a number already received is ignored, and the link stays open.",
                            (
        *OPEN, *TURN, Again("start"), Again("start"), SendFrame("agent.error", WARNING), acked(3),
        Never("session.error"),
        CutLink(), Join(durable=3))),
    ConformanceConversation("gap", ("E-3",), "A gap closes the link with 4409, and the reattach repairs it.", (
        *OPEN, acked(1), SendFrame("agent.error", WARNING, skip=1), ExpectClose((CloseCode.GAP,)), Join(durable=1),
        SendFrame("session.history", "$history"), SendFrame("agent.error", WARNING), acked(2))),
    ConformanceConversation("invalid", ("E-1", "W-1", "W-2"),
                            "A malformed frame is refused with its place; the link stays open.", (
        *OPEN, SendFrame("agent.error", {"severity": "warning", "message": "no code"}), refused("payload.error_code"),
        SendFrame("agent.error", {**WARNING, "severity": "loud"}), refused("payload.severity"),
        SendFrame("agent.error", WARNING), acked(4))),
    ConformanceConversation("unknown", ("E-1", "E-2"), "An unknown type is stored, not refused.", (
        *OPEN, SendFrame("x-acme.weather", {"sun": [1, None]}), SendFrame("moon.phase", {"is": "new"}), acked(3),
        SendFrame("agent.error", {**WARNING, "colour": "red"}), acked(4), Never("session.error"))),
    ConformanceConversation("transient", ("E-4",),
                            "A transient frame has no number; one with a number is refused, and uses up none.", (
        *OPEN, *TURN, SendFrame("agent.text.delta", {"turn_id": "$turn", "block_id": "b", "offset": 0, "text": "he"}),
        SendFrame("agent.text.delta", {"turn_id": "$turn", "block_id": "b", "offset": 2, "text": "llo"}, seq=3),
        refused("seq"), SendFrame("agent.text.done", {"turn_id": "$turn", "block_id": "b", "text": "hello"}),
        acked(3))),
    ConformanceConversation("direction", ("W-1",), "A frame that only a gateway sends is refused from a runner.", (
        *OPEN, SendFrame("control.turn.cancel", {"reason": "I may not"}), refused("type"),
        SendFrame("agent.error", WARNING), acked(3))),
    ConformanceConversation("control-again", ("D-7",),
                            "Control frames that were not confirmed are sent again after a reattach, "
                            "in order; confirmed ones are not.", (
        *OPEN, CutLink(), Join(control_seq=0),
        ExpectFrame("control.session.open", has={"message_id": "$open_id", "seq": 1}),
        ExpectFrame("control.prompt.request", has={"message_id": "$prompt_id", "seq": "$prompt_seq"}),
        CutLink(), Join(control_seq=1),
        ExpectFrame("control.prompt.request", next_=True, has={"message_id": "$prompt_id"})),
        acks=False),
    ConformanceConversation("history", ("D-2", "D-1"),
                            "Frames that waited while the link was down are applied from the history.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2), SendFrame("session.history", "$history_of_turn"),
        SendFrame("agent.error", WARNING), acked(6), Never("session.error"))),
    ConformanceConversation("history-in-parts", ("D-2", "D-1"), "A history in two parts is applied as one.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2),
        SendFrame("session.history", "$history_part_1", {"part": 1, "parts": 2}),
        SendFrame("session.history", "$history_part_2", {"part": 2, "parts": 2}),
        SendFrame("agent.error", WARNING), acked(6), Never("session.error"))),
    ConformanceConversation("history-again", ("D-2", "D-1", "E-3"), "A history that is sent again changes nothing.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2),
        SendFrame("session.history", "$history_of_turn", keep="history"),
        acked(5), Again("history"), SendFrame("agent.error", WARNING), acked(6), Never("session.error"))),
    reported_loss("RING"), reported_loss("DROP"), reported_loss("NONE"),
    ConformanceConversation("loss-unreported", ("E-3", "D-3"),
                            "A gap that is wider than the reported loss closes the link.", (
        *OPEN, *TURN, acked(2), CutLink(), Join(durable=2), lost("RING", 3), SendFrame("agent.error", WARNING, skip=2),
        ExpectClose((CloseCode.GAP,)), Join(durable=2))),
    ConformanceConversation("allow", ("A-5",), "A question waits for a person, whose yes is sent to the runner.",
                            answered("allow", "allow", "allowed", "ok")),
    ConformanceConversation("deny", ("A-5",),
                            "A person's no is sent to the runner.", answered("deny", "deny", "denied", "denied")),
    ConformanceConversation("question-outlives-link", ("A-5", "D-7"),
                            "An answer from the time when the link was down is sent after the reattach.", (
        *ASKING, CutLink(), PersonAction("allow"), Join(), SendFrame("session.history", "$history"),
        ExpectFrame("control.interaction.response",
                    has={"payload.interaction_id": "$turn", "payload.decision": "allow"}))),
    ConformanceConversation("cancel", ("A-4",),
                            "A cancel is sent to the runner, and the end of the turn is accepted.", (
        *OPEN, *TURN, PersonAction("cancel"), ExpectFrame("control.turn.cancel"), *ended("cancelled"), acked(4),
        Never("session.error"))),
    ConformanceConversation("usage", ("T-2", "T-4"),
                            "A turn's frames are accepted during the turn, and refused after its end.", (
        *OPEN, *TURN, *ended("end_turn"), acked(4),
        SendFrame("agent.text.done", {"turn_id": "$turn", "block_id": "b", "text": "late"}),
        ExpectFrame("session.error", has={"payload.error_code": Code.UNKNOWN_TURN.value, "payload.fatal": False}),
        acked(5))),
)
"""Every conversation with a master."""
