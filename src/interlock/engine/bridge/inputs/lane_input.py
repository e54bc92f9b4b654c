"""The base of a lane's inputs: plain data that can be listed, logged and replayed."""

from __future__ import annotations

import msgspec


class LaneInput(msgspec.Struct, frozen=True, tag_field="input", tag=True):
    """An input of a lane: an instance holds data only, and its class determines the handler."""
