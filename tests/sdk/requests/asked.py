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
    """What a request says in its body beside the key that it might carry there."""
    said: dict[str, Any] = msgspec.json.decode(asked.body or b"{}")
    return {name: value for name, value in said.items() if value is not None}
