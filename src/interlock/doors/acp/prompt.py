"""Convert an editor's prompt to a command's payload, and back (O-3). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from interlock.protocol import payloads as p
from interlock.protocol.resources import ContentPart, ExecutePayload, UserMessage

MAX_COMMAND_WORD_CHARS = 32


def payload_of(blocks: Sequence[Any], chosen: Mapping[str, str]) -> ExecutePayload:
    """Return the payload for ACP content blocks, with the editor's choices. Raises ValueError with a sentence for a
    prompt without content."""
    parts = [part for block in blocks if isinstance(block, dict) for part in _parts(cast("dict[str, Any]", block))]
    if not parts:
        raise ValueError("The prompt is empty. Write what the agent is to do.")
    return ExecutePayload(messages=[UserMessage(role="user", content=parts)], mode=chosen.get("mode"),
                          model=chosen.get("model"),
                          options={"thinking": chosen["thinking"]} if "thinking" in chosen else {})


def slash_command(blocks: Sequence[Any]) -> tuple[str, str] | None:
    """Return the name and the argument of a prompt that is one line `/name argument`; None for any other prompt."""
    texts = [cast("dict[str, Any]", block).get("text") for block in blocks if isinstance(block, dict)]
    if len(blocks) != 1 or not isinstance(texts[0], str) or not texts[0].startswith("/") or "\n" in texts[0].strip():
        return None
    name, _, argument = texts[0][1:].strip().partition(" ")
    return (name, argument.strip()) if 0 < len(name) <= MAX_COMMAND_WORD_CHARS else None


def user_blocks(prompt: p.PromptRequest) -> Iterator[dict[str, Any]]:
    """Return the text blocks of a prompt that another client sent, for `user_message_chunk`."""
    if prompt.text is not None:
        yield {"type": "text", "text": prompt.text}
    for block in prompt.content or ():
        if isinstance(block.get("text"), str):
            yield {"type": "text", "text": block["text"]}
        else:
            yield {"type": "text", "text": f"[{block.get('type', 'file')}: {block.get('name', 'attached')}]"}


def _parts(block: dict[str, Any]) -> Iterator[ContentPart]:
    match block.get("type"):
        case "text":
            if text := str(block.get("text") or ""):
                yield ContentPart(contentType="text", value=text)
        case "image" | "audio" as kind:
            yield ContentPart(contentType=kind, value=_binary(block.get("data"), block.get("mimeType"), kind))
        case "resource_link":
            yield ContentPart(contentType="text", value=f"[{block.get('name') or 'file'}]({block.get('uri')})")
        case "resource":
            yield from _resource(block.get("resource"))
        case unknown:
            raise ValueError(f"The prompt has a content block of type {unknown!r}, which is not one of ACP's. "
                             "Send text, image, audio, resource or resource_link.")


def _resource(value: Any) -> Iterator[ContentPart]:
    resource = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    uri = str(resource.get("uri") or "file")
    if isinstance(resource.get("text"), str):
        yield ContentPart(contentType="text", value=f"<context uri={uri!r}>\n{resource['text']}\n</context>")
    elif isinstance(resource.get("blob"), str):
        name = uri.rstrip("/").rpartition("/")[2] or "file"
        yield ContentPart(contentType="file", value=_binary(resource["blob"], resource.get("mimeType"), name))


def _binary(data: Any, media_type: Any, name: str) -> dict[str, Any]:
    return {"encoding": "base64", "data": str(data or ""), "name": name,
            **({"media_type": media_type} if isinstance(media_type, str) else {})}
