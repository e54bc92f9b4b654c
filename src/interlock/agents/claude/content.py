"""Convert content other than text between our format and the Messages API's (A-7). Pure."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from interlock.ports.agent import AgentFile

PDF = "application/pdf"


class NotTaken(Exception):
    """Claude Code does not accept this file; the text is one sentence."""


def block_of(block: dict[str, Any]) -> dict[str, Any]:
    """Convert a prompt's block to the API's format. Raises NotTaken."""
    data = str(block.get("data", ""))
    media_type = str(block.get("mimeType") or block.get("media_type") or "")
    match block.get("type"):
        case "image":
            source = {"type": "base64", "media_type": media_type or "image/png", "data": data}
            return {"type": "image", "source": source}
        case "file" if media_type == PDF:
            return _document(block, {"type": "base64", "media_type": PDF, "data": data})
        case "file":
            return _document(block, {"type": "text", "media_type": "text/plain", "data": _text(data, media_type)})
        case _:
            return {"type": "text", "text": str(block.get("text", ""))}


def _document(block: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    title = {"title": str(block["name"])} if block.get("name") else {}
    return {"type": "document", "source": source, **title}


def _text(data: str, media_type: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        raise NotTaken(f"Claude Code accepts images, PDF and UTF-8 text, not a file of {media_type or 'no type'}."
                       ) from None


def without_files(content: Any) -> tuple[Any, list[AgentFile]]:
    """Return a tool result's content without its images, and the images."""
    if not isinstance(content, list):
        return content, []
    blocks = cast("list[Any]", content)
    files = [(block, _file_of(block)) for block in blocks]
    return [block for block, file in files if file is None], [file for _, file in files if file is not None]


def _file_of(block: Any) -> AgentFile | None:
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    found = fields.get("source")
    source = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    data, media_type = source.get("data"), source.get("media_type")
    if fields.get("type") not in ("image", "document") or source.get("type") != "base64" or not isinstance(data, str):
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    name = fields.get("title")
    return AgentFile(name if isinstance(name, str) and name else str(fields["type"]),
                     media_type if isinstance(media_type, str) else "application/octet-stream", raw)
