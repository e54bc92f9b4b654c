"""How an operation becomes a method: bound to a resource it is called with the request's own arguments."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator

import pytest

from interlock.sdk import AsyncInterlock, Interlock
from interlock.sdk.requests import commands

URL, KEY = "http://127.0.0.1:9", "ilk_k"


def test_a_bound_method_has_the_requests_name_text_and_parameters() -> None:
    with Interlock(URL, KEY) as there:
        assert there.commands.submit.__doc__ == commands.submit.__doc__
        assert inspect.signature(there.commands.submit) == inspect.signature(commands.submit)


def test_a_wrong_argument_is_refused_before_anything_is_sent() -> None:
    with Interlock(URL, KEY) as there, pytest.raises(TypeError):
        there.commands.get("cmd_1", nonsense=True)  # type: ignore[call-arg]


def test_a_list_and_a_stream_send_nothing_until_they_are_read() -> None:
    with Interlock(URL, KEY) as there:
        for made in (there.commands.every(), there.commands.follow("cmd_1"), there.transcripts.export("s")):
            assert isinstance(made, Generator)
            made.close()


@pytest.mark.anyio
async def test_the_async_client_returns_awaitables() -> None:
    async with AsyncInterlock(URL, KEY) as there:
        waiting = there.whoami()
        assert inspect.iscoroutine(waiting)
        waiting.close()
        for made in (there.commands.every(), there.sessions.follow("s"), there.audit.export()):
            assert isinstance(made, AsyncGenerator)
            await made.aclose()


def test_each_resource_has_its_gateway() -> None:
    with Interlock(URL, KEY) as there:
        assert there.commands.link is there.link
        assert there.approvals.link is there.link
