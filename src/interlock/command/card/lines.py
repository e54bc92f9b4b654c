"""The title and the lines of a request, the same on every surface (Y-1, Y-2)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Literal, NamedTuple

from interlock.command.card.landing_request import UNASKED_LATER, LandingFile, LandingRequest, landing_request
from interlock.command.card.request import FileEdit, Parts, ReceivedRequest, labelled, parts
from interlock.command.card.text import one_line, visible
from interlock.protocol.payloads import WorkspaceFiles
from interlock.protocol.resources import BudgetHold

TITLE_CHARS = 160
WORDS_CHARS = 200
MAX_COMPARED_LINES = 4_000
"""Longer texts are shown as removed and added whole: comparing them would take too long."""
CONTEXT_LINES = 3
"""Unchanged lines around a change, if the runner compared the texts itself. The agent's text of the previous content is
unverified: a line in both of its texts may be new in the file, so all of them are shown (H-4)."""
_DIFF = "--- "
Style = Literal["plain", "command", "added", "removed", "place", "note"]


class CardLine(NamedTuple):
    """A line of a card: its text has no line break, and every character of it is visible."""

    text: str
    style: Style = "plain"


def title(request: ReceivedRequest) -> str:
    """Return the title of the action itself, from the input: the command line, the file with its lines, the address
    (Y-1)."""
    found = parts(request)
    if (landing := landing_request(request)) is not None:
        return one_line(_landing_title(landing, _landing_edits(found)), TITLE_CHARS)
    if found.lines:
        return one_line(f"$ {found.lines[0]}", TITLE_CHARS)
    if found.edits:
        return one_line(_edited(request, found.edits), TITLE_CHARS)
    name = visible(request.tool_name)
    if found.urls:
        return one_line(f"{name} {found.urls[0]}", TITLE_CHARS)
    if request.described:
        described = request.title or next(iter(found.shown), "")
        return one_line(f"{name}, described as: {described}" if described else name, TITLE_CHARS)
    if found.paths:
        return one_line(f"{name} {found.paths[0]}", TITLE_CHARS)
    if found.rest:
        return one_line(f"{name} " + ", ".join(" ".join(labelled(*member)) for member in found.rest), TITLE_CHARS)
    return one_line(name, TITLE_CHARS)


def prompt_title(agent_id: str, payload: bytes) -> str:
    """Return the title of a command: the agent that it starts and the first words of its prompt."""
    words = prompt_text(payload)
    return one_line(f"run {agent_id}: {words}" if words else f"run {agent_id}", TITLE_CHARS)


def prompt_text(payload: bytes) -> str:
    """Return the words of an execute's payload; empty if it has none."""
    try:
        return "\n".join(part["value"] for message in json.loads(payload)["messages"] for part in message["content"]
                         if part.get("contentType") == "text" and isinstance(part["value"], str))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return ""


def workspace_title(files: WorkspaceFiles) -> str:
    """Return the question whether an agent may start with the configuration of its workspace files."""
    first, more = files.files[0].path if files.files else "files", len(files.files) - 1
    others = f" and {more} more" if more > 0 else ""
    return one_line(f"start {files.agent_id} as {first}{others} of {files.directory} configure it", TITLE_CHARS)


def budget_title(hold: BudgetHold) -> str:
    """Return the question whether a command may continue past a budget."""
    unit = "USD of today" if hold.measure == "usd_per_day" else "tokens of this turn"
    return one_line(f"budget {hold.name} is used up ({hold.used} of {hold.limit} {unit}): go on with {hold.raise_by} "
                    "more?", TITLE_CHARS)


def agents_words(request: ReceivedRequest) -> str:
    """Return the agent's own description of its request, on one line; empty if that adds nothing to the title."""
    landing = landing_request(request)
    if landing is not None and request.title == landing.runners_title:
        return ""
    found = parts(request)
    described = [text for text in dict.fromkeys([request.title, *found.words]) if text.strip()]
    shown = {*found.lines, request.tool_name, title(request), *found.urls, *found.paths}
    return one_line(" · ".join(text for text in described if text not in shown), WORDS_CHARS)


def lines(request: ReceivedRequest, context: int | None = None) -> list[CardLine]:
    """Return the complete request: its command, its diff, then every member that these do not show. `context` limits
    the unchanged lines around a change, for a report of what has run: a question has all of them."""
    found = parts(request)
    if (landing := landing_request(request)) is not None:
        shown = _landing_lines(landing, _landing_edits(found))
        texts = [text for text in found.shown if not text.startswith(_DIFF)]
        described = [request.title] if request.title not in ("", landing.runners_title) else []
    else:
        shown = [*_commands(found), *(line for edit in found.edits for line in _edit(edit, context))]
        shown += [line for member in found.rest for text in labelled(*member) for line in _split(text)]
        described, texts = _descriptions(request, found), found.shown
    shown += [line for text in described for line in _quoted(text)]
    shown += [line for text in texts for line in _split(text)]
    if found.unreadable is not None:
        shown += [CardLine("The input is not a JSON object:", "note"), *_split(found.unreadable)]
    if request.locations:
        shown += [line for path in request.locations for line in _split(f"at {path}")]
    if request.described:
        shown.insert(0, CardLine("The agent does not send its input; this is what it says of it.", "note"))
    return shown


def workspace_lines(files: WorkspaceFiles) -> list[CardLine]:
    """Return the files that configure an agent: the effect of each, and the identification of its content (H-13)."""
    shown = [*_split(f"the agent {files.agent_id} would be configured by files of {files.directory}", "note")]
    for file in files.files:
        shown += _split(f"--- {file.path}", "place")
        if file.leads_to is not None:
            shown += _split(f"a link to {file.leads_to}", "note")
        shown += [line for text in file.does for line in _split(text, "command")]
        if file.unread is not None:
            shown += _split(f"not read: {file.unread}", "note")
        else:
            shown += _split(f"{file.size} bytes, sha256 {file.sha256}")
        if not file.does:
            shown += _split(f"what such a file can do: {', '.join(file.could)}", "note")
    return shown


def _landing_title(landing: LandingRequest, edits: list[FileEdit]) -> str:
    """Return the number of changes to land, and of lines for those shown as text."""
    count = len(landing.files) if landing.chosen else landing.changes
    what = ("1 change" if count == 1 else f"{count:,} changes") + (f" of {landing.changes:,}" if landing.chosen else "")
    added, removed = (sum(_count(edit, style) for edit in edits) for style in ("added", "removed"))
    lines_ = f" (+{added} −{removed})" if edits else ""
    # Before the directory, whose length may truncate the title.
    later = f" · {UNASKED_LATER}: {landing.later:,} ·" if landing.later else ""
    return f"land {what}{lines_}{later} in {landing.workspace}"


def _landing_lines(landing: LandingRequest, edits: list[FileEdit]) -> list[CardLine]:
    """Return what would land, one row for each path, then the differences of texts (H-17)."""
    shown = {edit.path: edit for edit in edits}
    rows = [_warning(file) for file in landing.files if file.unasked]
    if landing.later > len(rows):
        rows.append(CardLine(f"{UNASKED_LATER}: {landing.later - len(rows):,} more that are not listed", "note"))
    rows += [CardLine(_landing_row(file, shown.get(file.path))) for file in landing.files]
    if landing.not_listed:
        rows.append(CardLine(f"and {landing.not_listed:,} more that are not listed", "note"))
    rows += [CardLine(_row(f"never lands: {text}"), "note") for text in landing.never_lands]
    rows.append(CardLine(_row(f"in {landing.workspace} · sha256 {landing.digest}")))
    return [*rows, *(line for edit in edits for line in _edit(edit, CONTEXT_LINES))]


def _warning(file: LandingFile) -> CardLine:
    text = f"{UNASKED_LATER}: {file.path} ({file.unasked})"
    return CardLine(_row(text), "note")


def _landing_row(file: LandingFile, edit: FileEdit | None) -> str:
    """Return the row of a path. A file that is not shown as text is identified by its size and digest."""
    about = [] if file.kind in ("file", "absent") else [file.kind]
    if edit is not None:
        about.append(f"+{_count(edit, 'added')} −{_count(edit, 'removed')}")
    elif file.sha256 and file.change != "mode":
        about += [f"{file.size:,} bytes, not shown", f"sha256 {file.sha256}"]
    about += [f"mode {file.mode}"] if file.mode else []
    about += [f"does not land: {file.why}"] if file.why else []
    row = f"{file.change:<8} {file.path}" + (f" · {', '.join(about)}" if about else "")
    return _row(row)


def _row(text: str) -> str:
    """Return a name on one row, even if it contains a line break."""
    return visible(text).replace("\n", "<U+000A>")


def _landing_edits(found: Parts) -> list[FileEdit]:
    """Return the differences that the question shows: both texts of a small file, a unified diff of a larger one."""
    diffs = [text.partition("\n") for text in found.shown if text.startswith(_DIFF)]
    return [*found.edits, *(FileEdit(head.removeprefix(_DIFF), body, patch=True) for head, _, body in diffs)]


def _descriptions(request: ReceivedRequest, found: Parts) -> list[str]:
    """Return the agent's own words, complete, without those that repeat what the request shows."""
    known = {*found.lines, *found.urls, *found.paths, request.tool_name, title(request)}
    first = [] if request.title in known else [request.title]
    return [text for text in dict.fromkeys([*first, *found.words]) if text.strip()]


def _quoted(text: str) -> list[CardLine]:
    """Mark each line as the agent's, so that none can be mistaken for a line of the card."""
    return [CardLine(f"the agent says: {line}", "note") for line in visible(text).split("\n")]


def _commands(found: Parts) -> Iterator[CardLine]:
    for command in found.lines:
        first, *more = command.split("\n")
        yield from _split(f"$ {first}", "command")
        for line in more:
            yield from _split(f"  {line}", "command")


def _edit(edit: FileEdit, context: int | None = None) -> Iterator[CardLine]:
    """Yield an edit's lines, with `context` unchanged lines around each change; with all of them if it is None."""
    yield CardLine(_row(f"--- {edit.path}"), "place")
    if edit.patch:
        for line in edit.new.split("\n"):
            yield from _split(line, _patch_style(line))
        return
    old, new = _file_lines(edit.old or ""), _file_lines(edit.new)
    if len(old) + len(new) > MAX_COMPARED_LINES or not old:
        changed = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    else:
        around = len(old) + len(new) if context is None else context
        changed = list(difflib.unified_diff(old, new, n=around, lineterm=""))[2:]
        changed = changed or [f" {line}" for line in new]
    for line in changed:
        yield from _split(line, _patch_style(line))
    if edit.new and not edit.new.endswith("\n") and (edit.old or "").endswith("\n"):
        yield CardLine("(no newline at the end)", "note")


def _file_lines(text: str) -> list[str]:
    """Return a text's lines. Other line separators stay within a line, where they are made visible."""
    found = text.split("\n")
    return found[:-1] if not found[-1] else found


def _patch_style(line: str) -> Style:
    if line.startswith(("@@", "***", "diff ", "+++ ", "--- ")):
        return "place"
    return "added" if line.startswith("+") else "removed" if line.startswith("-") else "plain"


def _split(text: str, style: Style = "plain") -> list[CardLine]:
    return [CardLine(line, style) for line in visible(text).split("\n")]


def _edited(request: ReceivedRequest, edits: list[FileEdit]) -> str:
    paths = list(dict.fromkeys(edit.path for edit in edits))
    added = sum(_count(edit, "added") for edit in edits)
    removed = sum(_count(edit, "removed") for edit in edits)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    verb = "write" if all(edit.old is None and not edit.patch for edit in edits) else "edit"
    name = f" · tool {request.tool_name}" if request.tool_name.lower() not in (verb, "unknown") else ""
    return f"{verb} {paths[0]}{more} (+{added} −{removed}){name}"


def _count(edit: FileEdit, style: Style) -> int:
    return sum(1 for line in _edit(edit) if line.style == style)


__all__ = [
    "CardLine",
    "ReceivedRequest",
    "Style",
    "agents_words",
    "budget_title",
    "lines",
    "one_line",
    "prompt_text",
    "prompt_title",
    "title",
    "workspace_lines",
    "workspace_title",
]
