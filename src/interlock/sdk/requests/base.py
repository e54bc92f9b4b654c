"""Construction of requests: method, path, response and media types are those of the operation in the API's table."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from interlock.protocol.access import EmptyBody
from interlock.protocol.api.operation import JSON, Operation
from interlock.sdk.exchange import RequestSpec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


@lru_cache(maxsize=256)
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type of answers."""
    return msgspec.json.Decoder(kind)


def plain(operation: Operation[T], text: str) -> Callable[[], RequestSpec[T]]:
    """Return a function that creates the request of an operation without arguments; `text` is the docstring of its
    method."""
    def ask() -> RequestSpec[T]:
        return read(operation)

    ask.__doc__ = text
    ask.__annotations__["return"] = f"RequestSpec[{operation.answers.__name__ if operation.answers else 'bytes'}]"
    return ask


def read(operation: Operation[T], /, *ids: str, **query: object) -> RequestSpec[T]:
    """Return the request for a resource; parameters that are None are omitted."""
    if operation.answers is not None:
        return RequestSpec(operation.method, operation.at(*ids), decoder(operation.answers).decode,
                           query=written(query))
    accept = operation.media[0] if len(operation.media) == 1 else "*/*"
    plain: Any = bytes
    return RequestSpec(operation.method, operation.at(*ids), plain, query=written(query), accept=accept)


def document(path: str, kind: type[T]) -> RequestSpec[T]:
    """Return the request for a document of the gateway that is not in the table."""
    return RequestSpec("GET", path, decoder(kind).decode)


def change(operation: Operation[T], /, *ids: str, body: msgspec.Struct | None = None, key: str | None = None,
           uploaded: bytes | Path | None = None, **query: object) -> RequestSpec[T]:
    """Return the request for a change under an idempotency key. `uploaded` is sent as the body in the operation's media
    type, with `query` beside it."""
    content = _encoder.encode(body or EmptyBody()) if uploaded is None else uploaded
    return RequestSpec(
        operation.method, operation.at(*ids), decoder(operation.answers).decode, query=written(query),
        body=content if isinstance(content, bytes) else None, file=content if isinstance(content, Path) else None,
        content_type=JSON if uploaded is None else operation.upload, key=key, keyed=operation.keyed)


def written(query: dict[str, object]) -> dict[str, str]:
    """Write query parameters."""
    return {name: str(value) for name, value in query.items() if value is not None}
