"""A Telegram bot at a real gateway and runner: messages are executed once, reported once, and approvals decided by
people who may vote."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot_api.server import TOKEN, BotApi, bot_api
from interlock.channels.chat.places import PlacesFile
from interlock.command.redaction import Redaction
from interlock.ports.chat_service import ChatRefused
from interlock.protocol.resources import Actor
from interlock.sdk import AsyncInterlock
from lazily import lazily
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack
from servers.first_call import until_first_call

bots, bridges = lazily("interlock.channels.telegram.bot"), lazily("interlock.channels.chat.bridge")

pytestmark = [pytest.mark.anyio, pytest.mark.req("R-4", "N-3")]

OWNER, BO, STRANGER, GROUP = 7, 8, 9, -100
CONFIG = """
[session]
defaultAgent = "sh"
dmScope = "per-channel-peer"

[[bindings]]
agent = "shell"
channel = "telegram"
group_id = "-100"

[agents.sh]
adapter = "exec"
command = "/bin/sh"
args = ["-c"]

[[policy.rules]]
name = "the plain shell may start"
effect = "allow"
door = "command"
agent = "sh"
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), CONFIG, fork_server=fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
    assert stack.leftovers() == []


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as api:
        yield api


@asynccontextmanager
async def bridged(stack: Stack, api: BotApi, place: Path, **people: str) -> AsyncIterator[bridges.Bridge]:
    """A running bridge; the owner and each person named with a key are known."""
    owner = (stack.state / "owner.key").read_text().strip()
    async with AsyncInterlock(stack.url, owner) as gateway, AsyncInterlock(
            stack.url, people.get("bo", owner)) as bo:
        bot = bots.TelegramBot(TOKEN, api.url)
        known = {OWNER: gateway, **({BO: bo} if "bo" in people else {})}
        chosen = bridges.Settings(known, [OWNER], Redaction(()).text)
        bridge = bridges.Bridge(bot, gateway, PlacesFile(place), chosen)
        running = asyncio.ensure_future(bridge.run())
        try:
            yield bridge
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await bot.close()


async def key_of(stack: Stack, name: str, roles: list[str]) -> str:
    async with AsyncInterlock(stack.url, (stack.state / "owner.key").read_text().strip()) as owner:
        return (await owner.keys.make(Actor(type="user", id=name), roles)).key


async def test_a_message_starts_a_task_and_its_reply_is_sent(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, "echo hello from here")
        await api.until_posted(OWNER, "hello from here")
        await api.write(OWNER, OWNER, "exit 3")
        failed = await api.until_posted(OWNER, "✖️ It failed")
        assert "exit code 3" in failed["text"]
        await api.write(OWNER, OWNER, "echo again")
        await api.until_posted(OWNER, "again")
    assert api.posted_texts(OWNER)[0] == "hello from here"
    # The notice that single tools were not asked about is sent once.
    assert sum("does not ask before" in text for text in api.posted_texts(OWNER)) == 1


async def test_silent_entries_are_not_sent_and_a_long_reply_is_split(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, "printf 'NO_REPLY: nothing to say'")
        await api.write(OWNER, OWNER, "seq 1 2000")
        await api.until_posted(OWNER, "2000")
    texts = [text for text in api.posted_texts(OWNER) if not text.startswith("⚠️")]
    assert all(len(text) <= 4_096 for text in texts)
    assert "\n".join(texts).split() == [str(number) for number in range(1, 2_001)]


async def test_a_repeated_update_is_handled_once(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, f"echo once >> {tmp_path}/done")
        await api.write(OWNER, OWNER, "echo and now")
        await api.until_posted(OWNER, "and now")
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.again()  # As after a crash before the confirmation.
        await api.write(OWNER, OWNER, "echo last")
        await api.until_posted(OWNER, "last")
    assert (tmp_path / "done").read_text() == "once\n"
    assert api.posted_texts(OWNER).count("and now") == 1


async def test_a_bridge_that_was_away_sends_what_it_missed(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, f"echo begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo ended")
        await api.until(lambda: OWNER in api.typing)
    (tmp_path / "go").touch()
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.until_posted(OWNER, "ended")
    texts = [text for text in api.posted_texts(OWNER) if not text.startswith("⚠️")]
    assert "\n".join(texts).split() == ["begun", "ended"]


@pytest.mark.req("P-3", "P-5", "P-8")
async def test_only_a_key_holder_decides_a_held_tool_and_the_question_states_it(
    stack: Stack, api: BotApi, tmp_path: Path
) -> None:
    viewer = await key_of(stack, f"bo-{secrets.token_hex(4)}", ["viewer"])
    async with bridged(stack, api, tmp_path / "places.json", bo=viewer):
        await api.write(GROUP, OWNER, f"@interlock_bot touch {tmp_path}/allowed", group=True)
        asked = await api.until_posted(OWNER, "touch")
        assert "sha256" in asked["text"]
        for user, sentence in ((STRANGER, "You cannot decide here"), (BO, "✖️")):
            press = await api.press(OWNER, user, asked["message_id"], "Allow")
            await api.until(lambda press=press: press in api.answers)
            assert sentence in api.answers[press]
        assert not (tmp_path / "allowed").exists()
        press = await api.press(OWNER, OWNER, asked["message_id"], "Allow")
        await api.until_posted(OWNER, "✅")
        await api.until(lambda: press in api.answers)
        assert api.answers[press] == "Allowed."
        await api.until(lambda: "reply_markup" not in api.chats[OWNER][asked["message_id"]])
        await api.write(GROUP, OWNER, f"@interlock_bot touch {tmp_path}/denied", group=True)
        again = await api.until_posted(OWNER, "denied")
        await api.press(OWNER, OWNER, again["message_id"], "Deny")
        await api.until_posted(OWNER, "⛔")
    assert (tmp_path / "allowed").exists()
    assert not (tmp_path / "denied").exists()


async def test_a_stranger_is_answered_once_and_cannot_command(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        for _ in range(2):
            await api.write(STRANGER, STRANGER, f"touch {tmp_path}/mine")
        await api.write(GROUP, STRANGER, f"@interlock_bot touch {tmp_path}/mine", group=True)
        await api.write(OWNER, OWNER, "echo done")
        await api.until_posted(OWNER, "done")
    assert len(api.posted_texts(STRANGER)) == 1
    assert f"id is {STRANGER}" in api.posted_texts(STRANGER)[0]
    assert api.posted_texts(GROUP) == []
    assert not (tmp_path / "mine").exists()


async def test_rate_limits_and_failures_of_telegram_are_retried(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    api.refusals = [("sendmessage", 429, "Too Many Requests: retry after 1", {"retry_after": 1}),
                    ("sendmessage", 502, "Bad Gateway", {}), ("getupdates", 500, "Internal Server Error", {})]
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, "echo through")
        await api.until_posted(OWNER, "through")
    assert api.refusals == []
    assert api.posted_texts(OWNER)[0] == "through"


async def test_a_file_is_sent_along_and_one_too_large_is_named(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "places.json"):
        await api.write(OWNER, OWNER, "echo with a file", document=b"x" * (512 * 1024 + 1))
        await api.until_posted(OWNER, "has at most 512 KiB")
    assert not any("with a file" in text for text in api.posted_texts(OWNER))


async def test_an_invalid_token_gives_one_sentence(api: BotApi) -> None:
    bot = bots.TelegramBot(TOKEN[:-1] + "x", api.url)
    with pytest.raises(ChatRefused, match="does not know the bot's token") as refused:
        await bot.connect()
    assert TOKEN[:-1] not in str(refused.value)
    await bot.close()
    with pytest.raises(ChatRefused, match="BotFather"):
        bots.TelegramBot("no token", api.url)


async def test_up_starts_the_bot_of_the_config(stack: Stack, api: BotApi, tmp_path: Path) -> None:
    state = stack.place / "verb"
    state.mkdir(mode=0o700)
    (state / "bot.token").write_text(TOKEN)
    (state / "owner.key").write_text((stack.state / "owner.key").read_text())
    (state / "interlock.toml").write_text(
        f'[telegram]\ntoken_file = "bot.token"\napi_url = "{api.url}"\n[telegram.people.{OWNER}]\nowner = true\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "interlock", "telegram", "--state", str(state), "--url", stack.url,
        stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
    try:
        await until_first_call(api.called, process)
        await api.write(OWNER, OWNER, "echo by the verb")
        await api.until_posted(OWNER, "by the verb")
    finally:
        process.terminate()
        _, says = await process.communicate()
    assert process.returncode == 0, says
    assert TOKEN.encode() not in says
    assert (state / "telegram.json").stat().st_mode & 0o777 == 0o600
