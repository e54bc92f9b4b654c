"""Bodies and resources of drains (C-5)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from interlock.protocol.resources import Body, Resource

DrainScope = Literal["gateway", "runner", "agent", "session"]


class DrainBody(Body, frozen=True, kw_only=True):
    """`POST /v1/drain` and `/v1/undrain`: all of the tenant (gateway), or one runner, agent or session (C-5)."""

    scope: DrainScope
    id: str | None = None
    reason: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    idempotency_key: str | None = None


class Drain(Resource, frozen=True, kw_only=True):
    """A drain in force: what starts nothing new, since when, and by whom."""

    scope: DrainScope
    id: str | None = None
    at: str
    by: str
    reason: str | None = None
