"""A transcript's path rendered for people: Markdown and HTML (X-6). Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from interlock.session.transcript.tree import Tree

_ENDED = {"denied": "not allowed", "cancelled": "cut short"}
"""The text for a tool call that neither succeeded nor failed by itself, by its status."""
TITLES = {"user": "User", "assistant": "Assistant", "toolResult": "Tool result", "bashExecution": "Shell",
          "custom": "Note"}
_FENCE = re.compile(r"`{3,}")
_OPENS = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
"""A line that opens a Markdown fence; until it is closed, no other syntax counts."""
_STRUCTURE = re.compile(r"( {0,3})(#{1,2}(?:[ \t]|$)|<)")
"""A line that would be a heading of the page's levels, or HTML that may extend beyond its section."""
_UNDERLINE = re.compile(r"( {0,3})((?:=+|-+)[ \t]*)")
"""A line that would turn the line above it into a heading."""


class RenderedEntry(NamedTuple):
    """A rendered entry: a title, prose, and preformatted text (tool calls, output)."""

    entry_id: str
    title: str
    prose: str
    literal: str = ""


def sections(tree: Tree) -> Iterator[RenderedEntry]:
    """Yield the path to the leaf; entries without content are omitted."""
    for place in tree.path(tree.leaf):
        entry = tree.entry(place)
        if entry.get("origin") == "flush":
            continue  # What the agent writes down for itself is hidden from people (Z-5).
        section = section_of(entry)
        if section is not None:
            yield section


def section_of(entry: dict[str, Any]) -> RenderedEntry | None:
    """Return the rendering of one entry; None if it has no content."""
    entry_id = str(entry.get("id", ""))
    match entry.get("type"):
        case "message":
            return _message(entry_id, _object(entry.get("message")))
        case "custom_message":
            return RenderedEntry(entry_id, "Note", *_content(entry.get("content")))
        case "compaction":
            return RenderedEntry(entry_id, "Compaction", str(entry.get("summary", "")))
        case "branch_summary":
            return RenderedEntry(entry_id, "Branch", str(entry.get("summary", "")))
        case "model_change":
            return RenderedEntry(entry_id, "Model", f"{entry.get('provider', '')}/{entry.get('modelId', '')}")
        case "label" if entry.get("label"):
            return RenderedEntry(entry_id, "Label", f"{entry.get('targetId')}: {entry['label']}")
        case _:
            return None


def markdown(tree: Tree) -> str:
    """Render the path as Markdown; others' text stays within its section, output within its fence."""
    head = tree.header or {}
    parts = [f"# Session {head.get('id', '')}\n\n{head.get('timestamp', '')} · {head.get('cwd', '')}\n"]
    for section in sections(tree):
        parts.append(f"## {section.title}\n")
        if section.prose:
            parts.append(_contained(section.prose) + "\n")
        if section.literal:
            longest = max((len(run) for run in _FENCE.findall(section.literal)), default=2)
            fence = "`" * (longest + 1)
            parts.append(f"{fence}\n{section.literal}\n{fence}\n")
    return "\n".join(parts)


def _contained(prose: str) -> str:
    """Escape the lines of a text that would start another section, and close a fence that it leaves open."""
    lines: list[str] = []
    fence = ""
    for line in prose.splitlines():
        written = line
        if fence:
            if re.fullmatch(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*", line):
                fence = ""
        elif opened := _OPENS.match(line):
            fence = opened[1]
        elif found := _STRUCTURE.match(line) or (_UNDERLINE.fullmatch(line) if lines and lines[-1].strip() else None):
            written = f"{found[1]}\\{line[found.end(1):]}"
        lines.append(written)
    return "\n".join([*lines, fence] if fence else lines)


def page(tree: Tree) -> str:
    """Render the path as one HTML document without scripts; no text is interpreted as markup."""
    head = tree.header or {}
    title = html.escape(f"Session {head.get('id', '')}")
    parts = ['<!doctype html><html lang="en"><meta charset="utf-8">',
             '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src \'unsafe-inline\'">',
             f"<title>{title}</title><style>body{{max-width:50rem;margin:2rem auto;font:1rem/1.5 sans-serif}}"
             "pre{white-space:pre-wrap;overflow-wrap:anywhere}.literal{background:#eee;padding:.5rem}</style>",
             f"<h1>{title}</h1><p>{html.escape(str(head.get('timestamp', '')))} · "
             f"{html.escape(str(head.get('cwd', '')))}</p>"]
    for section in sections(tree):
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<pre>{html.escape(section.prose)}</pre>"] if section.prose else []
        parts += [f'<pre class="literal">{html.escape(section.literal)}</pre>'] if section.literal else []
    return "\n".join([*parts, "</html>\n"])


def _message(entry_id: str, message: dict[str, Any]) -> RenderedEntry:
    role = str(message.get("role", ""))
    if role == "bashExecution":
        return RenderedEntry(entry_id, TITLES[role], "", f"$ {message.get('command', '')}\n{message.get('output', '')}")
    prose, literal = _content(message.get("content"))
    title = TITLES.get(role, role or "Message")
    if role == "toolResult":
        status = str(_object(message.get("details")).get("status", ""))
        ended = f", {_ENDED.get(status, 'failed')}" if message.get("isError") else ""
        return RenderedEntry(entry_id, f"{title}: {message.get('toolName', '')}{ended}", "",
                             "\n".join(part for part in (prose, literal) if part))
    if message.get("errorMessage"):
        prose = "\n\n".join(part for part in (prose, f"Error: {message['errorMessage']}") if part)
    return RenderedEntry(entry_id, title, prose, literal)


def _content(content: Any) -> tuple[str, str]:
    """Return (prose, literal) of a message's content."""
    if isinstance(content, str):
        return content, ""
    prose: list[str] = []
    literal: list[str] = []
    for part in cast("list[Any]", content) if isinstance(content, list) else []:
        piece = _object(part)
        match piece.get("type"):
            case "text":
                prose.append(str(piece.get("text", "")))
            case "thinking":
                prose.append("(thinking) " + str(piece.get("thinking", "")))
            case "toolCall":
                arguments = msgspec.json.encode(piece.get("arguments", {})).decode()
                literal.append(f"{piece.get('name', '')} {arguments}")
            case "image":
                prose.append(f"[image, {piece.get('mimeType', 'of unknown type')}]")
            case _:
                pass
    return "\n\n".join(prose), "\n".join(literal)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
