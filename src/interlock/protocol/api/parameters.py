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
    "limit": Parameter(_whole(1, PAGE_MAX, PAGE_DEFAULT), "The maximum number of items in a page."),
    "active": Parameter(_whole(1, ACTIVE_MAX_MINUTES), "Only sessions that changed within this number of minutes."),
    "cursor": Parameter(_CURSOR, "`next_cursor` of the previous page, unchanged."),
    "since": Parameter(_CURSOR,
                       "Return what follows this cursor; by default, start at the beginning. `Last-Event-ID` takes "
                       "precedence."),
    "last": Parameter(_whole(0, LAST_EVENTS_MAX),
                      "Start this number of events before the end, with 0 at the end; not with `since`. "
                      "`Last-Event-ID` takes precedence."),
    "before": Parameter(_CURSOR,
                        "A cursor, such as `previous_cursor`, at which the page ends; not with `since`, `last` or a "
                        "stream."),
    "wait": Parameter(_whole(0, WAIT_MAX_S, 0), "The number of seconds for which a poll waits for an event."),
    "view": Parameter(_one_of("delivered", "raw"),
                      "`delivered`: what the session's silence settings leave; `raw`: everything, for operators, "
                      "auditors and admins."),
    "agent": Parameter(_TEXT, "The agent's id."),
    "session": Parameter(_TEXT, "The session's id."),
    "session_id": Parameter(_TEXT, "The session's id."),
    "actor": Parameter(_TEXT, "The id of the person or agent who submitted it, alone or as `user:ID`, `agent:ID`."),
    "tenant": Parameter(_TEXT, "Another tenant; only an owner may name one."),
    "listCommands.state": Parameter(_one_of(*get_args(CommandState)), "Only commands in this state."),
    "listCommands.type": Parameter(_one_of(*get_args(CommandType)), "Only commands of this type."),
    "listApprovals.state": Parameter(_one_of(*get_args(ApprovalState)),
                                     "Only approvals in this state; the inbox is `pending`."),
    "listApprovals.decided": Parameter(_one_of("true"), "Only approvals that are no longer pending."),
    "listApprovals.by": Parameter(_TEXT,
                                  "Only approvals that this person has voted on or decided: `ann` or `user:ann`."),
    "listApprovals.q": Parameter(_TEXT,
                                 "Only approvals with this text in title, tool, agent, directory, comment or rule."),
    "listSessions.state": Parameter(_TEXT, "Only sessions in this state: `running`, `idle`, `closed` and others."),
    "listSessions.key": Parameter(_TEXT, "Only sessions that this session key has had."),
    "listSessions.runner": Parameter(_TEXT, "Only sessions on this runner, by its id."),
    "listSessions.workspace": Parameter(_TEXT, "Only sessions in this directory on the runner."),
    "listSessions.waiting": Parameter(_one_of("true"), "Only sessions with a pending approval."),
    "listSessions.q": Parameter(_TEXT, "Only sessions with this text in title, key, id, agent or directory."),
    "listDeliveries.state": Parameter(_one_of(*get_args(DeliveryState)),
                                      "Only deliveries in this state; `dead`: all attempts failed."),
    "getTranscript.last": Parameter(_whole(1, PAGE_MAX),
                                    "Start this number of entries before the end; not with `cursor`."),
    "exportTranscript.format": Parameter(_one_of("jsonl", "markdown", "html"),
                                         "The file (`jsonl`, the default), or the path to the leaf as a page."),
    "exportTranscript.view": Parameter(_one_of("delivered", "raw"),
                                       "`delivered` (the default) applies the redaction rules; `raw` is the "
                                       "unchanged content, for admins, and recorded."),
    "importTranscript.agent_id": Parameter(_TEXT, "The session's agent, for an uploaded transcript."),
    "importTranscript.runner_id": Parameter(_TEXT, "The runner, if several have the agent."),
    "importTranscript.workspace": Parameter(_TEXT, "The directory on the runner."),
    "proposeRule.scope": Parameter(_one_of("session", "rule"),
                                   "Whether the rule is for the session, or for the tenant (`rule`)."),
    "proposeRule.width": Parameter(_one_of(*get_args(Width)),
                                   "How much the rule covers; by default the narrowest width."),
    "proposeRule.decision": Parameter(_one_of(*get_args(Decision)), "The decision to remember."),
    "decide.agent": Parameter({"type": "string", "pattern": f"^{AGENT_ID.pattern}$"}, "The agent of the call.",
                              required=True),
    "decide.door": Parameter(_one_of(*get_args(Door)),
                             "`command` for a command before its start, `tool` (the default) for a tool call, "
                              "`workspace` for files that configure an agent."),
    "decide.type": Parameter(_one_of(*COMMAND_TYPES),
                             "The type of a command, or the verb of an operation on a session."),
    "decide.tool": Parameter(_TEXT, "The tool's name."),
    "decide.kind": Parameter(_TEXT, "The kind of tool according to the agent, trusted here."),
    "decide.command": Parameter(_TEXT, "The command line in the tool's input."),
    "decide.path": Parameter(_TEXT, "The path in the tool's input."),
    "decide.subject": Parameter({"type": "string", "contentMediaType": "application/json"},
                                "A whole permission request, as in `subject` of an approval. All its facts are used, "
                                "and `tool`, `kind`, `input`, `command` and `path` are ignored."),
    "decide.input": Parameter({"type": "string", "contentMediaType": "application/json"},
                              "The whole input, a JSON object; it replaces `command` and `path`."),
    "decide.workspace": Parameter(_TEXT, "The directory against which paths are resolved."),
    "decide.origin": Parameter(_one_of(*get_args(Origin)), "The origin of the command."),
    "decide.permission": Parameter(_one_of(*get_args(Permission)), "Whether the agent asks before it uses tools."),
    "decide.box": Parameter({"type": "string", "pattern": BOX_PATTERN},
                            "The parts of the agent's box, separated by commas: "
                            f"{', '.join(get_args(Part))}; empty for no box."),
    "decide.cost_usd": Parameter(_whole(0, MAX_COST_USD, 0), "The session's cost so far, in US dollars."),
    "decide.runner": Parameter(_TEXT, "The id of the agent's runner."),
    "decide.person": Parameter(_TEXT, "The person whose command it is, such as `user:ann`."),
    "readAudit.order": Parameter(_one_of("oldest", "newest"), "The order of the records; `oldest` first by default."),
    "readAudit.actor": Parameter(_TEXT, "Only records of this actor: `ann` or `user:ann`."),
    "readAudit.action": Parameter(_TEXT, "Only records of this action, such as `vote`."),
    "readAudit.command": Parameter(_TEXT, "Only records about this command, by its id."),
    "readAudit.approval": Parameter(_TEXT, "Only records about this approval, by its id."),
    "readAudit.from": Parameter(_INSTANT, "Only records at or after this time."),
    "readAudit.to": Parameter(_INSTANT, "Only records before this time."),
    "getUsage.from": Parameter(_DAY, f"The first day; by default {USAGE_DAYS_DEFAULT} days including the last."),
    "getUsage.to": Parameter(_DAY, f"The last day, inclusive; by default today. At most {USAGE_DAYS} days."),
    "getUsage.by": Parameter({"type": "string", "default": "day", "examples": ["day,agent"]}, "What to "
                             f"group by: one or more of {', '.join(get_args(UsageDimension))}, separated by commas."),
    "getUsage.model": Parameter(_TEXT, "Only usage of this model, by its name in the session."),
    "getUsage.person": Parameter(_TEXT, "Only usage of this person's commands, such as `user:ann`."),
    "getUsage.limit": Parameter(_whole(1, USAGE_ITEMS_MAX, PAGE_DEFAULT),
                                "The maximum number of items in the response."),
    "proveInclusion.seq": Parameter(_whole(1, AUDIT_SIZE_MAX), "The record's number.", required=True),
    "size": Parameter(_whole(0, AUDIT_SIZE_MAX), "The size of the tree; by default that of the newest checkpoint."),
    "first": Parameter(_whole(0, AUDIT_SIZE_MAX), "The size of the earlier tree.", required=True),
    "second": Parameter(_whole(0, AUDIT_SIZE_MAX),
                        "The size of the later tree; by default that of the newest checkpoint."),
}
"""By `operation.name`, or by `name` if it means the same everywhere."""


def parameter(operation: str, name: str) -> Parameter:
    """Return a parameter; one without a description is any text."""
    return PARAMETERS.get(f"{operation}.{name}") or PARAMETERS.get(name) or Parameter(_TEXT, "")
