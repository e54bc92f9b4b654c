"""The two checks before a tool of Claude Code, both blocked until a person or a rule has answered (A-5, A-9).

Its permission callback alone is not sufficient. A `PermissionRequest` hook in the user's own settings may answer while
a person is still thinking, an allow-rule there prevents the callback altogether, and a hook that is late counts as "no
opinion". So the question is asked in a `PreToolUse` hook, which precedes all rules and whose *no* overrides everything
else; it is configured to block when it fails or is late, and may take 20 days. Its *yes* lets the call continue to the
permission callback, which accepts exactly the input that was granted and asks again for any other.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec
from claude_agent_sdk import (
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from interlock.agents.answers import picked, picked_several
from interlock.agents.call_ids import invocation_id
from interlock.agents.claude.results import KINDS, SUBAGENTS, title_of
from interlock.agents.claude.updates import ClaudeUpdates
from interlock.ports.agent import AgentQuestion, InteractionAnswer, Option

HOLD_S = 20 * 24 * 3600.0
"""How long Claude Code waits for the hook; its timer counts milliseconds in 31 bits, so 24.8 days is the maximum."""
MAX_OPEN_QUESTIONS = 64
"""Simultaneous permission requests; one more is denied."""
LEFT_TO_ITS_RULES = SUBAGENTS | {
    "EnterPlanMode", "ExitPlanMode", "Glob", "Grep", "LS", "ListAgents", "NotebookRead", "Read", "ReportFindings",
    "Skill", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "TodoWrite", "ToolSearch",
}  # fmt: skip
"""Tools that change nothing outside Claude Code, and subagents, whose own calls are asked about: its own rules decide
whether they need a yes (a file outside the workspace does). Every other tool is asked about, whatever the rules are."""
ASKS_ITS_USER = "AskUserQuestion"
"""The tool whose result is a person's answer."""
NO_ANSWER = "The user gave no answer."
_OPTIONS = [Option("allow", "Allow once", "allow_once"), Option("deny", "Deny", "reject_once")]
_DENIED = "The user does not allow this."
_NO_TURN = InteractionAnswer(False, None, "Interlock has no turn open that could ask for this.")
_TOO_MANY = InteractionAnswer(False, None, "Too many permissions are being asked for at once.")


class PermissionGate:
    """The questions of one conversation."""

    def __init__(self, updates: ClaudeUpdates) -> None:
        self._updates = updates
        self._granted: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """tool_use_id → the input that was shown, and the one that was granted."""
        self._open = 0

    def hooks(self) -> dict[Any, list[HookMatcher]]:
        """Return the hooks for the SDK's options."""
        return {"PreToolUse": [HookMatcher(hooks=[self.before], timeout=HOLD_S, on_failure="block")]}

    def end(self) -> None:
        """End the turn: its yes votes become invalid."""
        self._granted.clear()

    async def before(self, hook_input: HookInput, tool_use_id: str | None, _: HookContext) -> HookJSONOutput:
        """Hold any tool call until it is decided."""
        called = cast("dict[str, Any]", hook_input)
        name, tool_input = str(called["tool_name"]), cast("dict[str, Any]", called["tool_input"])
        if name in LEFT_TO_ITS_RULES:
            return {}
        if name == ASKS_ITS_USER:
            return _decision("ask", "Interlock asks the user.")
        answer = await self._ask(tool_use_id, name, tool_input, None)
        if answer.allow and tool_use_id is not None:
            self._granted[tool_use_id] = (tool_input, _taken(answer, tool_input))
            return _decision("ask", "Interlock confirms what was granted.")
        return _decision("deny", answer.message or _DENIED)

    async def can_use_tool(self, name: str, tool_input: dict[str, Any], about: ToolPermissionContext
                           ) -> PermissionResultAllow | PermissionResultDeny:
        """Answer the SDK's permission callback. Permanent rules that it suggests are never accepted (A-9)."""
        if name == ASKS_ITS_USER:
            return await self._ask_user(about.tool_use_id, tool_input)
        granted = self._granted.pop(about.tool_use_id, None) if about.tool_use_id is not None else None
        if granted is not None and granted[0] == tool_input:
            return PermissionResultAllow(updated_input=granted[1])
        answer = await self._ask(about.tool_use_id, name, tool_input, about.title)
        if answer.allow:
            return PermissionResultAllow(updated_input=_taken(answer, tool_input))
        return PermissionResultDeny(message=answer.message or _DENIED)

    async def _ask_user(self, tool_use_id: str | None, tool_input: dict[str, Any]
                        ) -> PermissionResultAllow | PermissionResultDeny:
        """Ask each of its questions separately; the tool runs only if every one is answered."""
        answers: dict[str, str] = {}
        for one in _questions(tool_input):
            text = str(one["question"])
            answer = await self._ask(tool_use_id, ASKS_ITS_USER, one, text, "QUESTION")
            if answer.text is None:
                return PermissionResultDeny(message=f"{NO_ANSWER} {answer.message or ''}".strip())
            answers[text] = _chosen(one, answer.text)
        return PermissionResultAllow(updated_input={**tool_input, "answers": answers})

    async def _ask(self, tool_use_id: str | None, name: str, tool_input: dict[str, Any], title: str | None,
                   interaction_type: Literal["PERMISSION", "QUESTION"] = "PERMISSION") -> InteractionAnswer:
        if self._open >= MAX_OPEN_QUESTIONS:
            return _TOO_MANY
        self._open += 1
        try:
            if tool_use_id:
                await self._updates.announced(tool_use_id)
            turn_writer = self._updates.turn_writer
            if turn_writer is None:
                return _NO_TURN
            question = AgentQuestion(
                invocation_id(tool_use_id) if tool_use_id else None, name, title or title_of(name, tool_input),
                msgspec.json.encode(tool_input), _OPTIONS if interaction_type == "PERMISSION" else [], KINDS.get(name),
                interaction_type,
                takes_input=interaction_type == "PERMISSION",
            )
            return await turn_writer.ask(question)
        finally:
            self._open -= 1


def _taken(answer: InteractionAnswer, shown: dict[str, Any]) -> dict[str, Any]:
    return answer.updated_input if answer.updated_input is not None else shown


def _questions(tool_input: dict[str, Any]) -> list[dict[str, Any]]:
    listed = cast("Any", tool_input.get("questions"))
    found = cast("list[Any]", listed) if isinstance(listed, list) else []
    return [cast("dict[str, Any]", one) for one in found if isinstance(one, dict) and "question" in one]


def _chosen(one: dict[str, Any], text: str) -> str:
    """Return the labels of the options that the words name, by label or number; any other words unchanged."""
    listed = cast("Any", one.get("options"))
    options = cast("list[Any]", listed) if isinstance(listed, list) else []
    labels = [str(cast("dict[str, Any]", option).get("label", "")) for option in options if isinstance(option, dict)]
    if one.get("multiSelect") is True:
        found, rest = picked_several(text, labels)
        return ", ".join([*(labels[index] for index in found), *rest])
    index = picked(text, labels)
    return text if index is None else labels[index]


def _decision(decision: Any, reason: str) -> HookJSONOutput:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
        }
    }
