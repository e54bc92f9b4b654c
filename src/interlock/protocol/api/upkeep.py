"""Deletion of old data."""

from __future__ import annotations

from interlock.protocol.answers import Pruned, RetentionPlan
from interlock.protocol.api.operation import ADMINS, READERS, Operation
from interlock.protocol.bodies import PruneBody

PRUNE = Operation(
    "prune", "POST", "/prune",
    "An admin's own tenant; an owner of the gateway's, every tenant.",
    roles=ADMINS, body=PruneBody, answers=Pruned,
    verb="prune")
GET_RETENTION = Operation(
    "getRetention", "GET", "/retention",
    "How long frames, events, files and usage are kept, as the config says, and when the daily round was last made.",
    roles=READERS, answers=RetentionPlan,
    no_verb="the config file says it; `interlock prune --dry-run` counts what would go")
