"""Error codes of the link (W-2), each with the responsible party and the remedy. The REST codes are in `problems`."""

from enum import StrEnum
from typing import NamedTuple


class Fault(StrEnum):
    """Who can fix it."""

    USER = "user"
    AGENT = "agent"
    RUNNER = "runner"
    GATEWAY = "gateway"
    NETWORK = "network"


class Code(StrEnum):
    """`error_code` of `session.error`, `agent.error` and `x-interlock.control.refused` (rawp section 7)."""

    PROMPT_IN_PROGRESS = "PROMPT_IN_PROGRESS"
    SIGNAL_EXIT = "SIGNAL_EXIT"
    INVALID_FRAME = "INVALID_FRAME"
    UNSUPPORTED_CAPABILITY = "UNSUPPORTED_CAPABILITY"
    UNKNOWN_TURN = "UNKNOWN_TURN"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    PROCESS_EXIT = "PROCESS_EXIT"
    AGENT_START_FAILED = "AGENT_START_FAILED"
    RUNNER_RESTARTED = "RUNNER_RESTARTED"
    FRAME_TOO_LARGE = "FRAME_TOO_LARGE"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
    UNAUTHORIZED = "UNAUTHORIZED"
    WORKSPACE_REFUSED = "WORKSPACE_REFUSED"
    WORKSPACE_NOT_TRUSTED = "WORKSPACE_NOT_TRUSTED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    COMPACTION_FAILED = "COMPACTION_FAILED"
    CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW"
    UPSTREAM_ERROR = "UPSTREAM_ERROR"
    RAN_UNASKED = "RAN_UNASKED"
    RAN_OTHER_THAN_ALLOWED = "RAN_OTHER_THAN_ALLOWED"
    NOT_ASKING = "NOT_ASKING"
    NOT_BOXED = "NOT_BOXED"
    NETWORK_REFUSED = "NETWORK_REFUSED"
    STARTED_BETWEEN_TURNS = "STARTED_BETWEEN_TURNS"
    STOPPED_ASKING = "STOPPED_ASKING"
    INTERNAL = "INTERNAL"


class Meaning(NamedTuple):
    """A code's explanation for people."""

    sentence: str
    fault: Fault
    remedy: str


MEANINGS: dict[Code, Meaning] = {
    Code.PROMPT_IN_PROGRESS: Meaning(
        "The session already works on a prompt.", Fault.USER, "Wait for the turn to end, or cancel it."
    ),
    Code.SIGNAL_EXIT: Meaning(
        "The agent was ended by a signal.", Fault.AGENT,
        "Correct what its last lines name, if there are any; run it again."
    ),
    Code.INVALID_FRAME: Meaning(
        "A frame does not have the form its type asks for.", Fault.RUNNER, "Update the side that sent it."
    ),
    Code.UNSUPPORTED_CAPABILITY: Meaning(
        "The agent cannot do what was asked.", Fault.USER,
        "Request what the agent offers, or choose an agent that offers it."
    ),
    Code.UNKNOWN_TURN: Meaning(
        "A frame names a turn that is not open in its session.", Fault.RUNNER, "Update the runner; nothing was changed."
    ),
    Code.NOT_CONTROLLER: Meaning(
        "This gateway only observes the session.", Fault.USER, "Send it through the gateway that opened the session."
    ),
    Code.PROCESS_EXIT: Meaning(
        "The agent's process ended with an error.", Fault.AGENT,
        "Correct what its last lines name, if there are any; run it again."
    ),
    Code.AGENT_START_FAILED: Meaning(
        "The agent could not be started.", Fault.USER,
        "See what it lacks: `interlock agents`, and `interlock doctor` on the runner's host."
    ),
    Code.RUNNER_RESTARTED: Meaning(
        "The runner was restarted while the agent worked.", Fault.RUNNER, "Send it again; the messages are kept."
    ),
    Code.FRAME_TOO_LARGE: Meaning(
        "Something was larger than a frame may be.", Fault.AGENT, "Have it write to a file instead."
    ),
    Code.SESSION_NOT_FOUND: Meaning(
        "The session is not known.", Fault.USER, "List the sessions with `interlock sessions`."
    ),
    Code.VERSION_UNSUPPORTED: Meaning(
        "Gateway and runner share no protocol version.", Fault.USER, "Update the older of the two."
    ),
    Code.UNAUTHORIZED: Meaning("The runner's token is not accepted.", Fault.USER, "Pair the runner again."),
    Code.WORKSPACE_REFUSED: Meaning(
        "The directory lies outside the runner's roots.", Fault.USER, "Start `interlock up` with `--root DIR`."
    ),
    Code.WORKSPACE_NOT_TRUSTED: Meaning(
        "Files in the workspace configure the agent, and no one has allowed them.", Fault.USER,
        "Read them, then run it again and answer the question; or set `workspace_files` of the agent."
    ),
    Code.BUDGET_EXCEEDED: Meaning("A budget is used up.", Fault.USER, "Raise the budget, or wait for its reset."),
    Code.COMPACTION_FAILED: Meaning(
        "The conversation could not be compacted.", Fault.AGENT, "Start a new session, or compact again."
    ),
    Code.CONTEXT_OVERFLOW: Meaning(
        "The conversation no longer fits the model's window.", Fault.AGENT, "Compact the session."
    ),
    Code.UPSTREAM_ERROR: Meaning(
        "The agent's model service failed.", Fault.NETWORK, "Check the agent's credentials and its service; try again."
    ),
    Code.RAN_UNASKED: Meaning(
        "The agent used a tool without asking.", Fault.AGENT,
        "Look at what it did; set the agent to ask, or let its whole command be approved: `interlock agents`."
    ),
    Code.RAN_OTHER_THAN_ALLOWED: Meaning(
        "The agent ran something else than what was allowed.", Fault.AGENT,
        "Look at what it did; do not use this agent until you know why."
    ),
    Code.NOT_ASKING: Meaning(
        "The agent does not ask before its tools, and the command was only for one that does.", Fault.AGENT,
        "Approve the whole command, or open the agent in a mode in which it asks: `interlock agents`."
    ),
    Code.NOT_BOXED: Meaning(
        "The agent's box holds less than the one that the command was decided on.", Fault.RUNNER,
        "Approve the command for the box that is shown now, or correct `[agents.ID.box]` on the runner."
    ),
    Code.NETWORK_REFUSED: Meaning(
        "The agent's box refused a connection to a host that it may not reach.", Fault.AGENT,
        "If the agent needs that host, name it in `network` of `[agents.ID.box]` on the runner."
    ),
    Code.STARTED_BETWEEN_TURNS: Meaning(
        "The agent started a program that its box names, while it worked on no command.", Fault.AGENT,
        "If it should not, remove it from `between_turns` of `[agents.ID.box]` on the runner."
    ),
    Code.STOPPED_ASKING: Meaning(
        "The agent was switched so that it no longer asks before its tools.", Fault.AGENT,
        "Look at what it did; its next command waits for an approval, or goes back to the asking mode."
    ),
    Code.INTERNAL: Meaning("Interlock failed.", Fault.GATEWAY, "Report it with the gateway's log."),
}


class CloseCode:
    """WebSocket close codes of the link."""

    GAP = 4409
    """A durable frame's seq left a gap (E-3)."""
    UNAUTHORIZED = 4401
    """The token is not, or no longer, accepted (L-3)."""
    VERSION = 4406
    """No common version (L-4)."""
    OPENING = 4408
    """Hello did not arrive within OPENING_TIMEOUT_MS, or another frame came first (L-4)."""
    REPLACED = 4410
    """The same runner opened a newer link."""
    OUTDATED = 4411
    """The hello arrived late: the same runner has sent a newer one since. The reason ends with that one's number."""
    REOPENING = 4412
    """The runner reopens the link at once, with a new hello: its offer has changed."""
    LEDGER = 1011
    """The gateway could not commit; reconnect and send again."""
