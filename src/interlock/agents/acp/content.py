"""Convert content other than text between our format and ACP's (A-7). Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from interlock.ports.agent import AgentFile


def block_of(block: dict[str, Any]) -> dict[str, Any]:
    """Convert a prompt's block to ACP; a file is embedded as a resource."""
    data, media_type = str(block.get("data", "")), block.get("mimeType") or block.get("media_type")
    match block.get("type"):
        case "image":
            return {"type": "image", "mimeType": media_type or "image/png", "data": data}
        case "audio":
            return {"type": "audio", "mimeType": media_type or "audio/wav", "data": data}
        case "file":
            name = str(block.get("name") or "file")
            resource = {"uri": f"attachment:///{name}", "mimeType": media_type or "application/octet-stream",
                        "blob": data}
            return {"type": "resource", "resource": resource}
        case _:
            return {"type": "text", "text": str(block.get("text", ""))}


def file_of(content: Any) -> AgentFile | None:
    """Return the file in a content block of the agent; None if it has none, or bytes that are not base64."""
    block = _object(content)
    kind = block.get("type")
    if kind == "resource":
        resource = _object(block.get("resource"))
        return _file(resource.get("blob"), resource.get("mimeType"), resource.get("uri"), "file")
    if kind in ("image", "audio"):
        return _file(block.get("data"), block.get("mimeType"), block.get("uri"), str(kind))
    return None


def _file(data: Any, media_type: Any, uri: Any, kind: str) -> AgentFile | None:
    if not isinstance(data, str):
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    declared = media_type if isinstance(media_type, str) and "/" in media_type else "application/octet-stream"
    named = uri.rstrip("/").rpartition("/")[2] if isinstance(uri, str) else ""
    return AgentFile(named or kind, declared, raw)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
