"""The agent's side of one ACP connection: JSON-RPC 2.0 on two pipes, one message per line.

Lines are handled in order, so a `session/cancel` finds the prompt before it. The SDK is not used here: importing it
takes six times as long as a start without it, and twenty megabytes in each session's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class RequestRefused(Exception):
    """A request that is, or was, answered with a JSON-RPC error: `code`, one sentence, and its data."""

    def __init__(self, code: int, sentence: str, data: Any = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.data = data


class NotAcp(Exception):
    """The input is not JSON-RPC, or a line of it is too long; the text names the line."""


class _Message(msgspec.Struct):
    method: str | None = None
    id: int | str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: Any = None
    error: dict[str, Any] | None = None


class Method(NamedTuple):
    """A method's parameters, and the function that begins it in the order of the lines; the rest of it runs
    concurrently."""

    takes: type[msgspec.Struct]
    begin: Callable[[Any], Awaitable[Any] | None]


_decoder = msgspec.json.Decoder(_Message)


class JsonRpcConnection:
    """`listen` reads to the end of the input; `ask` and `notify` write, and return once the pipe has accepted it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._last_id = 0

    async def listen(self, methods: dict[str, Method]) -> None:
        """Handle every line. Raises NotAcp."""
        number = 0
        try:
            while line := await self._reader.readline():
                number += 1
                if line.strip():
                    self._take(_decoder.decode(line), methods)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise NotAcp(f"line {number} of the input is not a JSON-RPC message") from None
        except ValueError:
            raise NotAcp(f"line {number + 1} of the input is too long") from None
        finally:
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the peer is gone"))

    def _take(self, message: _Message, methods: dict[str, Method]) -> None:
        if message.method is None:
            self._answered(message)
            return
        method = methods.get(message.method)
        result: Any = None
        refusal: RequestRefused | None = None
        if method is None:
            refusal = RequestRefused(METHOD_NOT_FOUND, "Method not found", {"method": message.method})
        else:
            try:
                result = method.begin(msgspec.json.decode(message.params, type=method.takes))
            except msgspec.DecodeError as error:
                refusal = RequestRefused(INVALID_PARAMS, f"Invalid params: {error}")
            except RequestRefused as error:
                refusal = error
        if message.id is not None:
            answering = asyncio.create_task(self._answer(message.id, result, refusal))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    async def _answer(self, request_id: int | str, going_on: Awaitable[Any] | None,
                      refusal: RequestRefused | None) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        if refusal is None:
            try:
                answer["result"] = await going_on if going_on is not None else None
            except RequestRefused as error:
                refusal = error
            except Exception as error:  # noqa: BLE001 - the peer waits for an answer after any error
                refusal = RequestRefused(INTERNAL_ERROR, f"The agent failed: {type(error).__name__}: {error}")
        if refusal is not None:
            data = {} if refusal.data is None else {"data": refusal.data}
            answer["error"] = {"code": refusal.code, "message": str(refusal), **data}
        with contextlib.suppress(ConnectionError):
            await self._send(answer)

    def _answered(self, message: _Message) -> None:
        future = self._pending.pop(message.id, None) if isinstance(message.id, int) else None
        if future is None or future.done():
            return
        if message.error is not None:
            future.set_exception(RequestRefused(cast("int", message.error.get("code", INTERNAL_ERROR)),
                                                str(message.error.get("message", "")), message.error.get("data")))
        else:
            future.set_result(message.result)

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return the peer's result. Raises RequestRefused for an error, ConnectionError if the peer
        is gone."""
        self._last_id += 1
        request_id = self._last_id
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = future
        try:
            await self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            return await future
        finally:
            self._pending.pop(request_id, None)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification. Raises ConnectionError if the peer is gone."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")
        await self._writer.drain()

    async def close(self) -> None:
        """Send the pending answers, and wait until the pipe has accepted them."""
        await asyncio.gather(*self._answering, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Drop unsent data."""
        self._writer.transport.abort()


async def stdio(limit_bytes: int) -> JsonRpcConnection:
    """Return the connection on standard input and output; a line may have `limit_bytes`."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit_bytes)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    # The writer's own protocol needs a reader, which never gets data.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout)
    return JsonRpcConnection(reader, asyncio.StreamWriter(transport, protocol, None, loop))
