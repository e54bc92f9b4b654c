"""The question whether to land staged changes, parsed from its input (H-17). Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from interlock.command.card.request import ReceivedRequest
from interlock.protocol.box import LANDING

UNASKED_LATER = "RUNS PROGRAMS UNASKED LATER"
"""The mark on each surface of a hook, or of settings that name programs."""


class LandingFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A listed change. `mode` is octal, `sha256` (hex) and `size` are of the new content. `unasked` is why it makes a
    tool run programs later without asking."""

    path: str
    change: str
    kind: str = "file"
    sha256: str = ""
    size: int = 0
    mode: str = ""
    why: str = ""
    unasked: str = ""


class LandingRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The changes to land in `workspace`; `digest` covers all `changes`, including unlisted ones."""

    workspace: str
    digest: str
    changes: int
    files: list[LandingFile]
    not_listed: int = 0
    never_lands: list[str] = []
    runs_unasked: int = 0
    """Changes that make a tool run programs later without asking, including unlisted ones."""

    @property
    def later(self) -> int:
        """Return how many of the changes make a tool run programs without asking."""
        listed = sum(bool(file.unasked) for file in self.files)
        return listed if self.chosen else max(listed, self.runs_unasked)

    @property
    def runners_title(self) -> str:
        """Return the title that the runner sends: it adds nothing to the card."""
        return f"land {self.changes} staged changes in {self.workspace}"

    @property
    def chosen(self) -> bool:
        """Return whether a person selected some of the changes."""
        return len(self.files) + self.not_listed < self.changes


def landing_request(request: ReceivedRequest) -> LandingRequest | None:
    """Parse the question; None if the request is another one, or has members that its card would not show."""
    if request.tool_name != LANDING:
        return None
    try:
        json.loads(request.input, object_pairs_hook=_once)
        return msgspec.json.decode(request.input, type=LandingRequest)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a duplicate member: a reader of the card would see only one of the two."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a member comes twice")
    return dict(pairs)
