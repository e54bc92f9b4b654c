"""JSON-RPC 2.0 over a pair of pipes, one message per line: to an agent that a runner drives, or from an editor.

The SDK's own connection starts a task for every message: it reads without a limit, and a prompt's answer can overtake
the updates before it. Here messages are processed one after another, so a slow reader slows the agent down (D-3), and
everything before an answer has been processed when the answer is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from interlock.ports.process import LineTooLong
from interlock.protocol.json_form import fault_of
from interlock.protocol.limits import MAX_AGENT_DEPTH

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
MAX_ERROR_CHARS = 2_000
"""Maximum characters of an error's data that are shown."""

_EMPTY_WORDS = frozenset({"", "error", "internal error", "internal server error", "the agent gave no reason"})
_encoder = msgspec.json.Encoder()
_NOTHING = msgspec.Raw(b"")


class RpcError(Exception):
    """Raised if the agent answered with an error; the text is its message and the explanation in its data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(_sentence(message, data))
        self.code = code
        self.data = data
        self.explained = str(self).strip(" .").lower() not in _EMPTY_WORDS
        """Whether the text states more than that something failed."""


class PeerLost(Exception):
    """Raised if the agent has not answered and cannot answer any more."""


class _Error(msgspec.Struct):
    code: int = INTERNAL_ERROR
    message: str = "The agent gave no reason"
    data: Any = None


class _Message(msgspec.Struct):
    method: str | None = None
    id: int | str | float | None = None
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: _Error | None = None


class RpcRequest(NamedTuple):
    """A request by the agent, to be answered by its id."""

    request_id: int | str | float
    method: str
    params: bytes


class Pipes(Protocol):
    """The source and the destination of lines; an agent's process is one."""

    async def write(self, data: bytes) -> None:
        """Write complete lines. Raises BrokenPipeError if the peer does not read any more."""
        ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield the peer's lines without their newline. Raises LineTooLong in place of a line above the limit."""
        ...


Notify = Callable[[str, bytes], Awaitable[None]]
Ask = Callable[[RpcRequest], Awaitable[None]]
_decoder = msgspec.json.Decoder(_Message)


class Rpc:
    """One connection. `run` reads until the agent's output ends, and awaits callbacks in the order of the lines."""

    def __init__(self, process: Pipes, notified: Notify, question: Ask, *, serves: bool = False) -> None:
        """Create the connection. With `serves` the peer is a client, which waits for an answer to each line: a line
        that cannot be read is answered by an error without an id. An agent's output may have lines of other kinds."""
        self._process = process
        self._serves = serves
        self._notified = notified
        self._asked = question
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._then: dict[int, Callable[[], None]] = {}
        self._next_id = 0
        self._lost = False
        self.garbage = 0
        """Number of lines that were not JSON-RPC, and were skipped (A-8)."""
        self._too_long: LineTooLong | None = None
        self.overflowed = asyncio.Event()

    @property
    def too_long(self) -> LineTooLong | None:
        """Return the last line above the limit since `watch_size`."""
        return self._too_long

    def watch_size(self) -> None:
        """Forget the last line above the limit, so that `overflowed` is set by the next one."""
        self._too_long = None
        self.overflowed.clear()

    async def run(self) -> None:
        """Read to the end, then fail the requests that still wait for an answer."""
        try:
            await self._read()
        finally:
            self._lost = True
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(PeerLost())
            self._pending.clear()

    async def _read(self) -> None:
        lines = self._process.lines()
        while True:
            try:
                line = await anext(lines)
            except StopAsyncIteration:
                return
            except LineTooLong as error:
                self._too_long = error
                self.overflowed.set()
                sentence = f"The message is longer than {error.limit:,} bytes. Send less in one."
                await self._unread(INVALID_REQUEST, sentence)
                continue
            await self._take(line)

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = _decoder.decode(line)
        except msgspec.ValidationError as error:
            self.garbage += 1
            await self._unread(INVALID_REQUEST, f"This is not a message of JSON-RPC 2.0: {error}.")
            return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.garbage += 1
            await self._unread(PARSE_ERROR, f"This is not JSON: {error}.")
            return
        fault = fault_of(line, MAX_AGENT_DEPTH)
        if fault is not None:
            await self._refuse_unread(message, f"The message {fault}.")
        elif message.method is None:
            self._answered(message)
        elif message.id is None:
            await self._notified(message.method, bytes(message.params))
        else:
            await self._asked(RpcRequest(message.id, message.method, bytes(message.params)))

    async def _unread(self, code: int, sentence: str) -> None:
        """Answer a client's line that cannot be read; its request is unknown (JSON-RPC 2.0, section 5)."""
        if self._serves:
            error = {"code": code, "message": sentence[:MAX_ERROR_CHARS]}
            await self._send({"jsonrpc": "2.0", "id": None, "error": error})

    async def _refuse_unread(self, message: _Message, sentence: str) -> None:
        """Count a message whose members cannot be passed on. A request gets an error, an answer becomes one."""
        self.garbage += 1
        if message.method is None:
            self._answered(msgspec.structs.replace(message, error=_Error(INVALID_REQUEST, sentence)))
        elif message.id is not None:
            await self.refuse(RpcRequest(message.id, message.method, b""), INVALID_REQUEST, sentence)

    def _answered(self, message: _Message) -> None:
        future = self._pending.pop(message.id, None) if isinstance(message.id, int) else None
        if future is None or future.done():
            self.garbage += 1
            return
        then = self._then.pop(cast("int", message.id), None)
        if then is not None:
            then()
        if message.error is not None:
            future.set_exception(RpcError(message.error.code, message.error.message, message.error.data))
        else:
            future.set_result(bytes(message.result) or b"null")

    async def request(self, method: str, params: Any, then: Callable[[], None] | None = None, *,
                      cancels: bool = False) -> bytes:
        """Send the agent a request; returns its result as JSON. `then` is called at the answer, before the next line is
        processed. With `cancels`, a cancelled caller sends `$/cancel_request`.

        Raises RpcError for the agent's error, PeerLost if the agent is gone.
        """
        if self._lost:
            raise PeerLost
        self._next_id += 1
        request_id = self._next_id
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = future
        if then is not None:
            self._then[request_id] = then
        try:
            await self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            return await future
        except asyncio.CancelledError:
            if cancels:
                await self.notify("$/cancel_request", {"requestId": request_id})
            raise
        finally:
            self._pending.pop(request_id, None)
            self._then.pop(request_id, None)
            # An exception that was set after the wait ended must not be reported as never retrieved.
            if future.done() and not future.cancelled():
                future.exception()

    async def notify(self, method: str, params: Any) -> None:
        """Send the agent a notification; nothing happens if the agent is gone."""
        try:
            await self._send({"jsonrpc": "2.0", "method": method, "params": params})
        except PeerLost:
            return

    async def answer(self, request: RpcRequest, result: Any) -> None:
        """Send the result of a request by the agent."""
        await self._reply({"jsonrpc": "2.0", "id": request.request_id, "result": result})

    async def refuse(self, request: RpcRequest, code: int, sentence: str, data: Any = None) -> None:
        """Send an error as the answer to a request by the agent."""
        error = {"code": code, "message": sentence, **({} if data is None else {"data": data})}
        await self._reply({"jsonrpc": "2.0", "id": request.request_id, "error": error})

    async def _reply(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except PeerLost:
            return

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._process.write(_encoder.encode(message) + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            raise PeerLost from None


def _sentence(message: str, data: Any) -> str:
    detail: Any = data
    if isinstance(data, dict):
        known: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
        detail = next((known[name] for name in ("details", "message", "reason") if name in known), None)
    if not isinstance(detail, str) or not detail or detail in message:
        return message
    return f"{message}: {detail[:MAX_ERROR_CHARS]}"
