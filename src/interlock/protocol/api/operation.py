"""An operation of the API as data. Routing, its checks, the OpenAPI document, the library's requests and the reference
pages are generated from it."""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

AnswerT = TypeVar("AnswerT")

NO_ROLES = frozenset[str]()
"""The roles of an operation that requires no key."""
READERS = frozenset({"viewer", "operator", "approver", "auditor", "admin", "owner"})
OPERATORS = frozenset({"operator", "admin", "owner"})
APPROVERS = frozenset({"approver", "admin", "owner"})
ADMINS = frozenset({"admin", "owner"})
AUDITORS = frozenset({"auditor", "admin", "owner"})
OWNERS = frozenset({"owner"})
EVERYBODY = READERS | {"runner"}
RAW_VIEWERS = frozenset({"operator", "auditor", "admin", "owner"})
"""The roles that may read the raw view (S-6)."""

JSON = "application/json"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
BINARY = "application/octet-stream"
TEXT, MARKDOWN, HTML = "text/plain", "text/markdown", "text/html"
STREAMED = (JSON, SSE)
STREAM_SOCKET = "/v1/stream"
"""The path of the WebSocket over which one connection follows many streams; it has no row in the table, whose
operations are requests with a response."""
STREAM_QUERY = ("since", "last", "limit", "wait")


class Operation(msgspec.Struct, Generic[AnswerT], frozen=True, eq=False):
    """One row of the table. `path` follows `/v1`; it is served with and without it (C-0). `text` describes it if name
    and path do not. An operation with a body changes something, under an idempotency key (M-1)."""

    name: str
    method: str
    path: str
    text: str
    roles: frozenset[str]
    query: tuple[str, ...] = ()
    """Names of `parameters`."""
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    upload: str = ""
    """A media type that the body may also have; it is stored in a file while it is received, and the query has the
    fields of a JSON body."""
    answers: type[AnswerT] | None = None
    """The type of the JSON response; None if the response is of another type (`media`)."""
    media: tuple[str, ...] = (JSON,)
    status: int = 200
    also: tuple[tuple[int, str], ...] = ()
    """Further statuses of the same answer, and when."""
    at_runner: bool = False
    """Whether the runner answers it, and so the gateway that the runner is attached to (C-4)."""
    public: bool = False
    """Whether it requires no key: the body is the credential."""
    secret: bool = False
    """Whether the response holds a secret that is shown once: it is stored encrypted under its idempotency key."""
    codes: tuple[str, ...] = ()
    """Codes of F-1 that it returns in addition to those of its form (`problem_forms.codes_of`)."""
    headers: tuple[tuple[str, dict[str, Any], str], ...] = ()
    """Headers that it reads in addition to those of its form: name, JSON Schema, description."""
    events: str = ""
    """The content of its stream's events."""
    verb: str = ""
    """The command-line verb for it, such as `keys create`; without one, `no_verb` is the reason."""
    no_verb: str = ""
    no_method: str = ""
    """Why the library has no method for it, if so."""

    def at(self, *ids: str) -> str:
        """Return the path of a request, with each id as one segment, whatever characters it has."""
        rest = iter(ids)
        return "/v1" + re.sub(r"\{\w+\}", lambda _: quote(next(rest), safe=""), self.path)

    @property
    def streams(self) -> bool:
        """Return whether it can respond with server-sent events."""
        return SSE in self.media

    @property
    def keyed(self) -> bool:
        """Return whether it changes something, and the gateway stores its response by its idempotency key (M-1)."""
        return self.body is not None and not self.public
