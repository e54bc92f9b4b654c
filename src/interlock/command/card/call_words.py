"""What a reported tool call does, for a line that names its tool (Y-1)."""

from __future__ import annotations

from typing import Any, cast


def call_words(tool_name: str, value: object, title: str | None) -> str:
    """Return a call's command, otherwise its title unless that is the tool's name, otherwise the questions that it asks
    a person; "" if it has none of them. `value` is its decoded input."""
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    command = members.get("command")
    if isinstance(command, str) and command:
        return command
    if title and title.strip() != tool_name.strip():
        return title
    entries = members.get("questions")
    listed = cast("list[Any]", entries) if isinstance(entries, list) else [members]
    questions = [cast("dict[str, Any]", one).get("question") for one in listed if isinstance(one, dict)]
    return " ".join(text for text in questions if isinstance(text, str))
