"""The gateway's status and its runners' current state."""

from __future__ import annotations

from interlock.protocol.answers import NodeList, Status
from interlock.protocol.api.operation import READERS, Operation

GET_STATUS_OF_GATEWAY = Operation(
    "getStatusOfGateway", "GET", "/status",
    "Return the state of the gateway, its runners and its agents.",
    roles=READERS, answers=Status, codes=("Unavailable",),
    verb="status")
LIST_NODES = Operation(
    "listNodes", "GET", "/edge/nodes",
    "List the attached runners, with their agents.",
    roles=READERS, answers=NodeList,
    verb="agents")
