"""Messages of A2A 1.0 as clients send them, and A2A's errors with their codes in both bindings (O-9). Pure.

Responses are built as plain members, since A2A's JSON is that of protobuf: absent members are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

PROTOCOL_VERSION = "1.0"
VERSION_HEADER = "a2a-version"
PAGE_DEFAULT = 50
PAGE_MAX = 100
MAX_PARTS = 64
"""Parts of one message."""
ERROR_DOMAIN = "a2a-protocol.org"
OWN_DOMAIN = "interlock"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
HeaderValue = Annotated[str, msgspec.Meta(max_length=2_048, pattern=r"^[\x21-\x7e]*\Z")]
T = TypeVar("T")


class _Received(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of received messages; unknown members are ignored, as A2A's forward compatibility requires."""


class Part(_Received, frozen=True, kw_only=True):
    """A piece of a message: exactly one of `text`, `raw` (base64), `url` and `data`."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = msgspec.UNSET
    filename: str | None = None
    media_type: str | None = None


class A2AMessage(_Received, frozen=True, kw_only=True):
    """A client's message."""

    message_id: Name
    role: Literal["ROLE_USER"]
    parts: Annotated[list[Part], msgspec.Meta(min_length=1, max_length=MAX_PARTS)]
    context_id: str = ""
    task_id: str = ""


class PushAuthentication(_Received, frozen=True, kw_only=True):
    """How the gateway authenticates to the receiver: the header `Authorization: SCHEME CREDENTIALS`."""

    scheme: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,31}\Z")]
    credentials: HeaderValue = ""


class PushConfig(_Received, frozen=True, kw_only=True):
    """Where a client is notified of a task: `CreateTaskPushNotificationConfig`, and a part of a message's request."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    id: Annotated[str, msgspec.Meta(max_length=200)] = ""
    task_id: str = ""
    token: HeaderValue = ""
    authentication: PushAuthentication | None = None


class PushRequest(_Received, frozen=True, kw_only=True):
    """`GetTaskPushNotificationConfig` and `DeleteTaskPushNotificationConfig`."""

    id: Name
    task_id: Name


class PushListRequest(_Received, frozen=True, kw_only=True):
    """`ListTaskPushNotificationConfigs`. A task has few: they are one page."""

    task_id: Name
    page_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    page_token: str = ""


class SendConfiguration(_Received, frozen=True, kw_only=True):
    """How a message is to be answered."""

    history_length: Annotated[int, msgspec.Meta(ge=0)] | None = None
    return_immediately: bool = False
    task_push_notification_config: PushConfig | None = None


class TaskOptions(_Received, frozen=True, kw_only=True):
    """`metadata.interlock` of a request: where and how the agent works."""

    workspace: Name | None = None
    runner: Name | None = None
    mode: Name | None = None
    model: Name | None = None


class RequestMetadata(_Received, frozen=True, kw_only=True):
    """`metadata` of a request; only Interlock's own member is read."""

    interlock: TaskOptions = TaskOptions()


class SendRequest(_Received, frozen=True, kw_only=True):
    """`SendMessage` and `SendStreamingMessage`."""

    message: A2AMessage
    configuration: SendConfiguration = SendConfiguration()
    metadata: RequestMetadata = RequestMetadata()


class TaskRequest(_Received, frozen=True, kw_only=True):
    """`GetTask`, `CancelTask` and `SubscribeToTask`."""

    id: Name
    history_length: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ListRequest(_Received, frozen=True, kw_only=True):
    """`ListTasks`."""

    context_id: str = ""
    status: str = ""
    page_size: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    page_token: str = ""
    history_length: Annotated[int, msgspec.Meta(ge=0)] | None = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False


class ErrorKind(NamedTuple):
    """One kind of error: its JSON-RPC code, HTTP status, gRPC status and reason."""

    code: int
    status: int
    grpc: str
    reason: str


KINDS: Mapping[str, ErrorKind] = {kind.reason: kind for kind in (
    ErrorKind(-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
    ErrorKind(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ErrorKind(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
    ErrorKind(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    ErrorKind(-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
    ErrorKind(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    ErrorKind(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    ErrorKind(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    ErrorKind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    ErrorKind(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    ErrorKind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
)}
REFUSED = -32000
"""JSON-RPC code of refusals by the gateway; `reason` is the gateway's code."""
_GRPC: Mapping[int, str] = {
    401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


class A2AError(Exception):
    """Raised for a request that is refused; the text is one sentence."""

    def __init__(self, reason: str, sentence: str, **metadata: str) -> None:
        super().__init__(sentence)
        self.kind = KINDS[reason]
        self.domain = ERROR_DOMAIN
        self.metadata = metadata
        self.headers: tuple[tuple[bytes, bytes], ...] = ()
        self.over_http = False
        """Whether the JSON-RPC binding also answers with the HTTP status."""


class GatewayRefusal(A2AError):
    """Raised if the gateway refused one of the requests that serve this one; `reason` is its code (F-1)."""

    def __init__(self, status: int, code: str, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__("INTERNAL_ERROR", sentence)
        grpc = _GRPC.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        self.kind = ErrorKind(REFUSED, status, grpc, code)
        self.domain = OWN_DOMAIN
        self.headers = headers
        self.over_http = status in (401, 403, 429, 503)


def details_of(error: A2AError) -> list[dict[str, Any]]:
    """Return the structured details of an error (google.rpc.ErrorInfo)."""
    return [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.kind.reason, "domain": error.domain,
             **({"metadata": error.metadata} if error.metadata else {})}]


def read(kind: type[T], value: Any, *, from_query: bool = False) -> T:
    """Return `value` as a message. Numbers and booleans of a query are text. Raises A2AError INVALID_PARAMS."""
    try:
        return msgspec.convert(value, kind, strict=not from_query)
    except msgspec.ValidationError as error:
        raise A2AError("INVALID_PARAMS", f"The request is not valid: {error}.") from None


def check_version(declared: str) -> None:
    """Raise A2AError VERSION_NOT_SUPPORTED unless the request is of A2A 1.x; an absent version means 0.3."""
    if declared.split(".")[0] != PROTOCOL_VERSION.split(".")[0]:
        raise A2AError("VERSION_NOT_SUPPORTED", f"This server implements A2A {PROTOCOL_VERSION}, and the request is of "
                       f"{declared or '0.3 (it declares none)'}. Send `A2A-Version: {PROTOCOL_VERSION}`.")
