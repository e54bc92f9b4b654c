"""Read the effect of a permission request for agents that do not put it into the raw input (H-2). Pure.

A reader applies only to tested versions. It returns exactly what runs, or nothing: then the request counts as
described. A reader uses an announcement only if the id was announced once; the call that runs is compared with it
(H-3).

| agent | its request contains | read from |
|---|---|---|
| Gemini CLI | a title; for edits a diff with the whole new text | these and its words (`gemini_requests`) |
| Kimi Code | the tool's name, and an argument shortened to a line | the arguments that it announced (`kimi_requests`) |
| Mistral Vibe | an id | the call that it announced |
| OpenCode, Kilo | a part of the input, or a path and a diff | the input that it reports before or just after |
| codex-acp, file changes | the paths | the diffs that it announced |
| codex-acp, MCP tools | an id | the call that it announced, if no other tool of that server is running |
| Hermes | for edits the tool's name and arguments | the arguments |
| Copilot, qwen, goose, claude-agent-acp, codex-acp (commands) | the whole input | the request itself |

A request counts as described if it does not contain the effect: a fetch of Gemini CLI whose prompt is longer than 100
characters, its MCP tools with more than 500 characters of arguments or with a command, its background commands in
another directory; a file that codex-acp moves or deletes, or whose change is too large for it to show.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.agents.acp.calls import AcpToolCall, is_empty
from interlock.agents.acp.effects import (
    Effect,
    Reader,
    RequestRead,
    content_of,
    diff_path,
    json_object,
    paths_of,
    with_content,
    with_input,
)
from interlock.agents.acp.gemini_requests import gemini_effect
from interlock.agents.acp.kimi_requests import kimi_effect
from interlock.agents.acp.wire import AskedCall, Implementation

_WRITES = ({"kind": "add"}, {"kind": "update"})
"""codex-acp's kinds of changes that two texts describe fully; a deleted file looks like an emptied one."""


def _vibe(request: RequestRead) -> Effect | None:
    own, announced = request.own, request.announced
    if own.title or own.content or not is_empty(own.raw_input) or announced.announced_json == b"{}":
        return None
    return Effect(_announced_call(announced))


def _announced_call(announced: AcpToolCall) -> AskedCall:
    return AskedCall(
        title=announced.title, kind=announced.kind, raw_input=msgspec.Raw(announced.announced_json),
        content=msgspec.Raw(msgspec.json.encode(announced.content)), locations=announced.locations)


def _open_code(request: RequestRead) -> Effect | None:
    """Use the input that it reports when a call begins to run. Its request contains only what its own rules check: of a
    command not the directory, of a sub-agent not its task, of an MCP tool nothing."""
    own = request.own
    if own.kind == "edit" and content_of(own):
        return None
    own_input = json_object(bytes(own.raw_input)) if not is_empty(own.raw_input) else {}
    whole = json_object(request.announced.announced_json)
    if own_input is None or whole is None or not request.announced.begun:
        return Effect(own, partial=True)
    if own.kind == "other" and not own_input.keys() <= whole.keys():
        return None  # The request is about a directory outside of the workspace that the call needs.
    if any(whole.get(name, value) != value for name, value in own_input.items()):
        return Effect(own, partial=True)  # The request is not about the call that was reported.
    # The request may add defaults.
    return Effect(with_input(own, {**whole, **own_input})) if whole or own_input else None


def _codex(request: RequestRead) -> Effect | None:
    own, announced = request.own, request.announced
    if not is_empty(own.raw_input) or not is_empty(own.content):
        return None
    return _codex_edit(own, announced) if own.kind == "edit" else _codex_mcp(request)


def _codex_edit(own: AskedCall, announced: AcpToolCall) -> Effect | None:
    """Use the announced diffs. The diff of a moved file has its new path, a file that is too large has none: then the
    paths of the diffs are not those of the request, in their order."""
    if announced.kind != "edit" or not announced.content:
        return None
    shown = with_content(own, announced.content)
    paths = [diff_path(item) for item in announced.content]
    complete = list(dict.fromkeys(paths)) == paths_of(own)
    writes = all(item.get("_meta") in _WRITES for item in announced.content)
    return Effect(shown, whole=complete and writes)


def _codex_mcp(request: RequestRead) -> Effect | None:
    """Use the announced call. codex-acp finds the call of a server's question by the server alone: with two calls
    running it may name the wrong one."""
    server = _server(request.announced)
    if request.own.title or server is None or any(_server(one) == server for one in request.others):
        return None
    return Effect(_announced_call(request.announced), whole=True)


def _server(call: AcpToolCall) -> str | None:
    """Return the MCP server of a codex-acp call."""
    found = json_object(call.announced_json)
    if found is None or found.keys() != {"server", "tool", "arguments"}:
        return None
    return str(found["server"])


def _hermes(request: RequestRead) -> Effect | None:
    whole = json_object(bytes(request.own.raw_input)) if not is_empty(request.own.raw_input) else None
    if request.own.kind == "execute":
        return Effect(request.own, partial=True)  # It lacks the directory of a command.
    if request.own.kind != "edit" or whole is None or whole.keys() != {"tool", "arguments"}:
        return None
    arguments = json_object(msgspec.json.encode(whole["arguments"]))
    return None if arguments is None else Effect(with_input(request.own, arguments))


READERS: Mapping[tuple[str, str], Reader] = {
    ("gemini-cli", "0.61.0"): Reader(gemini_effect),
    ("kimi code cli", "2.1.0"): Reader(kimi_effect),
    ("@mistralai/mistral-vibe", "3.0.2"): Reader(_vibe),
    ("@agentclientprotocol/codex-acp", "2.6.0"): Reader(_codex),
    ("hermes-agent", "0.19.0"): Reader(_hermes),
    ("opencode", "1.18.33"): Reader(_open_code, waits=True),
    ("kilo", "7.7.7"): Reader(_open_code, waits=True),
}
"""By `agentInfo.name` in lower case, and version."""


def reader_of(agent: Implementation) -> Reader | None:
    """Return the reader for an agent of this version; None if its input is complete, or the version is untested."""
    return READERS.get((agent.name.casefold(), agent.version or ""))


def read(reader: Reader | None, request: RequestRead) -> Effect:
    """Return the request with its effect, as far as it can be read."""
    if reader is None:
        return Effect(request.own)
    if request.announced.repeated:
        return Effect(request.own, partial=True)
    return reader.read(request) or Effect(request.own)
