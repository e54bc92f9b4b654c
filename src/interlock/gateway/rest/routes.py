"""A request for an operation, its handler, and the table that finds it by method and path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp

from interlock.engine.viewers.replays import ReplayReader
from interlock.gateway.rest.request.idempotency import Memory
from interlock.gateway.rest.service import Front
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.parameters import parameter
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import Principal

FILTER_CHARS = 4_096
"""A longer filter matches nothing: paths are not longer."""


def reader_of(principal: Principal) -> ReplayReader:
    """Return a principal as a reader of streams."""
    return ReplayReader(principal.tenant_id, f"{principal.actor.type}:{principal.actor.id}")


class ApiRequest(NamedTuple):
    """A request that has passed the guard: its principal, operation and body."""

    front: Front
    operation: Operation[Any]
    principal: Principal
    path: Mapping[str, str]
    request: Request
    body: Any = None
    memory: Memory | None = None
    """Set if the operation changes state (M-1)."""
    guess: bool = False
    """Whether the request may be forwarded to another gateway because its runner is known to be attached there, before
    the ledger determines the session's owner."""
    ahead: Any = None
    """The result of `Handler.ahead`."""
    ignored: Sequence[str] = ()
    """Fields of the body that the gateway sets itself."""

    @property
    def reader(self) -> ReplayReader:
        """Return the reader of a stream: a reader's own streams share its limits."""
        return reader_of(self.principal)

    def query(self, name: str) -> str | None:
        """Return a query parameter."""
        return self.request.query_params.get(name)

    def number(self, name: str) -> int:
        """Return a query parameter as an integer within its bounds; its default, otherwise 0, if it is absent. Raises
        Problem InvalidPayload."""
        schema, text = parameter(self.operation.name, name).schema, self.query(name)
        if text is None:
            return schema.get("default", 0)
        low, high = schema["minimum"], schema["maximum"]
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise Problem("InvalidPayload", f"`{name}` is a whole number from {low} to {high}.",
                          errors=(Place(name, f"{low} to {high}"),))
        return int(text)

    def text(self, name: str) -> str | None:
        """Return a query parameter as a short text; None if it is empty or absent. Raises Problem InvalidPayload."""
        text = self.query(name) or None
        if text is not None and len(text) > FILTER_CHARS:
            raise Problem("InvalidPayload", f"`{name}` has at most {FILTER_CHARS} characters.",
                          errors=(Place(name, "too long"),))
        return text

    def choice(self, name: str) -> str | None:
        """Return a query parameter that is one of its known values. Raises Problem InvalidPayload."""
        known: list[str] = parameter(self.operation.name, name).schema["enum"]
        text = self.query(name)
        if text is not None and text not in known:
            raise Problem("InvalidPayload", f"`{name}` is one of {', '.join(known)}.",
                          errors=(Place(name, "not a known value"),))
        return text


class Handler(NamedTuple):
    """The handler of an operation."""

    operation: Operation[Any]
    answer: Callable[[ApiRequest], Awaitable[ASGIApp]]
    ahead: Callable[[ApiRequest], Awaitable[Any] | None] | None = None
    """Starts a read that `answer` needs, in parallel with the read of the stored response (M-1); None if it needs
    nothing. It changes nothing: its exception is dropped if there is a stored response."""
    then: Callable[[ApiRequest, ASGIApp], Awaitable[ASGIApp]] | None = None
    """Applied to the response of a change, including a repeated one (M-1)."""


class RouteMatch(NamedTuple):
    """An operation with the values of its path."""

    operation: Operation[Any]
    path: dict[str, str]


class RouteTable:
    """Finds operations; HEAD is found where GET is defined."""

    def __init__(self, operations: Sequence[Operation[Any]]) -> None:
        self.operations = tuple(operations)
        self._rows = [(_pattern(operation.path), operation) for operation in operations]
        self._fixed = {(one.method, one.path): found for one in operations
                       if "{" not in one.path and (found := self._search(one.method, one.path)).operation is one}
        """Paths without parameters, which need no search."""

    def find(self, method: str, path: str) -> RouteMatch:
        """Raises Problem NotFound or MethodNotAllowed."""
        return self._fixed.get((method, path)) or self._search(method, path)

    def _search(self, method: str, path: str) -> RouteMatch:
        fits = [(found, operation) for pattern, operation in self._rows if (found := pattern.fullmatch(path))]
        if not fits:
            raise Problem("NotFound", f"There is no such path: {path}")
        # A literal path is not a parameter of another one: `/sessions/import` does not name a session.
        fits = [(found, operation) for found, operation in fits if operation.path == path] or fits
        for found, operation in fits:
            if operation.method == method or (method == "HEAD" and operation.method == "GET"):
                return RouteMatch(operation, found.groupdict())
        allowed = {operation.method for _, operation in fits}
        allowed |= {"HEAD"} if "GET" in allowed else set()
        raise Problem("MethodNotAllowed", f"{path} does not take {method}.",
                      headers={"Allow": ", ".join(sorted(allowed))})


def unversioned(path: str) -> str:
    """Return a path without the version: the seed's own paths are also answered (C-0)."""
    return path[3:] if path.startswith("/v1/") else path


def _pattern(path: str) -> re.Pattern[str]:
    parts = (f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part) for part in path.split("/"))
    return re.compile("/".join(parts))


def media_ranges(accept: Sequence[str]) -> set[str]:
    """Parse `Accept`: the media ranges that are not refused with q=0; an absent one accepts everything."""
    if not accept:
        return {"*/*"}
    ranges: set[str] = set()
    for part in ",".join(accept).split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name and not any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters):
            ranges.add(name)
    return ranges


def check_acceptable(ranges: set[str], media: Sequence[str]) -> None:
    """Raise Problem NotAcceptable if none of `media` is accepted."""
    for name in media:
        if ranges & {name, name.split("/")[0] + "/*", "*/*"}:
            return
    raise Problem("NotAcceptable", f"The answer is {' or '.join(media)}, and neither is accepted."
                  if len(media) > 1 else f"The answer is {media[0]}, which is not accepted.")
