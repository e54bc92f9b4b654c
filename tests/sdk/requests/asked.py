"""A request as a line, to be read beside the API's reference."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.sdk.exchange import RequestSpec


def line(asked: RequestSpec[Any]) -> str:
    """Method, path and query."""
    query = "&".join(f"{name}={value}" for name, value in asked.query.items())
    return f"{asked.method} {asked.path}" + (f"?{query}" if query else "")


def body(asked: RequestSpec[Any]) -> dict[str, Any]:
    """Return the fields of a request's body."""
    return msgspec.json.decode(asked.body or b"{}", type=dict[str, Any])
