"""A task for people: its prompt, place and outcome, without the nesting of the wire format (Y-17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

_LEFT_OUT = ("tenant_id", "payload_sha256", "idempotency_key", "turn_id", "priority", "attempt", "updated_at")
"""Members for programs: `--json` shows them."""


class _Content(msgspec.Struct, rename="camel"):
    content_type: str = ""
    value: Any = None


class _Message(msgspec.Struct):
    role: str = ""
    content: list[_Content] = []


class _Prompt(msgspec.Struct):
    messages: list[_Message] = []


def prompt(payload: bytes) -> str:
    """Return the text of a task's prompt; "" if it has none."""
    try:
        return _text(msgspec.json.decode(payload, type=_Prompt).messages, "user")
    except msgspec.MsgspecError:
        return ""


def task_members(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task's members in a person's order and words."""
    raw = msgspec.json.encode(task.get("payload"))
    target = cast("dict[str, Any]", task.get("target") or {})
    shown: dict[str, Any] = {"id": task["id"], "state": str(task["state"]).replace("_", " ")}
    if task.get("type") != "execute":
        shown["type"] = task.get("type")
    shown["prompt"] = prompt(raw)
    shown |= {name.removesuffix("_id"): value for name, value in target.items() if name != "session_key"}
    shown["by"] = _name(task.get("actor"))
    shown["driver"] = _name(task.get("driver"))
    known = {*shown, *_LEFT_OUT, "payload", "target", "actor", "type", "result", "error"}
    shown |= {name: value for name, value in task.items() if name not in known}
    shown["result"] = _result(task.get("result"))
    error = cast("dict[str, Any]", task.get("error") or {})
    shown["error"] = f"{error.get('code')}: {error.get('message')}" if error else ""
    return {name: value for name, value in shown.items() if value not in ("", None, [])}


def _name(actor: Any) -> str:
    return f"{actor['type']}:{actor['id']}" if isinstance(actor, dict) else ""


def _result(result: Any) -> str:
    """Return the text that the agent ended with."""
    try:
        output = msgspec.convert(result["output"]["output"], list[_Message]) if result else []
    except (KeyError, TypeError, msgspec.MsgspecError):
        return ""
    return _text(output, "assistant")


def _text(messages: Iterable[_Message], role: str) -> str:
    return "\n".join(part.value for one in messages if one.role == role for part in one.content
                     if isinstance(part.value, str) and part.content_type in ("text", ""))
