"""How requests are written."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from interlock.protocol.access import EmptyBody
from interlock.sdk.exchange import RequestSpec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def segment(text: str) -> str:
    """Write an id as one segment of a path, whatever stands in it."""
    return quote(text, safe="")


def get(path: str, kind: type[T], **query: object) -> RequestSpec[T]:
    """Ask for a resource; parameters that are None are left out."""
    return RequestSpec("GET", path, _decoder(kind).decode, query=written(query))


def post(path: str, kind: type[T], body: msgspec.Struct | None = None, key: str | None = None, *, keyed: bool = True
         ) -> RequestSpec[T]:
    """Ask for a change."""
    return _change("POST", path, kind, body, key, keyed=keyed)


def patch(path: str, kind: type[T], body: msgspec.Struct, key: str | None = None) -> RequestSpec[T]:
    """Ask for a change of some fields."""
    return _change("PATCH", path, kind, body, key, keyed=True)


def delete(path: str, kind: type[T], body: msgspec.Struct, key: str | None = None) -> RequestSpec[T]:
    """Ask for something to be put away."""
    return _change("DELETE", path, kind, body, key, keyed=True)


def _change(method: str, path: str, kind: type[T], body: msgspec.Struct | None, key: str | None, *, keyed: bool
            ) -> RequestSpec[T]:
    return RequestSpec(method, path, _decoder(kind).decode, body=_encoder.encode(body or EmptyBody()), key=key,
                       keyed=keyed)


def raw(path: str, accept: str, **query: object) -> RequestSpec[bytes]:
    """Ask for something that is not JSON."""
    return RequestSpec("GET", path, bytes, query=written(query), accept=accept)


def written(query: dict[str, object]) -> dict[str, str]:
    """Write query parameters."""
    return {name: str(value) for name, value in query.items() if value is not None}
