"""Convert inputs and results of Claude Code's tools, and the end of its turns, to our format (A-7). Pure."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from claude_agent_sdk import ResultMessage

from interlock.ports.agent import TurnOutcome, TurnUsage
from interlock.protocol.codes import Code
from interlock.protocol.payloads import OutputType, StopReason

KINDS = {
    "Read": "read", "NotebookRead": "read", "LS": "read", "Grep": "search", "Glob": "search", "ToolSearch": "search",
    "Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit", "Bash": "execute",
    "PowerShell": "execute", "KillShell": "execute", "WebFetch": "fetch", "WebSearch": "fetch",
    "ExitPlanMode": "switch_mode", "EnterPlanMode": "switch_mode", "TodoWrite": "think",
}  # fmt: skip
"""ACP's kind of a tool, by its name; other tools have none."""
SUBAGENTS = frozenset({"Task", "Agent"})
MAX_ERROR_CHARS = 4_000
_TITLES = ("description", "command", "file_path", "notebook_path", "path", "pattern", "url", "query", "prompt")
_OUTPUTS: dict[str, OutputType] = {
    "Read": "file_content", "NotebookRead": "file_content", "WebFetch": "web_content", "WebSearch": "web_content",
    "Task": "agent_result", "Agent": "agent_result",
}  # fmt: skip
_STOPS: dict[str | None, StopReason] = {"max_tokens": "max_tokens", "model_context_window_exceeded": "max_tokens"}
_REFUSED = ("AgentRefused", "The agent refused to continue with this prompt.")


class Called(NamedTuple):
    """An open tool call."""

    name: str
    tool_input: dict[str, Any]


def title_of(name: str, tool_input: dict[str, Any]) -> str:
    """Return one line for a person: the tool and its target."""
    target = next((tool_input[key] for key in _TITLES if isinstance(tool_input.get(key), str)), "")
    return f"{name}: {target}" if target else name


def output_of(call: Called, content: Any, structured: Any) -> tuple[OutputType, Any]:
    """Return a result's type and output from the text that the model sees and the SDK's own form of it."""
    fields = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {}
    if KINDS.get(call.name) == "edit" and "filePath" in fields:
        return "diff", [_diff(call, fields)]
    files = fields.get("filenames")
    if call.name in ("Glob", "Grep") and isinstance(files, list) and fields.get("mode") != "content":
        return "file_list", cast("list[Any]", files)
    if call.name == "Bash" and fields.get("stdout") == "" and fields.get("stderr") == "":
        return "empty", ""
    text = text_of(content)
    if not text:
        return ("empty", "") if not content else ("structured", content)
    return _OUTPUTS.get(call.name, "text"), text


def _diff(call: Called, fields: dict[str, Any]) -> dict[str, Any]:
    old = fields.get("oldString", fields.get("originalFile"))
    new = fields.get("newString", fields.get("content", call.tool_input.get("content")))
    return {"path": fields["filePath"], "old_text": old, "new_text": new}


def text_of(content: Any) -> str:
    """Return the text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def answered(result: ResultMessage, usage: TurnUsage) -> TurnOutcome:
    """Return the outcome of a prompt that was answered, with an answer or an error."""
    if result.subtype == "error_max_turns":
        return TurnOutcome("max_tokens", usage)
    if result.is_error or result.subtype.startswith("error"):
        return TurnOutcome("error", usage, error=(Code.UPSTREAM_ERROR, _failure(result)))
    notice = _REFUSED if result.stop_reason == "refusal" else None
    return TurnOutcome(_STOPS.get(result.stop_reason, "end_turn"), usage, notice=notice)


def _failure(result: ResultMessage) -> str:
    message = "; ".join(result.errors or []) or result.result or f"Claude Code ended the turn with {result.subtype}."
    return message[:MAX_ERROR_CHARS]


def usage_of(result: ResultMessage, cost_before: float, context_used: int | None, model: str | None) -> TurnUsage:
    """Return this turn's usage: the tokens are the turn's own, the cost is the conversation's so far."""
    figures = result.usage or {}
    details = figures.get("output_tokens_details")
    models = cast("dict[str, dict[str, Any]]", result.model_usage or {})
    of_model = models.get(model or "") or next(iter(models.values()), figures)
    cost = None if result.total_cost_usd is None else max(result.total_cost_usd - cost_before, 0.0)
    return TurnUsage(
        input_tokens=figures.get("input_tokens"), output_tokens=figures.get("output_tokens"),
        cache_read_tokens=figures.get("cache_read_input_tokens"),
        cache_write_tokens=figures.get("cache_creation_input_tokens"),
        thinking_tokens=cast("dict[str, Any]", details).get("thinking_tokens") if isinstance(details, dict) else None,
        cost_usd=cost, context_capacity=of_model.get("contextWindow"), context_used=context_used,
    )
