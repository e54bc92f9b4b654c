"""Messages in both directions by the published types of llm-bridge-spec, as `.ci/install-agents` installs them
(C-0)."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from engine.messages import ACCEPTED, BYTES
from installed import require
from interlock.protocol import payloads as p
from interlock.protocol.resources import CommandBody, Target
from interlock.session.transfers import File, chunks

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-0")]
COMPILER = "typescript/bin/tsc"
SPECIFICATION = "llm-bridge-spec/dist/index.d.ts"

TYPES = """
import type { AssistantMessage, LlmUsage, Message, ToolCall, ToolMessage, UserMessage } from "llm-bridge-spec";
import type { Readable } from "node:stream";

// A Buffer or a stream is not JSON: its bytes travel in Interlock's form, or as JSON.stringify writes a Buffer.
type Base64 = { encoding: "base64"; data: string; media_type?: string; sha256?: string; name?: string };
type Sent<T> = T extends Buffer | Readable ? Base64 | ReturnType<Buffer["toJSON"]>
  : T extends (infer E)[] ? Sent<E>[]
  : T extends object ? { [K in keyof T]: Sent<T[K]> }
  : T;

type Answer = Sent<AssistantMessage> | (Sent<ToolMessage> & { status: "ok" | "error" | "denied" | "cancelled" });
type Output = {
  output: Answer[]; session_id: string; usage?: LlmUsage; tool_calls?: ToolCall[]; exit_code?: number;
  awaiting_input?: boolean; notices?: { code: string; message: string }[];
};

// Whoever reads Message reads what Interlock answers.
export const readable = (output: Output): Sent<Message>[] => output.output;
"""

FAULTS = """
// @ts-expect-error An answer of a tool names the tool.
export const nameless: Sent<ToolMessage> = { role: "tool", toolCallId: "i1", content: [] };
// @ts-expect-error There is no such role.
export const stranger: Sent<Message> = { role: "bot", content: [] };
// @ts-expect-error Bytes are no plain string.
export const plain: Sent<UserMessage> = { role: "user", content: [{ contentType: "image", value: "AAEC" }] };
// @ts-expect-error Arguments are an object.
export const bare: ToolCall = { toolCallId: "i1", name: "shell", arguments: "ls" };
"""


@pytest.fixture
def packages() -> Path:
    """The directory that holds llm-bridge-spec, typescript and @types/node."""
    return require("llm-bridge")


def constant(number: int, name: str, type_name: str, value: Any) -> str:
    return f"// {name}\nexport const c{number}: {type_name} = {json.dumps(value)};\n"


def compiled(source: str, packages: Path, place: Path) -> str:
    """The compiler's messages for a source; empty if it is valid."""
    (place / "node_modules").symlink_to(packages.resolve())
    (place / "messages.ts").write_text(source, encoding="utf-8")
    # The package's own list of entry points names no types for an import, so the path is given here.
    options = {"strict": True, "noEmit": True, "target": "es2022", "module": "nodenext", "types": ["node"],
               "paths": {"llm-bridge-spec": [f"./node_modules/{SPECIFICATION}"]}}
    (place / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["messages.ts"]}))
    ran = subprocess.run(["node", packages / COMPILER, "-p", place], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr + (f"exit {ran.returncode}" if ran.returncode else "")


async def answered() -> Any:
    """The output of a command whose agent spoke, used tools in every way, and gave files."""
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="I look."))
    for number, (tool_input, status) in enumerate(
        (({"command": "ls"}, "ok"), ("ls", "error"), (["ls"], "denied"), ({}, "cancelled"))
    ):
        invocation = f"i{number}"
        await table.send(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id=invocation, turn_id="t1", tool_name="shell", title="ls",
            input=msgspec.Raw(msgspec.json.encode(tool_input))))
        await table.result(session_id, "a b", status, invocation)
    for kind in ("image/png", "audio/wav", "video/mp4", "text/csv"):
        [file] = chunks(kind, File("a", kind, BYTES, "output"))
        await table.send(session_id, "agent.file.transfer", file)
    await table.ended(session_id, "awaiting_input", exit_code=0)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.result is not None
    return json.loads(msgspec.json.encode(record.command.result.output))


async def test_every_accepted_form_and_every_result_has_the_published_types(
    packages: Path, tmp_path: Path
) -> None:
    output = await answered()
    source = TYPES + FAULTS
    for number, (name, messages) in enumerate(ACCEPTED.items()):
        source += constant(number, name, "Sent<UserMessage>[]", messages)
    source += constant(len(ACCEPTED), "what a result holds", "Output", output)
    assert compiled(source, packages, tmp_path) == ""


async def test_forms_that_compile_are_the_accepted_forms() -> None:
    table = Table()
    for messages in ACCEPTED.values():
        payload = msgspec.json.encode({"messages": messages})
        body = CommandBody(type="execute", target=Target(agent_id="shell"), payload=msgspec.Raw(payload))
        assert (await table.engine.submit(OWNER, body, remember)).state == "queued"


async def test_a_result_has_text_tool_calls_and_files_in_the_published_types() -> None:
    output = await answered()
    message, *tools, files = output["output"]
    assert message == {"role": "assistant", "content": [{"contentType": "text", "value": "I look."}]}
    assert [(one["role"], one["name"], one["toolCallId"], one["status"]) for one in tools] == [
        ("tool", "shell", "i0", "ok"), ("tool", "shell", "i1", "error"), ("tool", "shell", "i2", "denied"),
        ("tool", "shell", "i3", "cancelled")]
    assert [part["contentType"] for part in files["content"]] == ["image", "audio", "video", "file"]
    assert {base64.b64decode(part["value"]["data"]) for part in files["content"]} == {BYTES}
    # Arguments are an object by their type: other values of an agent are wrapped in one.
    assert [call["arguments"] for call in output["tool_calls"]] == [
        {"command": "ls"}, {"input": "ls"}, {"input": ["ls"]}, {}]
    assert output["usage"] == {"promptTokens": 3, "completionTokens": 5, "totalTokens": 8}
    assert (output["awaiting_input"], output["exit_code"]) == (True, 0)
