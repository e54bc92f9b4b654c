"""Commands and drains."""

from __future__ import annotations

from interlock.protocol.answers import CommandPage, DrainList, StatusPage
from interlock.protocol.api.operation import OPERATORS, READERS, STREAM_QUERY, STREAMED, Operation
from interlock.protocol.drains import DrainBody
from interlock.protocol.limits import WAIT_MAX_S
from interlock.protocol.resources import Command, CommandApproval, CommandBody

PREFER = ("Prefer", {"type": "string"}, f"`wait=N`: respond once the command has ended, or with 504 after N "
          f"seconds, {WAIT_MAX_S} at most. Other preferences are ignored (RFC 7240).")

SUBMIT_COMMAND = Operation(
    "submitCommand", "POST", "/commands",
    "Submit a command and return it (C-0). `Interlock-Ignored-Fields` names the fields of the body that only the "
    "gateway sets.",
    roles=OPERATORS, body=CommandBody, answers=Command, status=202,
    also=((200, "The command ended within the requested wait."),),
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Timeout", "UnsupportedCapability"),
    headers=(PREFER,),
    verb="run")
LIST_COMMANDS = Operation(
    "listCommands", "GET", "/commands",
    "List commands, newest first, filtered (C-5). Each has the first line of its prompt as `title` instead of its "
    "payload.",
    roles=READERS, query=("state", "agent", "session", "actor", "type", "cursor", "limit"), answers=CommandPage,
    verb="tasks")
GET_COMMAND = Operation(
    "getCommand", "GET", "/commands/{command_id}",
    "Return one command.",
    roles=READERS, answers=Command,
    verb="tasks")
GET_STATUS = Operation(
    "getStatus", "GET", "/commands/{command_id}/status",
    "Return a command's status events, by polling or as server-sent events (S-1, S-2).",
    roles=READERS, query=STREAM_QUERY, answers=StatusPage, media=STREAMED,
    events="Server-sent events: `state`, `progress`, `result`, `error`, `notice` and `approval` carry a StatusEvent "
           "and an id, which is the cursor; `heartbeat` carries a Heartbeat and none.",
    verb="attach")
GET_COMMAND_APPROVAL = Operation(
    "getCommandApproval", "GET", "/commands/{command_id}/approval",
    "Return the approval that a command waits for, in the form of racp section 3.",
    roles=READERS, answers=CommandApproval,
    no_verb="`approvals` shows the approval itself; this is another program's form of it")
DRAIN = Operation(
    "drain", "POST", "/drain",
    "Stop starting new turns, of a session, an agent, a runner or the tenant; running turns finish. Operators may "
    "drain a session, admins everything.",
    roles=OPERATORS, body=DrainBody, answers=DrainList, codes=("ApprovalRequired", "NotFound", "QuotaExceeded"),
    verb="drain")
UNDRAIN = Operation(
    "undrain", "POST", "/undrain",
    "End a drain; queued commands start.",
    roles=OPERATORS, body=DrainBody, answers=DrainList, codes=("ApprovalRequired", "NotFound", "QuotaExceeded"),
    verb="undrain")
