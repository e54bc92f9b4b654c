"""The two doors before a tool of Claude Code, opened and closed by hand, without the program itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from agents.claude.test_updates import Ear
from interlock.agents.call_ids import MAX_CALL_ID_CHARS
from interlock.ports.agent import AgentQuestion, InteractionAnswer
from lazily import lazily

sdk, types = lazily("claude_agent_sdk"), lazily("claude_agent_sdk.types")
gates, hearing = lazily("interlock.agents.claude.gate"), lazily("interlock.agents.claude.updates")

pytestmark = [pytest.mark.anyio, pytest.mark.needs("claude-sdk")]
LS = {"command": "ls"}
RM = {"command": "rm -rf ."}


class Person(Ear):
    """A turn writer whose user has decided beforehand."""

    def __init__(self, *answers: InteractionAnswer) -> None:
        super().__init__()
        self.asked: list[AgentQuestion] = []
        self._answers = list(answers)

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        self.asked.append(question)
        return self._answers.pop(0)


async def opened(person: Person) -> gates.PermissionGate:
    """A gate in a turn in which the call t1 was announced."""
    updates = hearing.ClaudeUpdates(None)
    updates.begin(person)
    await updates.take(sdk.AssistantMessage(content=[sdk.ToolUseBlock("t1", "Bash", LS)], model="m", message_id="m1"))
    return gates.PermissionGate(updates)


async def before(gate: gates.PermissionGate, name: str = "Bash", tool_input: dict[str, Any] = LS) -> Any:
    hook_input: Any = {"hook_event_name": "PreToolUse", "tool_name": name, "tool_input": tool_input}
    return await gate.before(hook_input, "t1", {"signal": None})


async def callback(gate: gates.PermissionGate, tool_input: dict[str, Any] = LS) -> Any:
    return await gate.can_use_tool("Bash", tool_input, types.ToolPermissionContext(tool_use_id="t1"))


def decided(output: Any) -> tuple[str, str]:
    decision = output["hookSpecificOutput"]
    return decision["permissionDecision"], decision["permissionDecisionReason"]


GRANT, DENIAL = InteractionAnswer(True, "allow"), InteractionAnswer(False, "deny", "Not today.")


@pytest.mark.req("A-5")
async def test_a_grant_is_requested_once_and_valid_once_for_its_input() -> None:
    person = Person(GRANT, DENIAL)
    gate = await opened(person)
    assert decided(await before(gate))[0] == "ask"
    allowed = await callback(gate)
    assert isinstance(allowed, sdk.PermissionResultAllow)
    assert (allowed.updated_input, allowed.updated_permissions) == (LS, None)
    assert len(person.asked) == 1
    assert isinstance(await callback(gate), sdk.PermissionResultDeny)


@pytest.mark.req("L-2")
async def test_a_call_with_a_long_id_is_asked_about_under_the_id_that_it_was_announced_with() -> None:
    long_id = "call_1__thought__" + "s" * 3_000
    person, updates = Person(DENIAL), hearing.ClaudeUpdates(None)
    updates.begin(person)
    await updates.take(sdk.AssistantMessage(content=[sdk.ToolUseBlock(long_id, "Bash", LS)], model="m",
                                            message_id="m1"))
    hook_input: Any = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": LS}
    await gates.PermissionGate(updates).before(hook_input, long_id, {"signal": None})
    assert [one.invocation_id for one in person.asked] == [one[1] for one in person.reports if one[0] == "request"]
    assert len(person.asked[0].invocation_id or "") <= MAX_CALL_ID_CHARS


@pytest.mark.req("A-5")
async def test_an_input_that_changed_after_the_grant_is_asked_about_again() -> None:
    person = Person(GRANT, DENIAL)
    gate = await opened(person)
    await before(gate)
    denied = await callback(gate, RM)
    assert isinstance(denied, sdk.PermissionResultDeny)
    assert (denied.message, denied.interrupt) == ("Not today.", False)
    assert [question.input_json for question in person.asked] == [b'{"command":"ls"}', b'{"command":"rm -rf ."}']


@pytest.mark.req("A-5")
async def test_a_denial_is_returned_by_the_hook() -> None:
    assert decided(await before(await opened(Person(DENIAL)))) == ("deny", "Not today.")


@pytest.mark.req("A-5")
async def test_outside_a_turn_nothing_is_allowed() -> None:
    gate = gates.PermissionGate(hearing.ClaudeUpdates(None))
    assert decided(await before_unannounced(gate))[0] == "deny"


async def before_unannounced(gate: gates.PermissionGate) -> Any:
    hook_input: Any = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": LS}
    return await gate.before(hook_input, None, {"signal": None})


@pytest.mark.req("A-5")
async def test_a_grant_of_an_ended_turn_is_invalid() -> None:
    gate = await opened(Person(GRANT, DENIAL))
    await before(gate)
    gate.end()
    assert isinstance(await callback(gate), sdk.PermissionResultDeny)


@pytest.mark.req("A-5")
async def test_reads_are_left_to_claudes_own_rules() -> None:
    person = Person()
    assert await before(await opened(person), "Read", {"file_path": "a"}) == {}
    assert person.asked == []


@pytest.mark.req("A-5")
def test_a_failing_or_late_hook_blocks_and_its_timeout_fits_31_bits() -> None:
    matcher = gates.PermissionGate(hearing.ClaudeUpdates(None)).hooks()["PreToolUse"][0]
    assert (matcher.matcher, matcher.on_failure, matcher.timeout) == (None, "block", gates.HOLD_S)
    assert gates.HOLD_S * 1000 < 2**31


@pytest.mark.req("A-7")
def test_the_sdk_is_loaded_only_when_an_agent_of_its_kind_opens() -> None:
    code = (
        "import sys, interlock.app.runner, interlock.agents.registry as r\n"
        "from interlock.ports.agent import AgentSpec\n"
        "made = [r.make_agent(AgentSpec(adapter=name), None) for name in ('claude', 'builtin')]\n"
        "offered = r.offers(r.with_builtin({}), {})\n"
        "sys.exit(bool({'claude_agent_sdk', 'pydantic_ai', 'httpx2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.req("C-8")
async def test_a_choice_may_be_given_by_number() -> None:
    options = [{"label": "left", "description": "a"}, {"label": "right", "description": "b"}]
    asks: dict[str, Any] = {"questions": [
        {"question": "Which?", "options": options, "multiSelect": False},
        {"question": "Which of them?", "options": options, "multiSelect": True},
        {"question": "Why?", "options": options, "multiSelect": False},
    ]}
    person = Person(*(InteractionAnswer(True, None, text=text) for text in ("2", "1, RIGHT, up", "so it is")))
    gate = await opened(person)
    allowed = await gate.can_use_tool("AskUserQuestion", asks, types.ToolPermissionContext(tool_use_id="t1"))
    assert isinstance(allowed, sdk.PermissionResultAllow)
    assert allowed.updated_input is not None
    assert allowed.updated_input["answers"] == {"Which?": "right", "Which of them?": "left, right, up",
                                                "Why?": "so it is"}
