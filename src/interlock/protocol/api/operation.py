"""An operation of the API as data. Routing, its checks, the OpenAPI document, the library's requests and the pages of
the reference are made from it."""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

AnswerT = TypeVar("AnswerT")

NO_ROLES = frozenset[str]()
"""Of an operation that asks for no key."""
READERS = frozenset({"viewer", "operator", "approver", "auditor", "admin", "owner"})
OPERATORS = frozenset({"operator", "admin", "owner"})
APPROVERS = frozenset({"approver", "admin", "owner"})
ADMINS = frozenset({"admin", "owner"})
AUDITORS = frozenset({"auditor", "admin", "owner"})
OWNERS = frozenset({"owner"})
EVERYBODY = READERS | {"runner"}
RAW_VIEWERS = frozenset({"operator", "auditor", "admin", "owner"})
"""The roles that may ask for the raw view (S-6)."""

JSON = "application/json"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
BINARY = "application/octet-stream"
TEXT, MARKDOWN, HTML = "text/plain", "text/markdown", "text/html"
STREAMED = (JSON, SSE)
"""A page as JSON, or all that follows as server-sent events."""
STREAM_SOCKET = "/v1/stream"
"""The path of the WebSocket over which one connection follows many streams; it has no row in the table, whose
operations are requests with an answer."""
STREAM_QUERY = ("since", "last", "limit", "wait")


class Operation(msgspec.Struct, Generic[AnswerT], frozen=True, eq=False):
    """One row of the table. `path` begins behind `/v1`; it answers with and without it (C-0). `text` says what it does
    if name and path do not. An operation with a body changes something, under an idempotency key (M-1)."""

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
    """A media type that the body may have as well; it is kept in a file while it is received, and the query says what a
    JSON body would."""
    answers: type[AnswerT] | None = None
    """The type of the JSON answer; None if it answers with something else (`media`)."""
    media: tuple[str, ...] = (JSON,)
    status: int = 200
    also: tuple[tuple[int, str], ...] = ()
    """Further statuses of the same answer, and when."""
    at_runner: bool = False
    """A read that the runner answers, and so the gateway that it is attached to (C-4)."""
    public: bool = False
    """It asks for no key: the body is the credential."""
    secret: bool = False
    """The answer holds a secret that is shown once: it is kept sealed under its idempotency key."""
    codes: tuple[str, ...] = ()
    """Codes of F-1 that it answers beside those of its form (`problem_forms.codes_of`)."""
    headers: tuple[tuple[str, dict[str, Any], str], ...] = ()
    """Headers that it reads beside those of its form: name, JSON Schema, description."""
    events: str = ""
    """What the events of its stream carry."""
    verb: str = ""
    """The verb of the command line that does it, such as `keys create`; if none does, `no_verb` says why."""
    no_verb: str = ""
    no_method: str = ""
    """Why the library has no method for it, if it has none."""

    def at(self, *ids: str) -> str:
        """Write the path of a request, with each id as one segment, whatever characters it has."""
        rest = iter(ids)
        return "/v1" + re.sub(r"\{\w+\}", lambda _: quote(next(rest), safe=""), self.path)

    @property
    def streams(self) -> bool:
        """Whether it answers with server-sent events if they are asked for."""
        return SSE in self.media

    @property
    def keyed(self) -> bool:
        """Whether it changes something, and the gateway remembers its answer by its idempotency key (M-1)."""
        return self.body is not None and not self.public
