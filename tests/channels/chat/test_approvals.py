"""A press in a chat: a yes is on what the gateway sent to show, or it is not a vote (P-2, Y-3)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from bot_api.server import TOKEN, bot_api
from interlock.channels.chat.approvals import Approvals
from interlock.channels.chat.messages import DIGEST_SHOWN
from interlock.channels.chat.places import Places
from interlock.channels.telegram.bot import TelegramBot
from interlock.ports.chat_service import ButtonPress
from interlock.sdk import AsyncInterlock
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
SUBJECT = b'{"tool_name":"shell","input":{"command":"rm -rf build"}}'
RIGHT, WRONG = hashlib.sha256(SUBJECT).hexdigest(), "f" * 64
ANN = 7


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


@pytest.mark.req("P-2", "P-8", "Y-3")
@pytest.mark.parametrize(("digest", "button", "state", "said"), [
    (RIGHT, "g", "granted", "Allowed."),
    (WRONG, "g", "pending", "✖️ What the gateway sent of apr_1 does not match the digest that it states, so it cannot be"
                            " allowed."),
    (WRONG, "k", "pending", "✖️ What the gateway sent of apr_1 does not match the digest that it states, so it cannot be"
                            " allowed."),
    (WRONG, "d", "denied", "Denied."),
])
async def test_a_press_is_a_yes_only_to_what_has_the_stated_digest(
    gateway: Gateway, digest: str, button: str, state: str, said: str
) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=digest, subject=msgspec.Raw(SUBJECT),
                                    input=msgspec.Raw(b'{"command":"rm -rf build"}'))
    async with bot_api() as api, AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        bot = TelegramBot(TOKEN, api.url)
        approvals = Approvals(ann, bot, {ANN: ann}, [ANN], Places(), lambda: None, str)
        await approvals.pressed(ButtonPress("press", ANN, f"{button}:apr_1:{digest[:DIGEST_SHOWN]}"))
        await bot.close()
        assert api.answers == {"press": said}
        assert (await ann.approvals.get("apr_1")).state == state
