"""Deletion of old data."""

from __future__ import annotations

from interlock.protocol.answers import Pruned, RetentionPlan
from interlock.protocol.api.operation import ADMINS, READERS, Operation
from interlock.protocol.bodies import PruneBody

PRUNE = Operation(
    "prune", "POST", "/prune",
    "Delete data that is older than the retention settings: of an admin's tenant, or of every tenant for an owner of "
    "the gateway.",
    roles=ADMINS, body=PruneBody, answers=Pruned,
    verb="prune")
GET_RETENTION = Operation(
    "getRetention", "GET", "/retention",
    "Return how long frames, events, files and usage are kept by the config, and when old data was last deleted.",
    roles=READERS, answers=RetentionPlan,
    no_verb="the config file sets it; `interlock prune --dry-run` counts what would go")
