"""The prompt of a hook's delivery: a template with placeholders for the body and for values in it (R-4). Pure."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec

TEXT_MAX_CHARS = 100_000
"""A longer text is cut, with a note."""
_PLACE = re.compile(r"\{([^{}]*)\}")
_NAMES = ("name", "delivery", "body")


class BadTemplate(ValueError):
    """Raised if a template names an unknown placeholder; one sentence without its full stop."""


def check_template(template: str) -> None:
    """Raises BadTemplate."""
    for place in _PLACE.findall(template):
        if place not in _NAMES and not place.startswith("/"):
            raise BadTemplate(f"there is no {{{place}}}; known: {{name}}, {{delivery}}, {{body}}, and {{/a/b}} for a "
                              "value in a body of JSON")
    if not template.strip():
        raise BadTemplate("it is empty")


def hook_text(template: str, name: str, delivery: str, body: bytes) -> str:
    """Fill in the template. A missing value becomes an empty text; text in the body is never treated as a template."""
    text = body.decode("utf-8", "replace")

    def filled(found: re.Match[str]) -> str:
        place = found[1]
        if place.startswith("/"):
            return _value(body, place)
        return {"name": name, "delivery": delivery, "body": text}[place]

    shown = _PLACE.sub(filled, template)
    if len(shown) > TEXT_MAX_CHARS:
        return shown[:TEXT_MAX_CHARS] + f"\n[cut: {len(shown) - TEXT_MAX_CHARS} characters more]"
    return shown


def _value(body: bytes, pointer: str) -> str:
    """Return a value by its JSON pointer (RFC 6901): text as it is, all else as JSON, "" if there is none."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = cast("dict[str, Any]", value)[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(name)]
        else:
            return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
