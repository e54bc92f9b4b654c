"""Permission requests as real agents send them, and the effect that is read from each (H-1, H-2, H-3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agents.scripted_acp import SESSION, Recorder, content, opened, permission, prompted, update
from interlock.command.card.request import same_effect
from interlock.ports.agent import Answer, Question
from interlock.runner.allowed_input import allowed_input, without_yes
from interlock.runner.tool_calls import Allowed, ToolCall

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-2")]
OPTIONS = [("once", "allow_once"), ("no", "reject_once")]
END = {"result": {"stopReason": "end_turn"}}
GEMINI, KIMI = ("gemini-cli", "0.61.0"), ("Kimi Code CLI", "2.1.0")
VIBE, OPEN_CODE = ("@mistralai/mistral-vibe", "3.0.2"), ("OpenCode", "1.18.33")
LONG = "echo " + "x" * 300
DIFF = {"type": "diff", "path": "/w/a.txt", "oldText": "before\nmore\n", "newText": "after\nmore\n"}


class Asked(Recorder):
    """A recorder that keeps the questions, and what was reported to run."""

    def __init__(self) -> None:
        super().__init__(allow=True)
        self.questions: list[Question] = []
        self.ran: list[bytes] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return await super().ask(question)

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        self.ran.append(input_json)


async def asked(agent: tuple[str, str], *steps: dict[str, Any], version: str | None = None) -> tuple[Question, Asked]:
    """The question that the agent's steps come to; the last of them may be what it reports after the yes."""
    name, known = agent
    hello = {"result": {"protocolVersion": 1, "agentInfo": {"name": name, "version": version or known}}}
    script: list[dict[str, Any] | None] = []
    for step in steps:
        script += [step, None] if step.get("method") == "session/request_permission" else [step]
    recorder = Asked()
    async with opened({"session/prompt": [*script, END]}, hello=hello) as told:
        await prompted(told.agent, recorder)
    return recorder.questions[0], recorder


def inputs(question: Question) -> dict[str, Any]:
    return msgspec.json.decode(question.input_json)


def gemini_shell(command: str, details: str = "[current working directory /]") -> dict[str, Any]:
    return permission(OPTIONS, toolCallId="c", status="pending", title=command, content=content(details), locations=[],
                      kind="execute")


@pytest.mark.parametrize("command", ["ls; rm -rf x", LONG, "echo 'one'\necho \"two\" `date`"])
async def test_geminis_title_is_the_command(command: str) -> None:
    question, _ = await asked(GEMINI, gemini_shell(command))
    assert (inputs(question), question.described) == ({"command": command}, False)


@pytest.mark.parametrize("details", [
    "[current working directory /] (list the files)", "[in /etc]", "[current working directory /] [background]", ""])
async def test_geminis_title_that_may_be_the_models_description_is_not_read(details: str) -> None:
    question, _ = await asked(GEMINI, gemini_shell("List the files", details))
    assert (inputs(question), question.described) == ({}, True)


async def test_geminis_edit_is_its_diff() -> None:
    request = permission(OPTIONS, toolCallId="c", title="Writing to a.txt", kind="edit", content=[DIFF],
                         locations=[{"path": "/w/a.txt"}])
    question, _ = await asked(GEMINI, request)
    assert (question.described, msgspec.json.decode(question.content_json or b"")) == (False, [DIFF])
    request["params"]["toolCall"]["locations"] = [{"path": "/w/other.txt"}]
    assert (await asked(GEMINI, request))[0].described, "the diff is of another file than the request names"


def kimi(command: str, shown: str, *, announced: str | None = None, tool: str = "Bash") -> list[dict[str, Any]]:
    arguments = msgspec.json.encode({"command": announced or command}).decode()
    return [
        update(sessionUpdate="tool_call", toolCallId="0:c", title=tool, kind="execute", status="pending",
               content=content(arguments)),
        permission(OPTIONS, toolCallId="0:c", title=tool, content=content(f"Requesting approval to {shown}")),
    ]


async def test_kimis_announced_arguments_are_the_effect_if_the_request_fits_them() -> None:
    for command, shown in (("ls", "Running: ls"), (LONG, f"Running: {LONG[:50]}…")):
        question, _ = await asked(KIMI, *kimi(command, shown))
        assert (inputs(question), question.described, question.changed) == ({"command": command}, False, False)


@pytest.mark.parametrize("steps", [
    kimi("rm -rf x", "Running: rm -rf x", announced="ls"), kimi("ls", "Running: ls", tool="FetchURL"),
    kimi("ls", "Reading ls"), [kimi("ls", "Running: ls")[0], *kimi("ls", "Running: ls")],
])  # fmt: skip
async def test_kimis_request_that_does_not_fit_or_whose_id_came_twice_is_only_described(
    steps: list[dict[str, Any]]
) -> None:
    question, _ = await asked(KIMI, *steps)
    assert (inputs(question), question.described) == ({}, True)


async def test_vibes_request_is_the_call_that_it_announced() -> None:
    given = {"filePath": "/w/a.txt", "changes": [{"oldString": "before", "newString": "after", "replaceAll": False}]}
    diff = {**DIFF, "oldText": "before", "newText": "after"}
    steps = [update(sessionUpdate="tool_call", toolCallId="effect-1", title="Editing a.txt", kind="edit",
                    status="in_progress", content=[diff], locations=[{"path": "/w/a.txt"}], rawInput=given),
             permission(OPTIONS, toolCallId="effect-1")]
    question, _ = await asked(VIBE, *steps)
    assert (inputs(question), question.described, question.title) == (given, False, "Editing a.txt")
    assert (question.locations, msgspec.json.decode(question.content_json or b"")) == (("/w/a.txt",), [diff])
    assert (await asked(VIBE, steps[0], *steps))[0].described, "the id was announced twice"
    assert (await asked(VIBE, steps[1]))[0].described, "nothing was announced"


def open_code(command: str, announced: dict[str, Any]) -> list[dict[str, Any]]:
    return [update(sessionUpdate="tool_call", toolCallId="c", title="bash", kind="execute", status="pending",
                   rawInput=announced),
            permission(OPTIONS, toolCallId="c", title=command, kind="execute", rawInput={"command": command})]


async def test_opencodes_command_comes_with_the_directory_that_it_announced() -> None:
    ran = {"command": "ls", "cwd": "/w"}
    after = [update(sessionUpdate="tool_call_update", toolCallId="c", status=status, rawInput=ran)
             for status in ("in_progress", "completed")]
    question, recorder = await asked(OPEN_CODE, *open_code("ls", {"cwd": "/w"}), *after)
    assert (inputs(question), question.described, question.changed) == (ran, False, False)
    assert [compared(question, one) for one in recorder.ran] == [None]


def test_a_report_in_other_words_is_the_same_act_and_another_act_is_not() -> None:
    allowed = b'{"command":"ls","commands":["ls"],"cwd":"/w"}'
    assert same_effect(b'{"command":"ls","description":"run","cwd":"/w"}', allowed)
    assert same_effect(b'{"cwd":"/w"}', allowed), "an announcement that came late"
    for other in (b'{"command":"ls"}', b'{"command":"ls","cwd":"/etc"}', b'{"command":"rm","cwd":"/w"}',
                  b'{"command":"ls","cwd":"/w","stdin":"x"}', b'{"cwd":"/etc"}', b'{"other":1}'):
        assert not same_effect(other, allowed), other
    patch = msgspec.json.encode({"fileName": "/w/a", "diff": "\ndiff --git a/w/a b/w/a\n--- a/w/a\n+++ b/w/a\n"
                                 "@@ -1,2 +1,2 @@\n-before\n+after\n more\n"})
    assert same_effect(b'{"path":"/w/a","old_str":"before","new_str":"after"}', patch)
    made = msgspec.json.encode({"fileName": "/w/a", "diff": "\ndiff --git a/w/a b/w/a\ncreate file mode 100644\n"
                                "--- a/dev/null\n+++ b/w/a\n@@ -1,0 +1,1 @@\n+text\n"})
    assert same_effect(b'{"path":"/w/a","file_text":"text\\n"}', made)
    assert not same_effect(b'{"path":"/w/b","old_str":"before","new_str":"after"}', patch)
    assert not same_effect(b'{"path":"/w/a","old_str":"before","new_str":"evil"}', patch)


async def test_opencodes_command_that_is_another_than_the_announced_one_is_changed() -> None:
    question, _ = await asked(OPEN_CODE, *open_code("rm -rf x", {"command": "ls", "cwd": "/w"}))
    assert (inputs(question), question.changed) == ({"command": "rm -rf x"}, True)


def compared(question: Question, ran: bytes) -> str | None:
    """The code of the report that the runner would make of what ran."""
    call = ToolCall("c", 0)
    call.asked, call.kind = True, question.kind
    call.allowed.append(Allowed(allowed_input(question, Answer(True, "once")), question.content_json))
    found = without_yes(call, ran)
    return found[0] if found is not None else None


@pytest.mark.req("H-3")
@pytest.mark.parametrize(("ran", "code"), [
    ({"filePath": "/w/a.txt", "oldString": "before", "newString": "after"}, None),
    ({"filePath": "/w/a.txt", "content": "after\nmore\n"}, None),
    ({"filePath": "/w/a.txt", "oldString": "before", "newString": "evil"}, "RAN_OTHER_THAN_ALLOWED"),
    ({"filePath": "/w/b.txt", "oldString": "before", "newString": "after"}, "RAN_OTHER_THAN_ALLOWED"),
    ({"command": "rm -rf x"}, "RAN_OTHER_THAN_ALLOWED"),
])  # fmt: skip
async def test_opencodes_edit_runs_as_another_input_with_the_same_effect(ran: dict[str, Any], code: str | None) -> None:
    request = permission(OPTIONS, toolCallId="c", title="/w/a.txt", kind="edit", content=[DIFF],
                         locations=[{"path": "/w/a.txt"}], rawInput={"filepath": "/w/a.txt", "diff": "Index: a\n"})
    question, _ = await asked(OPEN_CODE, request)
    assert compared(question, msgspec.json.encode(ran)) == code


@pytest.mark.parametrize(("agent", "steps"), [
    (GEMINI, [gemini_shell("ls")]), (KIMI, kimi("ls", "Running: ls")), (OPEN_CODE, open_code("ls", {"cwd": "/w"})),
])  # fmt: skip
async def test_a_version_that_was_not_tried_is_taken_as_it_is(
    agent: tuple[str, str], steps: list[dict[str, Any]]
) -> None:
    question, _ = await asked(agent, *steps, version="99.0")
    own = steps[-1]["params"]["toolCall"].get("rawInput")
    assert (inputs(question), question.described) == (own or {}, own is None)
    assert steps[-1]["params"]["sessionId"] == SESSION
