"""Pure: what Claude Code's tools were given and gave back, and how its turns end, in our words (A-7)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from claude_agent_sdk import ResultMessage

from interlock.ports.agent import ProcessExit, TurnOutcome, TurnUsage
from interlock.protocol.codes import Code
from interlock.protocol.payloads import OutputType, StopReason

KINDS = {
    "Read": "read", "NotebookRead": "read", "LS": "read", "Grep": "search", "Glob": "search", "ToolSearch": "search",
    "Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit", "Bash": "execute",
    "PowerShell": "execute", "KillShell": "execute", "WebFetch": "fetch", "WebSearch": "fetch",
    "ExitPlanMode": "switch_mode", "EnterPlanMode": "switch_mode", "TodoWrite": "think",
}  # fmt: skip
"""ACP's word for what a tool does, by its name; a tool that is not here has none."""
SUBAGENTS = frozenset({"Task", "Agent"})
MAX_ERROR_CHARS = 4_000
_TITLES = ("description", "command", "file_path", "notebook_path", "path", "pattern", "url", "query", "prompt")
_OUTPUTS: dict[str, OutputType] = {
    "Read": "file_content", "NotebookRead": "file_content", "WebFetch": "web_content", "WebSearch": "web_content",
    "Task": "agent_result", "Agent": "agent_result",
}  # fmt: skip
_STOPS: dict[str | None, StopReason] = {"max_tokens": "max_tokens", "model_context_window_exceeded": "max_tokens"}
_REFUSED = ("AgentRefused", "The agent refused to go on with this prompt.")


class Called(NamedTuple):
    """A tool call that is open."""

    name: str
    tool_input: dict[str, Any]


def title_of(name: str, tool_input: dict[str, Any]) -> str:
    """One line for a person: the tool, and what it is pointed at."""
    told = next((tool_input[key] for key in _TITLES if isinstance(tool_input.get(key), str)), "")
    return f"{name}: {told}" if told else name


def output_of(call: Called, content: Any, structured: Any) -> tuple[OutputType, Any]:
    """A result's type and output from the text that the model sees and the SDK's own form of it."""
    told = cast("dict[str, Any]", structured) if isinstance(structured, dict) else {}
    if KINDS.get(call.name) == "edit" and "filePath" in told:
        return "diff", [_diff(call, told)]
    files = told.get("filenames")
    if call.name in ("Glob", "Grep") and isinstance(files, list) and told.get("mode") != "content":
        return "file_list", cast("list[Any]", files)
    if call.name == "Bash" and told.get("stdout") == "" and told.get("stderr") == "":
        return "empty", ""
    text = text_of(content)
    if not text:
        return ("empty", "") if not content else ("structured", content)
    return _OUTPUTS.get(call.name, "text"), text


def _diff(call: Called, told: dict[str, Any]) -> dict[str, Any]:
    old = told.get("oldString", told.get("originalFile"))
    new = told.get("newString", told.get("content", call.tool_input.get("content")))
    return {"path": told["filePath"], "old_text": old, "new_text": new}


def text_of(content: Any) -> str:
    """The text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def answered(result: ResultMessage, usage: TurnUsage) -> TurnOutcome:
    """The prompt was answered, with an answer or an error."""
    if result.subtype == "error_max_turns":
        return TurnOutcome("max_tokens", usage)
    if result.is_error or result.subtype.startswith("error"):
        return TurnOutcome("error", usage, error=(Code.UPSTREAM_ERROR, _failure(result)))
    notice = _REFUSED if result.stop_reason == "refusal" else None
    return TurnOutcome(_STOPS.get(result.stop_reason, "end_turn"), usage, notice=notice)


def _failure(result: ResultMessage) -> str:
    said = "; ".join(result.errors or []) or result.result or f"Claude Code ended the turn with {result.subtype}."
    return said[:MAX_ERROR_CHARS]


def died(ended: ProcessExit) -> TurnOutcome:
    """The program ended in mid-turn (A-2)."""
    clean = ended.code == 0
    return TurnOutcome("end_turn" if clean else "error", process=ended, unanswered=clean)


def usage_of(result: ResultMessage, cost_before: float, context_used: int | None, model: str | None) -> TurnUsage:
    """This turn's part: the tokens are the turn's own, the cost is the conversation's so far."""
    told = result.usage or {}
    details = told.get("output_tokens_details")
    models = cast("dict[str, dict[str, Any]]", result.model_usage or {})
    of_model = models.get(model or "") or next(iter(models.values()), told)
    cost = None if result.total_cost_usd is None else max(result.total_cost_usd - cost_before, 0.0)
    return TurnUsage(
        input_tokens=told.get("input_tokens"), output_tokens=told.get("output_tokens"),
        cache_read_tokens=told.get("cache_read_input_tokens"),
        cache_write_tokens=told.get("cache_creation_input_tokens"),
        thinking_tokens=cast("dict[str, Any]", details).get("thinking_tokens") if isinstance(details, dict) else None,
        cost_usd=cost, context_capacity=of_model.get("contextWindow"), context_used=context_used,
    )
