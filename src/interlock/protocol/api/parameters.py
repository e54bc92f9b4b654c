"""The query parameters of the API as JSON Schema, by name, with the bounds that the operations enforce."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from interlock.protocol.box import Part
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.limits import (
    ACTIVE_MAX_MINUTES,
    AUDIT_SIZE_MAX,
    CURSOR_MAX_CHARS,
    LAST_EVENTS_MAX,
    PAGE_DEFAULT,
    PAGE_MAX,
    USAGE_DAYS,
    USAGE_DAYS_DEFAULT,
    USAGE_ITEMS_MAX,
    WAIT_MAX_S,
)
from interlock.protocol.policy_terms import COMMAND_TYPES, Door, Origin, Permission, Width
from interlock.protocol.resources import (
    ApprovalState,
    CommandState,
    CommandType,
    Decision,
    DeliveryState,
    UsageDimension,
)

MAX_COST_USD = 1_000_000
BOX_PATTERN = f"^(({'|'.join(get_args(Part))})(,({'|'.join(get_args(Part))}))*)?$"
"""Parts of a box, with commas between."""


class Parameter(NamedTuple):
    """A query parameter: its schema, and its description."""

    schema: dict[str, Any]
    description: str
    required: bool = False


def _one_of(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def _whole(low: int, high: int, default: int | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
    return schema if default is None else {**schema, "default": default}


_CURSOR: dict[str, Any] = {"type": "string", "maxLength": CURSOR_MAX_CHARS}
_INSTANT: dict[str, Any] = {"type": "string", "format": "date-time"}
_DAY: dict[str, Any] = {"type": "string", "format": "date"}
_TEXT: dict[str, Any] = {"type": "string"}

PARAMETERS: dict[str, Parameter] = {
    "limit": Parameter(_whole(1, PAGE_MAX, PAGE_DEFAULT), "How many one page has at most."),
    "active": Parameter(_whole(1, ACTIVE_MAX_MINUTES), "Only what changed within this number of minutes."),
    "cursor": Parameter(_CURSOR, "`next_cursor` of the page before, as it was given."),
    "since": Parameter(_CURSOR, "A cursor, exclusive; left out, it begins at the start. `Last-Event-ID` beats it."),
    "last": Parameter(_whole(0, LAST_EVENTS_MAX), "Begin this number of events before the end, with 0 at the end; not "
                      "with `since`. `Last-Event-ID` beats it."),
    "before": Parameter(_CURSOR, "A cursor, such as `previous_cursor`: the page ends there; not with `since`, `last` "
                        "or a stream."),
    "wait": Parameter(_whole(0, WAIT_MAX_S, 0), "Seconds that a poll waits for something to come."),
    "view": Parameter(_one_of("delivered", "raw"), "What silence leaves, or all; `raw` is for operators, auditors and "
                      "admins."),
    "agent": Parameter(_TEXT, "The agent's id."),
    "session": Parameter(_TEXT, "The session's id."),
    "session_id": Parameter(_TEXT, "The session's id."),
    "actor": Parameter(_TEXT, "Who gave it: the id of a person or agent, alone or as `user:ID`, `agent:ID`."),
    "tenant": Parameter(_TEXT, "Another tenant: the owner's to name."),
    "listCommands.state": Parameter(_one_of(*get_args(CommandState)), "Commands in this state alone."),
    "listCommands.type": Parameter(_one_of(*get_args(CommandType)), "Commands of this type alone."),
    "listApprovals.state": Parameter(_one_of(*get_args(ApprovalState)), "Approvals in this state; the inbox is "
                                     "`pending`."),
    "listApprovals.decided": Parameter(_one_of("true"), "Those that are no longer pending alone."),
    "listApprovals.by": Parameter(_TEXT, "Those that this person has voted on or decided: `ann` or `user:ann`."),
    "listApprovals.q": Parameter(_TEXT, "Those with this text in title, tool, agent, directory, comment or rule."),
    "listSessions.state": Parameter(_TEXT, "Sessions in this state alone: `running`, `idle`, `closed` and others."),
    "listSessions.key": Parameter(_TEXT, "The sessions that this key has had."),
    "listSessions.runner": Parameter(_TEXT, "The runner's id."),
    "listSessions.workspace": Parameter(_TEXT, "The directory on the runner."),
    "listSessions.waiting": Parameter(_one_of("true"), "Those with an approval that waits for a person alone."),
    "listSessions.q": Parameter(_TEXT, "Those with this text in title, key, id, agent or directory."),
    "listDeliveries.state": Parameter(_one_of(*get_args(DeliveryState)), "Deliveries in this state; `dead` never "
                                      "arrived."),
    "getTranscript.last": Parameter(_whole(1, PAGE_MAX), "Begin this number of entries before the end; not with "
                                    "`cursor`."),
    "exportTranscript.format": Parameter(_one_of("jsonl", "markdown", "html"), "The file (the default), or "
                                         "the path to the leaf to read."),
    "exportTranscript.view": Parameter(_one_of("delivered", "raw"), "With the rules of redaction over what was sent "
                                       "(the default), or as it is, to import it elsewhere: for admins, and recorded."),
    "importTranscript.agent_id": Parameter(_TEXT, "The agent of the session; beside an uploaded transcript."),
    "importTranscript.runner_id": Parameter(_TEXT, "The runner, where several offer the agent."),
    "importTranscript.workspace": Parameter(_TEXT, "The directory on the runner."),
    "proposeRule.scope": Parameter(_one_of("session", "rule"), "For the session, or for the tenant."),
    "proposeRule.width": Parameter(_one_of(*get_args(Width)), "How much it covers; without it the narrowest."),
    "proposeRule.decision": Parameter(_one_of(*get_args(Decision)), "What is to be remembered."),
    "decide.agent": Parameter({"type": "string", "pattern": f"^{AGENT_ID.pattern}$"}, "The agent of the call.",
                              required=True),
    "decide.door": Parameter(_one_of(*get_args(Door)), "A command before its start, or a tool call (the default)."),
    "decide.type": Parameter(_one_of(*COMMAND_TYPES), "The type of a command, or a verb that does not wait."),
    "decide.tool": Parameter(_TEXT, "The tool's name."),
    "decide.kind": Parameter(_TEXT, "The agent's own word for what the tool does, believed here."),
    "decide.command": Parameter(_TEXT, "The command line in the tool's input."),
    "decide.path": Parameter(_TEXT, "The path in the tool's input."),
    "decide.subject": Parameter({"type": "string", "contentMediaType": "application/json"},
                                "A whole permission request, as an approval has it in `subject`; every fact of it "
                                "counts, and `tool`, `kind`, `input`, `command` and `path` are ignored."),
    "decide.input": Parameter({"type": "string", "contentMediaType": "application/json"},
                              "The whole input, a JSON object; it replaces `command` and `path`."),
    "decide.workspace": Parameter(_TEXT, "The directory that paths are seen from."),
    "decide.origin": Parameter(_one_of(*get_args(Origin)), "Who gave the command."),
    "decide.permission": Parameter(_one_of(*get_args(Permission)), "Whether the agent asks before its tools."),
    "decide.box": Parameter({"type": "string", "pattern": BOX_PATTERN},
                            "What the agent's box holds, with commas between: "
                            f"{', '.join(get_args(Part))}; empty for no box."),
    "decide.cost_usd": Parameter(_whole(0, MAX_COST_USD, 0), "What the session has cost so far."),
    "decide.runner": Parameter(_TEXT, "The id of the runner that the agent runs on."),
    "decide.person": Parameter(_TEXT, "Whose work it is, such as `user:ann`."),
    "readAudit.order": Parameter(_one_of("oldest", "newest"), "Which records come first; `oldest` if left out."),
    "readAudit.actor": Parameter(_TEXT, "Who did it: `ann` or `user:ann`."),
    "readAudit.action": Parameter(_TEXT, "What was done, such as `vote`."),
    "readAudit.command": Parameter(_TEXT, "The id of the command that it is about."),
    "readAudit.approval": Parameter(_TEXT, "The id of the approval that it is about."),
    "readAudit.from": Parameter(_INSTANT, "Records from this instant on."),
    "readAudit.to": Parameter(_INSTANT, "Records before this instant."),
    "getUsage.from": Parameter(_DAY, f"The first day; {USAGE_DAYS_DEFAULT} days with the last one if left out."),
    "getUsage.to": Parameter(_DAY, f"The last day, itself included; today if left out. At most {USAGE_DAYS} days."),
    "getUsage.by": Parameter({"type": "string", "default": "day", "examples": ["day,agent"]}, "What is kept apart: one "
                             f"or more of {', '.join(get_args(UsageDimension))}, with commas between them."),
    "getUsage.model": Parameter(_TEXT, "The model's name, as the session has it."),
    "getUsage.person": Parameter(_TEXT, "Who gave the commands, as `user:ann`."),
    "getUsage.limit": Parameter(_whole(1, USAGE_ITEMS_MAX, PAGE_DEFAULT), "How many items the answer has at most."),
    "proveInclusion.seq": Parameter(_whole(1, AUDIT_SIZE_MAX), "The record's number.", required=True),
    "size": Parameter(_whole(0, AUDIT_SIZE_MAX), "The tree's size; that of the newest checkpoint where it is "
                      "left out."),
    "first": Parameter(_whole(0, AUDIT_SIZE_MAX), "The size of the earlier tree.", required=True),
    "second": Parameter(_whole(0, AUDIT_SIZE_MAX), "The size of the later tree; the newest checkpoint's "
                        "where left out."),
}
"""By `operation.name`, or by `name` if it means the same everywhere."""


def parameter(operation: str, name: str) -> Parameter:
    """Return a parameter; one without a description is any text."""
    return PARAMETERS.get(f"{operation}.{name}") or PARAMETERS.get(name) or Parameter(_TEXT, "")
