"""The part of Helm's template language that the chart uses, read strictly: anything else is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)


class NotOfTheChart(Exception):
    """An action that the chart must not use, since nothing here could check it."""


def render(text: str, values: Mapping[str, Any], release: str) -> str:
    """Fill a template."""
    out: list[str] = []
    shown: list[bool] = []
    at = 0
    trim = False
    for action in _ACTION.finditer(text):
        piece = text[at:action.start()]
        piece = piece.lstrip() if trim else piece
        piece = piece.rstrip() if action[1] else piece
        if all(shown):
            out.append(piece)
        at, trim = action.end(), bool(action[3])
        match action[2].split(" ", 1):
            case ["if", condition]:
                shown.append(bool(_value(condition, values, release)))
            case ["else"]:
                shown[-1] = not shown[-1]
            case ["end"]:
                shown.pop()
            case _:
                if all(shown):
                    out.append(_output(action[2], values, release))
    if shown:
        raise NotOfTheChart("an `if` without its `end`")
    out.append(text[at:])
    return "".join(out)


def _output(action: str, values: Mapping[str, Any], release: str) -> str:
    first, *more = [part.strip() for part in action.split("|")]
    value = _value(first, values, release)
    for step in more:
        match step.split():
            case ["quote"]:
                value = json.dumps(str(value))
            case ["toJson"]:
                value = json.dumps(value)
            case ["nindent", count]:
                value = "\n" + "\n".join(" " * int(count) + line if line else "" for line in str(value).split("\n"))
            case _:
                raise NotOfTheChart(step)
    return str(value)


def _value(term: str, values: Mapping[str, Any], release: str) -> Any:
    if term.startswith("printf "):
        _, form, *names = re.findall(r'"[^"]*"|\S+', term)
        return json.loads(form) % tuple(_value(name, values, release) for name in names)
    if term == ".Release.Name":
        return release
    path = term.split(".")
    if path[:2] != ["", "Values"]:
        raise NotOfTheChart(term)
    found: Any = values
    for name in path[2:]:
        if name not in found:
            raise NotOfTheChart(f"{term} is not in values.yaml")
        found = found[name]
    return found
