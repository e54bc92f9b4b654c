"""The question whether staged changes land, read from its input (H-17). Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from interlock.command.card.request import ReceivedRequest
from interlock.protocol.box import LANDING

UNASKED_LATER = "RUNS PROGRAMS UNASKED LATER"
"""How each surface marks a hook, or settings that name programs."""


class LandingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change that is listed. `mode` is octal, `sha256` (hex) and `size` are of the new content. `unasked` is why it
    makes a tool run programs later without asking."""

    path: str
    change: str
    kind: str = "file"
    sha256: str = ""
    size: int = 0
    mode: str = ""
    why: str = ""
    unasked: str = ""


class LandingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What would land in `workspace`; `digest` covers all `changes`, also those that are not listed."""

    workspace: str
    digest: str
    changes: int
    files: list[LandingFile]
    not_listed: int = 0
    never_lands: list[str] = []
    runs_unasked: int = 0
    """Changes that make a tool run programs later without asking, also those that are not listed."""

    @property
    def later(self) -> int:
        """How many of those that would land make a tool run programs without asking."""
        listed = sum(bool(file.unasked) for file in self.files)
        return listed if self.chosen else max(listed, self.runs_unasked)

    @property
    def runners_title(self) -> str:
        """The words of the runner that asks: they add nothing to the card."""
        return f"land {self.changes} staged changes in {self.workspace}"

    @property
    def chosen(self) -> bool:
        """Whether a person chose some of the changes."""
        return len(self.files) + self.not_listed < self.changes


def landing_request(asked: ReceivedRequest) -> LandingRequest | None:
    """Read the question; None if the request is another one, or has members that its card would not show."""
    if asked.tool_name != LANDING:
        return None
    try:
        json.loads(asked.input, object_pairs_hook=_once)
        return msgspec.json.decode(asked.input, type=LandingRequest)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a member that comes twice: a reader of the card would see one of the two."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member comes twice")
    return dict(pairs)
