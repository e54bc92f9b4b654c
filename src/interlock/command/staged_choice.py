"""Selection among staged changes that wait for a yes (H-17). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.protocol.problems import Place, Problem
from interlock.protocol.resources import Approval


def chosen_input(approval: Approval, names: Iterable[str]) -> bytes:
    """Return the question's input with only the changes at or below these paths. Raises Problem for a path that it does
    not list."""
    landing = msgspec.json.decode(approval.input, type=dict[str, Any])
    listed: list[dict[str, Any]] = landing.get("files", [])
    kept: dict[str, dict[str, Any]] = {}
    for index, name in enumerate(names):
        path = name.removeprefix("./").strip("/")
        found = {one["path"]: one for one in listed if one["path"] == path or one["path"].startswith(f"{path}/")}
        if not found:
            raise Problem("InvalidPayload", f"/files/{index}: {name} is not among the changes that are listed",
                          errors=(Place(f"/files/{index}", "is not a listed change"),),
                          hint="Name paths from the workspace, as `interlock changes` lists them.")
        kept |= found
    return msgspec.json.encode({**landing, "files": list(kept.values())})
