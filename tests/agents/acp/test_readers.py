"""Permission requests as real agents send them, and the effect that is read from each (H-1, H-2, H-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from agents.scripted_acp import SESSION, Recorder, content, opened, permission, prompted, update
from interlock.agents.acp import updates
from interlock.agents.acp.choices import Choices
from interlock.agents.acp.readers import reader_of
from interlock.agents.acp.usage import Tokens
from interlock.agents.acp.wire import Implementation, LoadedSession
from interlock.command.card.request import same_effect
from interlock.command.facts.request import AgentRequest, facts
from interlock.ports.agent import AgentQuestion, InteractionAnswer
from interlock.runner.turn.allowed_input import allowed_input, without_yes
from interlock.runner.turn.tool_calls import Allowed, AnnouncedCall

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-2")]
OPTIONS = [("once", "allow_once"), ("no", "reject_once")]
END = {"result": {"stopReason": "end_turn"}}
GEMINI, KIMI = ("gemini-cli", "0.61.0"), ("Kimi Code CLI", "2.1.0")
VIBE, OPEN_CODE = ("@mistralai/mistral-vibe", "3.0.2"), ("OpenCode", "1.18.33")
CODEX, HERMES = ("@agentclientprotocol/codex-acp", "2.6.0"), ("hermes-agent", "0.19.0")
LONG = "echo " + "x" * 300
DIFF = {"type": "diff", "path": "/w/a.txt", "oldText": "before\nmore\n", "newText": "after\nmore\n"}


class QuestionRecorder(Recorder):
    """A recorder that keeps the questions, and what was reported to run."""

    def __init__(self) -> None:
        super().__init__(allow=True)
        self.questions: list[AgentQuestion] = []
        self.ran: list[bytes] = []

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        self.questions.append(question)
        return await super().ask(question)

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        self.ran.append(input_json)


async def asked(agent: tuple[str, str], *steps: dict[str, Any] | None, version: str | None = None
                ) -> tuple[AgentQuestion, QuestionRecorder]:
    """The last question of the agent's steps. The last step may be its report after the grant. None marks the place
    where it waits for the answer; without it, it waits right after its request."""
    name, known = agent
    hello = {"result": {"protocolVersion": 1, "agentInfo": {"name": name, "version": version or known}}}
    script: list[dict[str, Any] | None] = []
    for step in steps:
        waits = None not in steps and step is not None and step.get("method") == "session/request_permission"
        script += [step, None] if waits else [step]
    recorder = QuestionRecorder()
    async with opened({"session/prompt": [*script, END]}, hello=hello) as acp:
        await prompted(acp.agent, recorder)
    return recorder.questions[-1], recorder


def inputs(question: AgentQuestion) -> dict[str, Any]:
    return msgspec.json.decode(question.input_json)


def gemini_shell(command: str, details: str = "[current working directory /]") -> dict[str, Any]:
    return permission(OPTIONS, toolCallId="c", status="pending", title=command, content=content(details), locations=[],
                      kind="execute")


@pytest.mark.parametrize("command", ["ls; rm -rf x", LONG, "echo 'one'\necho \"two\" `date`"])
async def test_geminis_title_is_the_command(command: str) -> None:
    question, _ = await asked(GEMINI, gemini_shell(command))
    assert (inputs(question), question.described) == ({"command": command}, False)


@pytest.mark.parametrize(("details", "more"), [
    ("[current working directory /] (list (the) files)", {"description": "list (the) files"}),
    ("[current working directory /] [background]", {"is_background": True}),
    ("[current working directory /] (x) [background]", {"is_background": True, "description": "x"}),
    ("[in /etc]", {"dir_path": "/etc"}), ("[in sub] (x)", {"dir_path": "sub", "description": "x"}),
])  # fmt: skip
async def test_geminis_command_has_its_directory_and_the_models_text(details: str, more: dict[str, Any]) -> None:
    question, _ = await asked(GEMINI, gemini_shell("make", details))
    assert (inputs(question), question.described) == ({"command": "make", **more}, False)


@pytest.mark.parametrize("details", [
    "", "[current working directory /other]", "[in a] [background]", "[in a] (x) [background]", "[in a] (x)] (y)",
    "[in a]b]", "[current working directory /] and more",
])  # fmt: skip
async def test_geminis_text_that_may_mean_another_directory_is_not_read(details: str) -> None:
    question, _ = await asked(GEMINI, gemini_shell("make", details))
    assert (inputs(question), question.described) == ({}, True)


def gemini_fetch(prompt: str) -> dict[str, Any]:
    shown = prompt if len(prompt) <= 100 else f"{prompt[:97]}..."
    return permission(OPTIONS, toolCallId="c", status="pending", content=[], locations=[], kind="fetch",
                      title=f'Processing URLs and instructions from prompt: "{shown}"')


@pytest.mark.parametrize("prompt", ['Read https://a.example/x and "say" http://b.example/', "x" * 100, "Go on..."])
async def test_geminis_fetch_is_its_prompt_with_the_urls_in_it(prompt: str) -> None:
    question, _ = await asked(GEMINI, gemini_fetch(prompt))
    found = [word for word in prompt.split() if "://" in word]
    assert (inputs(question), question.described) == ({"prompt": prompt, "urls": found}, False)
    read = facts(AgentRequest(question.input_json))
    assert read.urls == tuple(found), "rules by address see what is fetched"


@pytest.mark.parametrize("prompt", ["x" * 101, "https://a.example/ " + "x" * 78 + "...", "\U0001f600" * 49 + "..."])
async def test_geminis_fetch_with_a_possibly_truncated_prompt_is_described(prompt: str) -> None:
    assert (await asked(GEMINI, gemini_fetch(prompt)))[0].described


def gemini_mcp(arguments: str, title: str = "mark (chk MCP Server)") -> dict[str, Any]:
    return permission(OPTIONS, toolCallId="c", status="pending", title=title, content=content(arguments), locations=[],
                      kind="other")


async def test_geminis_mcp_tool_has_its_arguments_unless_one_could_replace_its_name() -> None:
    question, _ = await asked(GEMINI, gemini_mcp('{"name":"a"}'))
    assert inputs(question) == {"tool": "mark (chk MCP Server)", "arguments": {"name": "a"}}
    assert not question.described
    command = "mark (chk MCP Server)"
    for request in (gemini_mcp(msgspec.json.encode({"command": command}).decode(), command),
                    gemini_mcp('{"name":"a"}', "rm -rf x"), gemini_mcp("[Payload omitted due to length]")):
        assert (await asked(GEMINI, request))[0].described


async def test_geminis_edit_is_its_diff() -> None:
    request = permission(OPTIONS, toolCallId="c", title="Writing to a.txt", kind="edit", content=[DIFF],
                         locations=[{"path": "/w/a.txt"}])
    question, _ = await asked(GEMINI, request)
    assert (question.described, msgspec.json.decode(question.content_json or b"")) == (False, [DIFF])
    request["params"]["toolCall"]["locations"] = [{"path": "/w/other.txt"}]
    assert (await asked(GEMINI, request))[0].described, "the diff is of another file than the request names"


def kimi(command: str, shown: str, *, announced: str | None = None, tool: str = "Bash") -> list[dict[str, Any]]:
    return kimi_call(tool, {"command": announced or command}, shown, kind="execute")


def kimi_call(tool: str, arguments: dict[str, Any], shown: str, kind: str = "other") -> list[dict[str, Any]]:
    return [
        update(sessionUpdate="tool_call", toolCallId="0:c", title=tool, kind=kind, status="pending",
               content=content(msgspec.json.encode(arguments).decode())),
        permission(OPTIONS, toolCallId="0:c", title=tool, content=content(f"Requesting approval to {shown}")),
    ]


async def test_kimis_announced_arguments_are_the_effect_if_the_request_matches() -> None:
    for command, shown in (("ls", "Running: ls"), (LONG, f"Running: {LONG[:50]}…"), ("ls", "Starting background: ls")):
        question, _ = await asked(KIMI, *kimi(command, shown))
        assert (inputs(question), question.described, question.changed) == ({"command": command}, False, False)


@pytest.mark.parametrize(("tool", "arguments", "shown"), [
    ("CronCreate", {"cron": "0  0 1 1 *", "prompt": "do it"}, "Scheduling one-shot 0 0 1 1 *"),
    ("TaskStop", {"task_id": "bash-1"}, "Stopping task bash-1"),
    ("mcp__chk__mark", {"name": "a.txt"}, "Approve mcp__chk__mark"),
])  # fmt: skip
async def test_kimis_other_tools_are_their_announced_arguments(
    tool: str, arguments: dict[str, Any], shown: str
) -> None:
    question, _ = await asked(KIMI, *kimi_call(tool, arguments, shown))
    assert (inputs(question), question.described, question.title) == (arguments, False, tool)
    assert question.kind == "other"


@pytest.mark.parametrize("steps", [
    kimi("rm -rf x", "Running: rm -rf x", announced="ls"), kimi("ls", "Running: ls", tool="FetchURL"),
    kimi("ls", "Reading ls"), [kimi("ls", "Running: ls")[0], *kimi("ls", "Running: ls")],
    kimi_call("mcp__a__mark", {"name": "a"}, "Approve mcp__b__mark"), kimi_call("Unknown", {"x": "a"}, "a"),
    kimi_call("FetchURL", {"url": "https://a.example/"}, "Fetching: https://a.example/"),
    kimi_call("CronCreate", {"cron": "1 * * * *", "prompt": "x"}, "Scheduling cron 2 * * * *"),
    [kimi("ls", "Running: ls")[0], *kimi_call("Write", {"path": "ls"}, "Running: ls")[1:]],
])  # fmt: skip
async def test_kimis_request_that_does_not_match_or_repeats_its_id_is_only_described(
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


def open_code(command: str, began: dict[str, Any] | None, *, before: bool = False) -> list[dict[str, Any] | None]:
    """A command of OpenCode; its initial input arrives before its request, after it, or never."""
    reported = update(sessionUpdate="tool_call_update", toolCallId="c", title=command, kind="execute",
                      status="in_progress", rawInput=began)
    request = permission(OPTIONS, toolCallId="c", title=command, kind="execute", rawInput={"command": command})
    late = [] if began is None else [reported]
    return [update(sessionUpdate="tool_call", toolCallId="c", title="bash", kind="execute", status="pending",
                   rawInput={"cwd": "/w"}), *([*late, request] if before else [request, *late]), None]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("began", [
    {"command": "ls", "cwd": "/w", "description": "x"}, {"command": "ls", "workdir": "sub", "description": "x"}])
async def test_opencodes_command_has_its_working_directory(
    began: dict[str, Any], before: bool
) -> None:
    ends = update(sessionUpdate="tool_call_update", toolCallId="c", status="completed", rawInput=began)
    question, recorder = await asked(OPEN_CODE, *open_code("ls", began, before=before), ends)
    assert (inputs(question), question.described, question.changed) == (began, False, False)
    assert [compared(question, one) for one in recorder.ran] == [None]


@pytest.mark.parametrize(("title", "kind", "asked_for", "began"), [
    ("task", "think", {"description": "list"}, {"description": "list", "prompt": "rm -rf all", "subagent_type": "x"}),
    ("chk_mark", "other", {}, {"name": "a.txt"}),
    ("webfetch", "fetch", {"url": "http://a/", "format": "markdown"}, {"url": "http://a/"}),
])  # fmt: skip
async def test_opencodes_sub_agents_and_mcp_tools_show_the_input_that_follows_the_request(
    title: str, kind: str, asked_for: dict[str, Any], began: dict[str, Any]
) -> None:
    request = permission(OPTIONS, toolCallId="c", title=title, kind=kind, locations=[], rawInput=asked_for)
    begins = update(sessionUpdate="tool_call", toolCallId="c", title=title, kind=kind, status="pending", rawInput={})
    follows = update(sessionUpdate="tool_call_update", toolCallId="c", title=title, kind=kind, status="in_progress",
                     rawInput=began)
    for steps in ([begins, request, follows, None], [request, begins, follows, None]):
        question, _ = await asked(OPEN_CODE, *steps)
        assert (inputs(question), question.described, question.changed) == ({**began, **asked_for}, False, False)


@pytest.mark.req("H-3")
async def test_opencodes_request_without_following_input_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "INPUT_WAIT_S", 0.01)
    question, _ = await asked(OPEN_CODE, *open_code("ls", None))
    assert (inputs(question), question.described) == ({"command": "ls"}, True), "its directory is not known"
    assert compared(question, b'{"command":"ls","workdir":"sub"}') is None
    assert compared(question, b'{"command":"rm -rf x","workdir":"sub"}') == "RAN_OTHER_THAN_ALLOWED"


async def test_opencodes_command_with_an_id_announced_twice_is_described() -> None:
    steps = open_code("ls", {"command": "ls", "cwd": "/w"}, before=True)
    question, _ = await asked(OPEN_CODE, steps[0], *steps)
    assert (inputs(question), question.described) == ({"command": "ls"}, True)


async def test_opencodes_request_is_asked_once_its_whole_input_has_arrived() -> None:
    name, version = OPEN_CODE
    reader = reader_of(Implementation(name, version=version))
    session_updates = updates.AcpUpdates(SESSION, Choices(LoadedSession()), Tokens(""), reader, "/w")
    recorder = QuestionRecorder()
    began = {"command": "ls", "workdir": "sub"}
    first, request, report = [step for step in open_code("ls", began) if step is not None]
    session_updates.begin(recorder)
    await session_updates.take(msgspec.json.encode(first["params"]))
    inquiry = await session_updates.inquiry(request["method"], msgspec.json.encode(request["params"]))
    assert inquiry is not None
    replying = asyncio.create_task(inquiry.reply())
    for _ in range(10):
        await asyncio.sleep(0)
    assert recorder.questions == [], "the directory is not known yet"
    await session_updates.take(msgspec.json.encode(report["params"]))
    await replying
    assert [inputs(one) for one in recorder.questions] == [began]


async def test_opencodes_directory_request_is_separate_and_leaves_the_command_unchanged() -> None:
    began = {"command": "ls", "workdir": "/etc"}
    first, *rest, _ = open_code("ls", began, before=True)
    own = {"command": "ls", "directories": ["/etc"], "patterns": ["/etc/*"]}
    elsewhere = permission(OPTIONS, toolCallId="c", title="ls", kind="other", rawInput=own)
    question, recorder = await asked(OPEN_CODE, first, rest[0], elsewhere, None, rest[1], None)
    assert [inputs(one) for one in recorder.questions] == [own, began]
    assert (question.described, question.changed) == (False, False)


def codex_edit(*diffs: dict[str, Any], paths: list[str]) -> list[dict[str, Any]]:
    return [update(sessionUpdate="tool_call", toolCallId="c", kind="edit", title="Editing files", status="in_progress",
                   content=list(diffs)),
            permission(OPTIONS, toolCallId="c", title="Edit files", kind="edit", status="pending",
                       locations=[{"path": path} for path in paths])]


def codex_diff(path: str, old: str | None, new: str, kind: str = "update") -> dict[str, Any]:
    return {"type": "diff", "oldText": old, "newText": new, "path": path, "_meta": {"kind": kind}}


async def test_codex_acps_file_change_shows_the_announced_diffs() -> None:
    diffs = [codex_diff("/w/a", "one\n", "two\n"), codex_diff("/w/a", "x\n", "y\n"),
             codex_diff("/w/b", None, "new\n", "add")]
    question, _ = await asked(CODEX, *codex_edit(*diffs, paths=["/w/a", "/w/b"]))
    assert (question.described, question.locations) == (False, ("/w/a", "/w/b"))
    assert msgspec.json.decode(question.content_json or b"") == diffs
    assert facts(AgentRequest(question.input_json, "/w", question.title, question.locations, question.content_json)
                 ).paths == ("a", "b")


@pytest.mark.parametrize(("diffs", "paths"), [
    ([codex_diff("/w/new", "a\n", "b\n")], ["/w/old"]),
    ([codex_diff("/w/b", "a\n", "c\n"), codex_diff("/w/a", "b\n", "d\n")], ["/w/a", "/w/b"]),
    ([codex_diff("/w/a", "a\n", "b\n")], ["/w/a", "/w/large"]),
    ([codex_diff("/w/a", "a\n", "", "delete")], ["/w/a"]), ([], ["/w/a"]),
])  # fmt: skip
async def test_codex_acps_changes_without_a_diff_are_described_with_the_shown_text(
    diffs: list[dict[str, Any]], paths: list[str]
) -> None:
    question, _ = await asked(CODEX, *codex_edit(*diffs, paths=paths))
    assert (question.described, msgspec.json.decode(question.content_json or b"[]")) == (True, diffs)


def codex_mcp(call_id: str, name: str, server: str = "chk") -> dict[str, Any]:
    return update(sessionUpdate="tool_call", toolCallId=call_id, kind="execute", title=f"mcp.{server}.mark",
                  status="in_progress", rawInput={"server": server, "tool": "mark", "arguments": {"name": name}})


async def test_codex_acps_mcp_tool_is_the_announced_call_if_only_one_matches() -> None:
    request = permission(OPTIONS, toolCallId="c", kind="execute", status="pending")
    question, _ = await asked(CODEX, codex_mcp("c", "a"), codex_mcp("d", "b", "other"), request)
    assert inputs(question) == {"server": "chk", "tool": "mark", "arguments": {"name": "a"}}
    assert (question.described, question.title) == (False, "mcp.chk.mark")
    assert (await asked(CODEX, codex_mcp("c", "a"), codex_mcp("d", "b"), request))[0].described
    assert (await asked(CODEX, request))[0].described


async def test_hermes_edit_shows_its_arguments_and_its_command_has_no_directory() -> None:
    arguments = {"path": "/w/a", "content": "x"}
    edit = permission(OPTIONS, toolCallId="edit-approval-1", title="Approve edit: /w/a", kind="edit",
                      content=[{"type": "diff", "path": "/w/a", "newText": "x"}],
                      rawInput={"tool": "write_file", "arguments": arguments})
    question, _ = await asked(HERMES, edit)
    assert (inputs(question), question.described) == (arguments, False)
    command = permission(OPTIONS, toolCallId="perm-check-1", title="delete: rm -rf x", kind="execute",
                         rawInput={"command": "rm -rf x", "description": "delete"})
    assert (await asked(HERMES, command))[0].described


def test_a_rephrased_report_is_the_same_act_and_another_act_is_not() -> None:
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


async def test_opencodes_command_that_differs_from_the_announced_one_is_changed() -> None:
    question, _ = await asked(OPEN_CODE, *open_code("rm -rf x", {"command": "ls", "cwd": "/w"}, before=True))
    assert (inputs(question), question.changed, question.described) == ({"command": "rm -rf x"}, True, True)


def compared(question: AgentQuestion, ran: bytes) -> str | None:
    """The code of the report that the runner would make of what ran."""
    call = AnnouncedCall("c", 0)
    call.asked, call.kind = True, question.kind
    yes = allowed_input(question, InteractionAnswer(True, "once"))
    call.allowed.append(Allowed(yes, question.content_json, question.described))
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
async def test_opencodes_edit_runs_as_another_input_with_the_same_effect(
    ran: dict[str, Any], code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "INPUT_WAIT_S", 0.01)  # It reports nothing more.
    request = permission(OPTIONS, toolCallId="c", title="/w/a.txt", kind="edit", content=[DIFF],
                         locations=[{"path": "/w/a.txt"}], rawInput={"filepath": "/w/a.txt", "diff": "Index: a\n"})
    question, _ = await asked(OPEN_CODE, request)
    assert compared(question, msgspec.json.encode(ran)) == code


@pytest.mark.parametrize(("agent", "steps"), [
    (GEMINI, [gemini_shell("ls")]), (KIMI, kimi("ls", "Running: ls")), (OPEN_CODE, open_code("ls", None)[:-1]),
    (CODEX, codex_edit(codex_diff("/w/a", "a", "b"), paths=["/w/a"])),
])  # fmt: skip
async def test_a_version_that_was_not_tested_is_accepted_as_is(
    agent: tuple[str, str], steps: list[dict[str, Any]]
) -> None:
    question, _ = await asked(agent, *steps, version="99.0")
    own = steps[-1]["params"]["toolCall"].get("rawInput")
    assert (inputs(question), question.described) == (own or {}, own is None)
    assert steps[-1]["params"]["sessionId"] == SESSION
