"""A tiny MCP server on standard input and output, with one tool that writes a file: a check offers it to an agent
(H-10). Run as a program with the directory of its files as its only argument; uses only the standard library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SERVER_NAME = "interlock_check"
TOOL_NAME = "leave_mark"
MAX_LINE_CHARS = 1_000_000
_PARSE_ERROR, _UNKNOWN_METHOD = -32700, -32601
_TOOL: dict[str, Any] = {
    "name": TOOL_NAME, "description": "Write an empty file of this name.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "annotations": {"readOnlyHint": False, "destructiveHint": True},
}


def reply(line: str, directory: Path) -> dict[str, Any] | None:
    """Return the response to one JSON-RPC line; None for a notification."""
    try:
        message: dict[str, Any] = json.loads(line)
        method: str = message["method"]
        params: dict[str, Any] = message.get("params") or {}
    except (ValueError, KeyError, TypeError):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": "This is not JSON-RPC."}}
    if "id" not in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    match method:
        case "initialize":
            return head | {"result": {"protocolVersion": params.get("protocolVersion", "2025-06-18"),
                                      "capabilities": {"tools": {}},
                                      "serverInfo": {"name": SERVER_NAME, "version": "1"}}}
        case "ping":
            return head | {"result": {}}
        case "tools/list":
            return head | {"result": {"tools": [_TOOL]}}
        case "tools/call":
            return head | {"result": _call(params, directory)}
        case _:
            return head | {"error": {"code": _UNKNOWN_METHOD, "message": f"This server does not offer {method}."}}


def _call(params: dict[str, Any], directory: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = params.get("arguments") or {}
    name: Any = arguments.get("name")
    if params.get("name") != TOOL_NAME or not isinstance(name, str) or Path(name).name != name:
        return {"isError": True, "content": [{"type": "text", "text": f"{TOOL_NAME} needs the name of a file."}]}
    (directory / name).touch()
    return {"content": [{"type": "text", "text": f"{name} is written."}]}


def main() -> None:
    """Answer line by line until standard input ends."""
    directory = Path(sys.argv[1])
    while line := sys.stdin.readline(MAX_LINE_CHARS):
        answer = reply(line, directory)
        if answer is not None:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
