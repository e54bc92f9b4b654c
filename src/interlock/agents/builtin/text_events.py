"""Merge consecutive pieces of text in a model's stream of events into one event, as if the model had sent it. Pure.

Each event costs the provider's library far more than its text does. Only events that have arrived together and differ
in nothing but their text are merged; every other byte of the stream is unchanged.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

import msgspec

from interlock.protocol.limits import MIB

MAX_EVENT_BYTES = MIB
"""A longer event is not buffered: from there on the stream is passed through unchanged."""
_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")
_EVENT = re.compile(rb"(event:[^\r\n]*\r?\n)?data:([^\r\n]*)\r?\n\r?\n")
"""The supported form: an optional name, and one line of data."""
_TAG = re.compile(r"\s*<[^<>]*>\s*")
"""A marker such as <think> has a meaning for pydantic-ai only in an event of its own."""
_BLOCK_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_RESPONSE_TEXTS = frozenset({
    "response.output_text.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta"})
_CHAT_TEXTS = ("content", "reasoning_content", "reasoning")
_PADDING = "obfuscation"
"""OpenAI pads its events with random letters, so that their sizes reveal nothing about the text."""
_NUMBER = "sequence_number"

Json = dict[str, Any]


class _TextPlace(NamedTuple):
    """The location of an event's text."""

    holder: Json
    key: str


def _text_place(event: Json) -> _TextPlace | None:
    """Find the text of an event that has no other content; None for every other one."""
    kind = event.get("type")
    if kind == "content_block_delta":
        delta = _object(event.get("delta"))
        key = _BLOCK_TEXTS.get(str(delta.get("type")))
        return _TextPlace(delta, key) if key is not None and len(delta) == 2 else None
    if kind in _RESPONSE_TEXTS:
        return None if event.get("logprobs") else _TextPlace(event, "delta")
    return _chat_place(event) if event.get("object") == "chat.completion.chunk" else None


def _chat_place(event: Json) -> _TextPlace | None:
    choices = event.get("choices")
    if event.get("usage") or not isinstance(choices, list) or len(choices := cast("list[Any]", choices)) != 1:
        return None
    choice = _object(choices[0])
    if choice.get("finish_reason") or choice.get("logprobs"):
        return None
    delta = _object(choice.get("delta"))
    found = [key for key, value in delta.items() if value and key != "role"]
    return _TextPlace(delta, found[0]) if len(found) == 1 and found[0] in _CHAT_TEXTS else None


def _object(value: Any) -> Json:
    """Return an object itself, since its text is removed from it; an empty one for anything else."""
    return cast("Json", value) if isinstance(value, dict) else {}


class _TextRun:
    """Events that may be merged: the first, without its text, and all their texts."""

    __slots__ = ("_block", "_event", "_name", "_number", "_place", "_texts")

    def __init__(self, block: bytes, name: bytes, event: Json, place: _TextPlace, text: str) -> None:
        self._block = block
        self._name = name
        self._event = event
        self._place = place
        self._texts = [text]
        self._number: Any = event.pop(_NUMBER, None)

    @classmethod
    def of(cls, block: bytes) -> _TextRun | None:
        """Parse one event with the blank line after it; None if it cannot be merged."""
        found = _EVENT.fullmatch(block)
        if found is None:
            return None
        try:
            event = _object(msgspec.json.decode(found[2]))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        place = _text_place(event)
        text = place.holder.pop(place.key, None) if place is not None else None
        if place is None or not isinstance(text, str) or not text or _TAG.fullmatch(text) is not None:
            return None
        event.pop(_PADDING, None)
        return cls(block, found[1] or b"", event, place, text)

    @property
    def begins(self) -> bool:
        """Return whether others may follow: pydantic-ai itself must drop the blanks before the first word."""
        return not self._texts[0].isspace()

    def takes(self, other: _TextRun) -> bool:
        """Merge the next event; return False, without a change, if it differs in more than its text."""
        if self._name != other._name or self._place.key != other._place.key or self._event != other._event:
            return False
        self._texts += other._texts
        self._number = other._number
        return True

    def written(self) -> bytes:
        """Return the merged event; a single one unchanged."""
        if len(self._texts) == 1:
            return self._block
        self._place.holder[self._place.key] = "".join(self._texts)
        if self._number is not None:
            self._event[_NUMBER] = self._number
        return self._name + b"data: " + msgspec.json.encode(self._event) + b"\n\n"


class TextEvents:
    """A stream of events: buffers its input, and returns what can be passed on."""

    def __init__(self) -> None:
        self._held = b""
        """The beginning of an event; no reader can use it before its end."""
        self._passing = False

    def feed(self, received: bytes) -> bytes:
        """Accept input, and return the events that are complete, consecutive text merged."""
        if self._passing:
            return received
        data, at, run = self._held + received, 0, None
        written: list[bytes] = []
        for blank in _BLANK_LINE.finditer(data):
            block = data[at:blank.end()]
            at = blank.end()
            following = _TextRun.of(block)
            if run is not None and following is not None and run.takes(following):
                continue
            if run is not None:
                written.append(run.written())
            run = following if following is not None and following.begins else None
            if run is None:
                written.append(block)
        if run is not None:
            written.append(run.written())
        self._held = data[at:]
        if len(self._held) > MAX_EVENT_BYTES:
            self._passing = True
            written.append(self.rest())
        return b"".join(written)

    def rest(self) -> bytes:
        """Return the buffered rest, at the end of the stream."""
        held, self._held = self._held, b""
        return held
