"""What is forgotten."""

from __future__ import annotations

from interlock.protocol.answers import Pruned
from interlock.protocol.api.operation import ADMINS, Operation
from interlock.protocol.bodies import PruneBody

PRUNE = Operation(
    "prune", "POST", "/prune",
    "An admin's own tenant; an owner of the gateway's, every tenant.",
    roles=ADMINS, body=PruneBody, answers=Pruned,
    verb="prune")
