"""Checks of a command's payload (llm-bridge-spec messages), and its conversion to a prompt (racp section 1)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from interlock.protocol.integers import decode_whole
from interlock.protocol.limits import (
    MAX_COMMAND_BINARY_BYTES,
    MAX_CONTENT_PARTS,
    MAX_INLINE_BINARY_BYTES,
    MAX_PROMPT_BYTES,
)
from interlock.protocol.payloads import PromptRequest
from interlock.protocol.problems import Place, Problem, malformed
from interlock.protocol.resources import Binary, ContentPart, ExecutePayload, NodeBuffer
from interlock.session.transfers import TransferRefused, carried

NO_ID = "00000000-0000-4000-8000-000000000000"
"""A placeholder for a transfer's id while a prompt's size is checked."""

SHORT_PROMPT_CHARS = (MAX_PROMPT_BYTES - 2) // 6
"""A text of this length fits a prompt, since no character takes more than six bytes in JSON."""

TITLE_CHARS = 80
"""Maximum length of a session's title, which is the start of its first prompt if it has no name."""

_decoder = msgspec.json.Decoder(ExecutePayload)


def first_line(payload: ExecutePayload) -> str:
    """Return the first line of a prompt that is not blank, as a title of at most `TITLE_CHARS` characters; empty if the
    prompt has no text (Y-8)."""
    texts = (part.value for message in payload.messages for part in message.content
             if part.contentType == "text" and isinstance(part.value, str))
    return _title(texts)


def first_line_of_entries(lines: Iterable[bytes]) -> str:
    """Return the first line that a person wrote in a transcript's entries, in the form of `first_line`; empty if there
    is none."""
    return _title(text for line in lines for text in _texts_of_a_person(line))


class _TextPart(msgspec.Struct):
    text: str = ""


class _PersonsMessage(msgspec.Struct, tag_field="role", tag="user"):
    content: str | list[_TextPart]


class _PersonsEntry(msgspec.Struct, tag_field="type", tag="message"):
    message: _PersonsMessage


_persons_entry = msgspec.json.Decoder(_PersonsEntry)


def _texts_of_a_person(line: bytes) -> list[str]:
    try:
        content = _persons_entry.decode(line).message.content
    except msgspec.DecodeError:  # Of an agent, of a tool, or another kind of entry.
        return []
    return [content] if isinstance(content, str) else [part.text for part in content]


def _title(texts: Iterable[str]) -> str:
    line = next((" ".join(line.split()) for text in texts for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def title_of_payload(raw: bytes) -> str:
    """Return the title of a command's payload as it is stored; empty if it is not a prompt."""
    try:
        return first_line(_decoder.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def read_payload(raw: bytes) -> ExecutePayload:
    """Decode an execute's payload. Raises Problem InvalidPayload naming the place."""
    try:
        try:
            payload = _decoder.decode(raw)
        except msgspec.ValidationError:
            payload = decode_whole(_decoder.decode, raw)
    except msgspec.ValidationError as error:
        raise _mismatch("/payload", error) from None
    except msgspec.DecodeError as error:
        raise malformed("/payload", f"not JSON: {error}") from None
    if payload.land:
        return _landing(payload)
    if not payload.messages:
        raise malformed("/payload/messages", "there is no message")
    blank = True
    for index, message in enumerate(payload.messages):
        if not message.content:
            raise malformed(f"/payload/messages/{index}/content", "the message has no content")
        for part in message.content:
            blank = blank and part.contentType == "text" and isinstance(part.value, str) and not part.value.strip()
    if blank:
        raise malformed("/payload/messages", "every message is empty")
    return payload


def _landing(payload: ExecutePayload) -> ExecutePayload:
    """Return the payload of a command that only lands staged changes. Raises Problem if it contains more."""
    if payload != ExecutePayload(messages=[], land=True):
        raise malformed("/payload", "a payload with `land` has an empty list of messages, and nothing else",
                        hint="Ask the agent by a command of its own; its turn asks about landing by itself.")
    return payload


def check_prompt(payload: ExecutePayload) -> None:
    """Check whether a payload can be a prompt. Raises Problem. A short text without blocks always can."""
    length = 0
    for message in payload.messages:
        for part in message.content:
            if part.contentType != "text" or not isinstance(part.value, str):
                prompt_of(payload)
                return
            length += len(part.value) + 1
    if length > SHORT_PROMPT_CHARS:
        prompt_of(payload)


def prompt_content(raw: bytes) -> PromptRequest:
    """Convert a payload to the content of `control.prompt.request`: text, or blocks. Raises Problem."""
    return prompt_of(read_payload(raw))


def prompt_of(payload: ExecutePayload) -> PromptRequest:
    """Do what `prompt_content` does, with a payload that is already decoded. Raises Problem."""
    if payload.land:
        return PromptRequest(prompt_id="", input_type="landing", origin="user")
    parts = [(f"/payload/messages/{m}/content/{c}", part)
             for m, message in enumerate(payload.messages) for c, part in enumerate(message.content)]
    if len(parts) > MAX_CONTENT_PARTS and any(part.contentType != "text" for _, part in parts):
        raise malformed("/payload/messages", f"{len(parts)} parts, the limit is {MAX_CONTENT_PARTS}")
    total = 0
    blocks: list[dict[str, Any]] = []
    for pointer, part in parts:
        block, size = _block(pointer, part)
        total += size
        blocks.append(block)
    if total > MAX_COMMAND_BINARY_BYTES:
        raise malformed("/payload/messages",
                        f"binary content takes {total} bytes, the limit is {MAX_COMMAND_BINARY_BYTES}")
    if all(block["type"] == "text" for block in blocks):
        text = "\n".join(block["text"] for block in blocks)
        prompt = PromptRequest(prompt_id="", input_type="text", origin="user", text=text)
    else:
        prompt = PromptRequest(prompt_id="", input_type="blocks", origin="user", content=blocks)
    prompt = msgspec.structs.replace(prompt, mode=payload.mode, model=payload.model, options=payload.options or None,
                                     system_append=payload.system_append)
    try:
        carried(prompt, lambda: NO_ID)
    except TransferRefused as refused:
        raise malformed("/payload/messages", str(refused)) from None
    return prompt


def _block(pointer: str, part: ContentPart) -> tuple[dict[str, Any], int]:
    if part.contentType == "text":
        if not isinstance(part.value, str):
            raise malformed(f"{pointer}/value", "a text part's value is a string")
        return {"type": "text", "text": part.value}, 0
    data, media_type, name = _binary(f"{pointer}/value", part.value)
    if len(data) > MAX_INLINE_BINARY_BYTES:
        raise malformed(f"{pointer}/value", f"{len(data)} bytes inline, the limit is {MAX_INLINE_BINARY_BYTES}")
    encoded = base64.b64encode(data).decode()
    named = {"name": name} if name else {}
    return {"type": part.contentType, "data": encoded, "media_type": media_type, **named}, len(data)


def _binary(pointer: str, value: Any) -> tuple[bytes, str, str | None]:
    try:
        if isinstance(value, dict) and "type" in value:
            return bytes(msgspec.convert(value, NodeBuffer).data), "application/octet-stream", None
        binary = msgspec.convert(value, Binary)
        data = binascii.a2b_base64(binary.data.encode(), strict_mode=True)
    except msgspec.ValidationError as error:
        raise _mismatch(pointer, error) from None
    except binascii.Error:
        raise malformed(f"{pointer}/data", "is not base64") from None
    if binary.sha256 is not None and hashlib.sha256(data).hexdigest() != binary.sha256.lower():
        raise malformed(f"{pointer}/sha256", "does not match the data")
    return data, binary.media_type or "application/octet-stream", binary.name


def _mismatch(root: str, error: msgspec.ValidationError) -> Problem:
    """Return the problem of a value that violates its schema, with the place that msgspec names below `root`."""
    sentence, _, path = str(error).partition(" - at ")
    pointer = root + path.strip("`").removeprefix("$").replace("[", "/").replace("]", "").replace(".", "/")
    return Problem("InvalidPayload", f"{sentence} at {pointer}", errors=(Place(pointer, sentence),))
