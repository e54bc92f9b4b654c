"""Common parts of REST's resources: the two kinds of struct, and the actor."""

from __future__ import annotations

from typing import Literal

import msgspec

Decision = Literal["grant", "deny"]


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of resources that are returned: absent fields stay absent."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of bodies that are received: an unknown field is an error that names it. An optional field that is not set
    is omitted by clients."""


class Actor(Resource, frozen=True, kw_only=True, gc=False):
    """Who did something, set by the server from the credential."""

    type: Literal["user", "agent"]
    id: str
