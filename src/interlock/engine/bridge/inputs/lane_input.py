"""The base of a lane's inputs: plain data that can be listed, logged and replayed."""

from __future__ import annotations

import msgspec


class LaneInput(msgspec.Struct, frozen=True, tag_field="input", tag=True):
    """One input of a lane: an instance holds data alone, and its class names what is to be decided."""
