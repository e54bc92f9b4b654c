"""Commands and drains."""

from __future__ import annotations

from interlock.protocol.answers import CommandPage, DrainList, StatusPage
from interlock.protocol.api.operation import OPERATORS, READERS, STREAM_QUERY, STREAMED, Operation
from interlock.protocol.drains import DrainBody
from interlock.protocol.limits import WAIT_MAX_S
from interlock.protocol.resources import Command, CommandApproval, CommandBody

PREFER = ("Prefer", {"type": "string"}, f"`wait=N`: answer once it has ended, or with 504 after N seconds, "
          f"{WAIT_MAX_S} at most. Other wishes are passed over (RFC 7240).")

SUBMIT_COMMAND = Operation(
    "submitCommand", "POST", "/commands",
    "The command (C-0). `Interlock-Ignored-Fields` names fields that the gateway sets by itself, if the body "
    "carried any.",
    roles=OPERATORS, body=CommandBody, answers=Command, status=202,
    also=((200, "It has ended within the time that was waited."),),
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Timeout", "UnsupportedCapability"),
    headers=(PREFER,),
    verb="run")
LIST_COMMANDS = Operation(
    "listCommands", "GET", "/commands",
    "Newest first, filtered (C-5). Each has the first line of its prompt as `title`, and not the payload.",
    roles=READERS, query=("state", "agent", "session", "actor", "type", "cursor", "limit"), answers=CommandPage,
    verb="tasks")
GET_COMMAND = Operation(
    "getCommand", "GET", "/commands/{command_id}", "",
    roles=READERS, answers=Command,
    verb="tasks")
GET_STATUS = Operation(
    "getStatus", "GET", "/commands/{command_id}/status",
    "By poll or as server-sent events (S-1, S-2).",
    roles=READERS, query=STREAM_QUERY, answers=StatusPage, media=STREAMED,
    events="Server-sent events: `state`, `progress`, `result`, `error`, `notice` and `approval` carry a StatusEvent "
           "and an id, which is the cursor; `heartbeat` carries a Heartbeat and none.",
    verb="attach")
GET_COMMAND_APPROVAL = Operation(
    "getCommandApproval", "GET", "/commands/{command_id}/approval",
    "In the seed's shape (racp section 3).",
    roles=READERS, answers=CommandApproval,
    no_verb="`approvals` shows the approval itself; this is another program's form of it")
DRAIN = Operation(
    "drain", "POST", "/drain",
    "Running turns finish, nothing new starts; a session by its operators, all else by admins.",
    roles=OPERATORS, body=DrainBody, answers=DrainList, codes=("ApprovalRequired", "NotFound", "QuotaExceeded"),
    verb="drain")
UNDRAIN = Operation(
    "undrain", "POST", "/undrain",
    "What waits starts.",
    roles=OPERATORS, body=DrainBody, answers=DrainList, codes=("ApprovalRequired", "NotFound", "QuotaExceeded"),
    verb="undrain")
