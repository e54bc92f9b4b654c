"""What a verb does once its options are read: it sends one request, and prints the gateway's answer.

A verb's module says what is its own: the request, which the library makes (`sdk.requests`), and what a person reads of
the answer. Of a list that is a `ListTable`, of a change mostly one sentence. A verb of several requests asks with
`ask_gateway`, and prints the last answer, the rows it found, or the value that it made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from interlock.cli.config.place import Where
from interlock.cli.display.columns import PLAIN, Layout
from interlock.cli.display.terminal import print_json, print_table, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.link.gateway_reply import decoded, understood
from interlock.sdk.exchange import RequestSpec

T = TypeVar("T")

LookedUp = Callable[[GatewayLink], Coroutine[Any, Any, RequestSpec[T]]]
"""Makes a request after asking the gateway for what it needs: the id of what a person named by a beginning or @last."""


@dataclass(frozen=True, kw_only=True)
class ListTable(Generic[T]):
    """How people read the answer to a list: `rows` has the cells of each row, in the order of the headings."""

    header: Sequence[str]
    rows: Callable[[T], Sequence[Sequence[str]]]
    layout: Layout = PLAIN
    """What gives way on a narrow terminal."""
    empty: str = ""
    """The sentence in place of a table without rows: that there is nothing, and what makes the first."""

    def show(self, answer: T) -> None:
        """Print the table, or the sentence if there is nothing."""
        rows = self.rows(answer)
        if rows or not self.empty:
            print_table(rows, self.header, self.layout)
        else:
            say(self.empty, "dim")


@dataclass(frozen=True)
class VerbAnswer(Generic[T]):
    """The gateway's answer to a request, as it was sent."""

    request: RequestSpec[T]
    raw: bytes
    link: GatewayLink
    """Closed; it knows where the gateway is."""

    def value(self) -> T:
        """Understand it. Raises Trouble if it is not what a gateway answers."""
        return understood(self.request, self.raw)

    def print(self, show: Callable[[T], None], *, json: bool) -> int:
        """Print it: with `json` as it was sent, else by `show`. Returns the exit status. Raises Trouble."""
        if json:
            print_json(self.raw)
        else:
            show(self.value())
        return ExitStatus.DONE


@dataclass(frozen=True)
class FoundRows(Generic[T]):
    """The rows of a list, read over its pages, as they were sent; `name` is their member in the JSON document."""

    name: str
    kind: type[T]
    raw: Sequence[msgspec.Raw]

    def values(self) -> list[T]:
        """Understand them. Raises Trouble if they are not what a gateway answers."""
        return [decoded(bytes(row), self.kind, self.name) for row in self.raw]

    def print(self, show: Callable[[list[T]], None], *, json: bool) -> int:
        """Print them: with `json` as they were sent, else by `show`. Returns the exit status. Raises Trouble."""
        if json:
            print_json(msgspec.json.encode({self.name: self.raw}))
        else:
            show(self.values())
        return ExitStatus.DONE


async def answered(link: GatewayLink, request: RequestSpec[T]) -> VerbAnswer[T]:
    """Send one of several requests. Raises Trouble."""
    return VerbAnswer(request, await link.raw(request), link)


def ask(where: Where, request: RequestSpec[T] | LookedUp[T], *, plain: bool = True) -> VerbAnswer[T]:
    """Send a request, and return its answer; `plain` as for `ask_gateway`. Raises Trouble."""
    async def send(link: GatewayLink) -> VerbAnswer[T]:
        return await answered(link, await request(link) if callable(request) else request)

    return ask_gateway(where, send, plain=plain)


def print_answer(where: Where, request: RequestSpec[T] | LookedUp[T], show: Callable[[T], None], *, json: bool,
                 plain: bool = True) -> int:
    """Send a request and print its answer: with `json` as it was sent, else by `show`. Returns the exit status. Raises
    Trouble."""
    return ask(where, request, plain=plain).print(show, json=json)


def print_value(value: T, show: Callable[[T], None], *, json: bool) -> int:
    """Print what several requests came to: with `json` as one document, else by `show`. Returns the exit status."""
    if json:
        print_json(msgspec.json.encode(value))
    else:
        show(value)
    return ExitStatus.DONE
