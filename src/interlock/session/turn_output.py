"""A turn's output, folded from its frames into the `output` of a command's result (racp section 1)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import KIB
from interlock.protocol.resources import Notice, Output, TokenCount, ToolCall
from interlock.session.silence import SILENT, judge

MAX_RESULT_BYTES = 256 * KIB
"""Text kept in a result; the rest stays in the session's frames, and the result states it."""


ENTRY_BYTES = 64
"""What a call, a tool's output or a piece of text counts for besides its text: an agent may make any number of empty
ones."""
OUTPUT = "output"
"""Purpose of a file that is a part of the agent's answer."""
MAX_TOOL_DIGESTS = 100
"""Number of a turn's tool outputs whose digests its command's audit record has; it counts the others."""
_canonical = msgspec.json.Encoder(order="sorted").encode
MAX_FILE_NOTICES = 20
"""Number of files that a result lists as omitted; the session's list has all of them."""
MAX_DENIALS = 50
"""The newest denials that a command keeps; the audit log has all of them."""


class DeniedCall(NamedTuple):
    """A call that its runner denied without asking the gateway."""

    invocation_id: str
    tool_name: str
    title: str
    reason: str | None


class TurnFold:
    """A fold over one turn's durable frames. A snapshot and its tail yield the same as all frames: after a restart the
    turn's events are replayed to it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a new turn."""
        self._messages: list[dict[str, Any]] = []
        self._tool_calls: list[ToolCall] = []
        self._running: dict[str, str] = {}
        self._bytes = 0
        self._cut = False
        self._left_out: list[p.FileTransfer] = []
        """Omitted files, without their content."""
        self._silent = False
        self.usage: p.Usage | None = None
        self._digests: list[dict[str, str]] = []
        self._digests_left_out = 0
        self._titles: dict[str, str] = {}
        """Titles of the open calls without a question."""
        self._warned: str | None = None
        self.refused: list[DeniedCall] = []
        """Calls that were denied without a question, each with the warning before its result: a runner explains its own
        denials so."""

    def digests(self, output: Output) -> dict[str, Any]:
        """Return the digests of a command's outputs for its audit record (U-1), so that the outputs can be proved.

        `output_digest` is the SHA-256 of `result.output.output` as JSON with sorted names and without blanks;
        `tool_outputs` has the SHA-256 of each tool's whole output, including those that did not fit a result.
        """
        found: dict[str, Any] = {"output_digest": hashlib.sha256(_canonical(output.output)).hexdigest()}
        if self._digests:
            found["tool_outputs"] = list(self._digests)
        if self._digests_left_out:
            found["tool_outputs_left_out"] = self._digests_left_out
        return found

    def feed(self, frame: Frame) -> None:
        """Process one durable frame of the turn."""
        payload = frame.payload
        match payload:
            case p.TextDone() if frame.type == "agent.text.done":
                self._text(payload.text, continues=bool(frame.metadata.get("continues")),
                           silent=frame.metadata.get(SILENT) is True)
            case p.ToolRequest():
                self._running[payload.invocation_id] = payload.tool_name
                self._titles[payload.invocation_id] = payload.title or ""
                self._warned = None
                if self._room(len(payload.input) + len(payload.invocation_id) + len(payload.tool_name)):
                    self._tool_calls.append(ToolCall(toolCallId=payload.invocation_id, name=payload.tool_name,
                                                     arguments=_arguments(payload.input)))
            case p.ToolResult():
                self._tool(payload)
            case p.InteractionRequest():
                self._titles.pop(payload.context.invocation_id or "", None)
            case p.AgentError() if payload.severity == "warning":
                self._warned = payload.message
            case p.FileTransfer():
                self._file(payload)
            case p.Usage():
                self.usage = payload
            case _:
                pass

    def _text(self, text: str, *, continues: bool, silent: bool) -> None:
        if not continues:
            self._silent = silent or judge(text, ended=True) == "silent"
        if self._silent or not text or not self._room(len(text)):
            return
        self._add_part({"contentType": "text", "value": text})

    def _file(self, file: p.FileTransfer) -> None:
        """Add a file in one piece to the result if it fits; otherwise add a note about it."""
        if file.chunk is not None and file.chunk.index > 0:
            return
        if file.purpose != OUTPUT:
            return
        whole = file.chunk is None or file.chunk.count == 1
        if not whole or (file.size and not file.content) or not self._fits(len(file.content)):
            if len(self._left_out) < MAX_FILE_NOTICES:
                self._left_out.append(msgspec.structs.replace(file, content=""))
            return
        self._bytes += len(file.content)
        kind = file.media_type.partition("/")[0]
        self._add_part({"contentType": kind if kind in ("image", "audio", "video") else "file", "value": {
            "encoding": "base64", "data": file.content, "media_type": file.media_type, "sha256": file.sha256,
            "name": file.name}})

    def _add_part(self, part: dict[str, Any]) -> None:
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == "assistant":
            last["content"].append(part)
        else:
            self._messages.append({"role": "assistant", "content": [part]})

    def _fits(self, size: int) -> bool:
        return self._bytes + size <= MAX_RESULT_BYTES

    def _tool(self, result: p.ToolResult) -> None:
        text = result.output if isinstance(result.output, str) else msgspec.json.encode(result.output).decode()
        name = self._running.pop(result.invocation_id, "")
        title, warned, self._warned = self._titles.pop(result.invocation_id, None), self._warned, None
        if result.status == "denied" and title is not None and len(self.refused) < MAX_DENIALS:
            self.refused.append(DeniedCall(result.invocation_id, name, title or name, warned))
        if len(self._digests) < MAX_TOOL_DIGESTS:
            self._digests.append({"invocation_id": result.invocation_id, "status": result.status,
                                  "digest": hashlib.sha256(text.encode()).hexdigest()})
        else:
            self._digests_left_out += 1
        if self._room(len(text) + len(name) + len(result.invocation_id)):
            self._messages.append({"role": "tool", "name": name, "toolCallId": result.invocation_id,
                                   "status": result.status, "content": [{"contentType": "text", "value": text}]})

    def _room(self, size: int) -> bool:
        if self._bytes + size + ENTRY_BYTES > MAX_RESULT_BYTES:
            self._cut = True
            return False
        self._bytes += size + ENTRY_BYTES
        return True

    def output(
        self, session_id: str, notices: list[Notice], *, exit_code: int | None = None, awaiting_input: bool = False
    ) -> Output:
        """Return the result's current output."""
        shown = list(notices)
        if self._cut:
            shown.append(Notice(code="Truncated", message="The result is longer than a result may be; "
                                      "the session's frames hold all of it."))
        shown += [Notice(code="Truncated", message=f"The file {file.name[:80]} ({file.media_type}, {file.size} bytes) "
                        f"is not in the result; fetch it at /v1/sessions/{session_id}/files/{file.transfer_id}.")
                        for file in self._left_out]
        usage = None
        if self.usage is not None:
            tokens = self.usage.token_usage
            usage = TokenCount(promptTokens=tokens.input_tokens, completionTokens=tokens.output_tokens,
                               totalTokens=tokens.input_tokens + tokens.output_tokens)
        return Output(output=self._messages, session_id=session_id, usage=usage, tool_calls=self._tool_calls,
                      exit_code=exit_code, awaiting_input=awaiting_input, notices=shown)


def _arguments(arguments: msgspec.Raw) -> msgspec.Raw:
    """Return a tool's input as an object, as llm-bridge-spec requires of arguments. Another value is wrapped in one, as
    `input`."""
    raw = bytes(arguments)
    return arguments if raw.lstrip()[:1] == b"{" else msgspec.Raw(b'{"input":' + raw + b"}")
