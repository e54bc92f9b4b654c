"""A Slack app at a real gateway and runner: a thread is a session, and its approvals are decided in it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.channels.chat.places import PlacesFile
from interlock.sdk import AsyncInterlock
from lazily import lazily
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack
from servers.first_call import until_first_call
from slack_api.server import APP_TOKEN, BOT_TOKEN, SlackApi, labels_of, slack_api, text_of

apps, bridges = lazily("interlock.channels.slack.app"), lazily("interlock.channels.chat.bridge")

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12"), pytest.mark.needs("slack-sdk")]
ANN, STRANGER, CHAT, CHANNEL = "UANN", "USTRANGER", "DANN", "C0ROOM"
CONFIG = """
[session]
defaultAgent = "sh"
dmScope = "per-channel-peer"

[[bindings]]
agent = "shell"
channel = "slack"
group_id = "C0ROOM"

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
    stack = Stack(tmp_path_factory.mktemp("stack"), CONFIG, fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
    assert stack.leftovers() == []


@pytest.fixture
async def api() -> AsyncIterator[SlackApi]:
    async with slack_api() as api:
        yield api


def owner_key(stack: Stack) -> str:
    return (stack.state / "owner.key").read_text().strip()


@asynccontextmanager
async def bridged(stack: Stack, api: SlackApi, place: Path) -> AsyncIterator[AsyncInterlock]:
    """A bridge at work, with the owner's client."""
    async with AsyncInterlock(stack.url, owner_key(stack)) as owner:
        app = apps.SlackApp(apps.SlackTokens(BOT_TOKEN, APP_TOKEN), api.url)
        bridge = bridges.Bridge(app, owner, PlacesFile(place), bridges.Settings({ANN: owner}, [CHANNEL], str))
        running = asyncio.ensure_future(bridge.run())
        try:
            yield owner
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await app.close()


@pytest.mark.req("R-1", "R-4")
async def test_each_thread_is_a_session_and_contains_its_replies(stack: Stack, api: SlackApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "slack.json") as owner:
        first = await api.write(CHAT, ANN, "echo one &amp;&amp; echo two")
        reply = await api.until_posted(CHAT, "two")
        assert (reply["thread_ts"], "one\ntwo" in text_of(reply)) == (first, True)
        second = await api.write(CHAT, ANN, "echo of another thread")
        assert (await api.until_posted(CHAT, "of another thread"))["thread_ts"] == second
        await api.write(CHAT, ANN, "echo again", thread=first)
        assert (await api.until_posted(CHAT, "again"))["thread_ts"] == first
        keys = [one.session_key async for one in owner.sessions.every() if ":thread:" in one.session_key]
    assert sorted(keys) == sorted(f"agent:sh:slack:dm:UANN:thread:{ts}" for ts in (first, second))


async def test_an_event_that_slack_repeats_is_handled_once(stack: Stack, api: SlackApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "slack.json"):
        for _ in range(2):
            await api.write(CHAT, ANN, f"echo once >> {tmp_path}/done", ts="1900000000.000001")
        await api.write(CHAT, ANN, "echo last", thread="1900000000.000001")
        await api.until_posted(CHAT, "last")
    assert (tmp_path / "done").read_text() == "once\n"


async def test_a_stranger_gets_their_id_and_cannot_command(stack: Stack, api: SlackApi, tmp_path: Path) -> None:
    async with bridged(stack, api, tmp_path / "slack.json"):
        await api.write("DSTRANGER", STRANGER, f"touch {tmp_path}/mine")
        await api.until_posted("DSTRANGER", f"Your Slack id is {STRANGER}")
    assert not (tmp_path / "mine").exists()


@pytest.mark.req("P-3", "P-5", "P-8")
async def test_a_held_tool_is_decided_by_a_button_or_elsewhere_and_the_card_shows_it(
    stack: Stack, api: SlackApi, tmp_path: Path
) -> None:
    async with bridged(stack, api, tmp_path / "slack.json") as owner:
        await api.write(CHANNEL, ANN, f"<@UBOT> touch {tmp_path}/allowed")
        card = await api.until_posted(CHANNEL, "touch")
        assert labels_of(card) == ["Allow", "Deny"]
        await api.press(CHANNEL, ANN, card["ts"], "Allow")
        await api.until(lambda: "✅" in text_of(api.messages[CHANNEL][card["ts"]]))
        assert labels_of(api.messages[CHANNEL][card["ts"]]) == []
        await api.write(CHANNEL, ANN, f"<@UBOT> touch {tmp_path}/denied")
        other = await api.until_posted(CHANNEL, f"{tmp_path}/denied")
        (waiting,) = [one async for one in owner.approvals.every(state="pending")]
        await owner.approvals.vote(waiting.id, "deny", digest=waiting.digest)
        await api.until(lambda: "⛔" in text_of(api.messages[CHANNEL][other["ts"]]))
    assert (tmp_path / "allowed").exists()
    assert not (tmp_path / "denied").exists()


async def test_the_slack_verb_starts_the_app_of_the_config(stack: Stack, api: SlackApi, tmp_path: Path) -> None:
    state = stack.place / "verb"
    state.mkdir(mode=0o700)
    (state / "bot.token").write_text(BOT_TOKEN)
    (state / "owner.key").write_text(owner_key(stack))
    (state / "interlock.toml").write_text(
        f'[slack]\nbot_token_file = "bot.token"\napp_token_env = "APP_TOKEN_OF_TEST"\napi_url = "{api.url}"\n'
        f'[slack.people.{ANN}]\nowner = true\n')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "interlock", "slack", "--state", str(state), "--url", stack.url,
        env={**os.environ, "APP_TOKEN_OF_TEST": APP_TOKEN},
        stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
    try:
        await until_first_call(api.called, process)
        await api.write(CHAT, ANN, "echo by the verb")
        await api.until_posted(CHAT, "by the verb")
    finally:
        process.terminate()
        _, says = await process.communicate()
    assert process.returncode == 0, says
    assert BOT_TOKEN.encode() not in says
    assert (state / "slack.json").stat().st_mode & 0o777 == 0o600
