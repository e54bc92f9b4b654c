"""Approvals in Slack: a card in its session's thread, decided by people with their own keys, and not by claims
of a button press (O-12)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.channels.chat.messages import DIGEST_SHOWN
from interlock.channels.chat.places import Places, PlacesFile
from interlock.ports.chat_service import ChatRefused
from interlock.protocol.resources import Approval
from interlock.sdk import AsyncInterlock
from lazily import lazily
from slack_api.server import APP_TOKEN, BOT_TOKEN, Refusal, SlackApi, labels_of, slack_api, text_of
from small_gateway.running import Gateway, running

apps, bridges = lazily("interlock.channels.slack.app"), lazily("interlock.channels.chat.bridge")

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12"), pytest.mark.needs("slack-sdk")]
ANN, VIC, MALLORY = "UANN", "UVIC", "UMALLORY"
"""Ann has an owner's key, Vic a viewer's, Mallory none."""
CHANNEL, OTHER = "C0ROOM", "C0OTHER"
COMMAND = b'{"command":"rm -rf build"}'
DIGEST = hashlib.sha256(COMMAND).hexdigest()


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


@pytest.fixture
async def api(anyio_backend: str) -> AsyncIterator[SlackApi]:
    async with slack_api() as there:
        yield there


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnect and retry without the pauses that spare Slack."""
    monkeypatch.setattr("interlock.channels.slack.app.PAUSE_S", 0.01)
    monkeypatch.setattr("interlock.channels.slack.socket.PAUSE_S", 0.01)


def permission(gateway: Gateway, name: str = "apr_1", **fields: Any) -> Any:
    return gateway.desk.add_approval(name, **{"door": "tool", "input": msgspec.Raw(COMMAND), "digest": DIGEST,
                                              "title": "$ rm -rf build", **fields})


@asynccontextmanager
async def bridged(gateway: Gateway, api: SlackApi, place: Path, *, asking: str = CHANNEL,
                  public_url: str | None = "https://gw.example") -> AsyncIterator[None]:
    """A bridge at work in one channel."""
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as ann, AsyncInterlock(
            gateway.base, "ilk_default_viewer") as vic:
        app = apps.SlackApp(apps.SlackTokens(BOT_TOKEN, APP_TOKEN), api.url)
        settings = bridges.Settings({ANN: ann, VIC: vic}, [asking], str, public_url)
        bridge = asyncio.ensure_future(bridges.Bridge(app, ann, PlacesFile(place), settings).run())
        try:
            yield
        finally:
            bridge.cancel()
            await asyncio.gather(bridge, return_exceptions=True)
            await app.close()


async def until_stored(place: Path, reached: Callable[[Places], bool]) -> None:
    """Wait until what survives a restart is so."""
    async with asyncio.timeout(30):
        while not reached(PlacesFile(place).now):
            await asyncio.sleep(0)


def shown(name: str) -> Callable[[Places], bool]:
    """Whether an approval has a card."""
    return lambda now: name in now.asked and bool(now.asked[name].messages)


def look_again(place: Path) -> None:
    """Have the next bridge list what waits, as after an expired cursor; this gateway's approvals are in no feed."""
    kept = PlacesFile(place)
    kept.now.feed = None
    kept.save()


async def state(gateway: Gateway, name: str = "apr_1") -> str:
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as owner:
        return (await owner.approvals.get(name)).state


async def votes(gateway: Gateway) -> Approval:
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as owner:
        return await owner.approvals.get("apr_1")


@pytest.mark.req("P-2", "P-8", "H-4")
async def test_a_card_is_in_its_sessions_thread_and_a_button_is_that_persons_vote(
        gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        root = await api.until_posted(CHANNEL, "Approvals of session s1")
        assert card["thread_ts"] == root["ts"]
        assert (labels_of(card), DIGEST[:DIGEST_SHOWN] in text_of(card)) == (["Allow", "Deny"], True)
        await api.press(CHANNEL, ANN, card["ts"], "Allow")
        await api.until_whispered(ANN, "Allowed.")
    decided = await votes(gateway)
    assert (decided.state, [vote.by for vote in decided.votes]) == ("granted", ["owner"])


@pytest.mark.req("P-3")
async def test_a_button_pressed_by_another_workspaces_member_with_the_same_id_decides_nothing(
        gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        await api.press(CHANNEL, ANN, card["ts"], "Deny", team="T2")
        await api.press(CHANNEL, ANN, card["ts"], "Allow")  # Presses of a batch are handled in their order.
        await api.until_whispered(ANN, "Allowed.")
    assert [vote.decision for vote in (await votes(gateway)).votes] == ["grant"]


async def test_two_approvals_of_a_session_share_its_thread(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    await permission(gateway, "apr_2", session_id="s1")
    await permission(gateway, "apr_3", session_id="s2")
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await api.until(lambda: len(api.messages.get(CHANNEL, {})) == 5)
    threads = [one.get("thread_ts") for one in api.messages[CHANNEL].values()]
    assert sorted(threads.count(one) for one in set(threads)) == [1, 2, 2]


@pytest.mark.req("P-2", "P-3")
@pytest.mark.parametrize(("press", "whisper"), [
    ({"user": MALLORY}, "has no key"),
    ({"user": VIC}, "✖️"),
    ({"value": f"g:apr_1:{'f' * DIGEST_SHOWN}"}, "has changed since"),
    ({"value": f"g:apr_2:{DIGEST[:DIGEST_SHOWN]}"}, "does not belong"),
    ({"elsewhere": OTHER}, "does not belong"),
])
async def test_a_hostile_button_press_decides_nothing(
    gateway: Gateway, api: SlackApi, tmp_path: Path, press: dict[str, str], whisper: str
) -> None:
    """Another person, a person whose key may not vote, a forged digest, another approval's id, another channel."""
    await permission(gateway)
    other = b'{"command":"ls"}'
    await permission(gateway, "apr_2", input=msgspec.Raw(other), digest=hashlib.sha256(other).hexdigest(), title="$ ls")
    user = press.pop("user", ANN)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        await api.until(lambda: len(api.messages[CHANNEL]) == 3)
        await api.press(CHANNEL, user, card["ts"], "Allow", **press)
        await api.until_whispered(user, whisper)
    assert (await state(gateway), await state(gateway, "apr_2")) == ("pending", "pending")


async def test_a_replayed_or_late_button_press_changes_nothing(
        gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        await api.press(CHANNEL, ANN, card["ts"], "Deny", action_ts="7.0")
        await api.until_whispered(ANN, "Denied.")
        deny = {"value": f"d:apr_1:{DIGEST[:DIGEST_SHOWN]}"}
        await api.press(CHANNEL, ANN, card["ts"], "Deny", action_ts="7.0", **deny)
        await api.press(CHANNEL, ANN, card["ts"], "Allow", value=f"g:apr_1:{DIGEST[:DIGEST_SHOWN]}")
        await api.until(lambda: len(api.whispers) == 3)
        await api.until(lambda: api.unconfirmed == 0)
    decided = await votes(gateway)
    assert (decided.state, len(decided.votes)) == ("denied", 1)
    assert api.whispers[2][1].startswith(("✖️", "This card does not belong"))


@pytest.mark.req("H-4", "P-4")
@pytest.mark.parametrize(("fields", "sentence"), [
    ({"required": 2}, "needs more than one person"),
    ({"signed": True}, "Only signed votes count"),
    ({"dangerous": True}, "marked dangerous"),
    ({"input": msgspec.Raw(msgspec.json.encode({"command": "echo x\n" * 3_000}))}, "more lines"),
])
async def test_an_approval_that_a_chat_cannot_decide_has_a_link_instead_of_buttons(
        gateway: Gateway, api: SlackApi, tmp_path: Path, fields: dict[str, Any], sentence: str) -> None:
    digest = hashlib.sha256(bytes(fields.get("input", COMMAND))).hexdigest()
    await permission(gateway, **{"digest": digest, **fields})
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, sentence)
        assert labels_of(card) == ["Read and decide"]
        assert card["blocks"][-1]["elements"][0]["url"] == "https://gw.example/a/apr_1"
        await api.press(CHANNEL, ANN, card["ts"], "Allow", value=f"g:apr_1:{digest[:DIGEST_SHOWN]}")
        await api.until(lambda: api.unconfirmed == 0)
        if sentence != "more lines":
            await api.until_whispered(ANN, "✖️")
            assert await state(gateway) == "pending"


@pytest.mark.req("H-4")
async def test_nothing_in_a_card_is_expanded_folded_or_hidden(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    command = msgspec.json.encode({"command": "echo <!channel> <@UANN> *bold* \u202etxt :warning: &amp;"})
    await permission(gateway, input=msgspec.Raw(command), digest=hashlib.sha256(command).hexdigest(),
                     title="<!channel> look")
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "*bold*")
    sections = [block for block in card["blocks"] if block["type"] == "section"]
    assert all(block["expand"] and block["text"]["type"] == "plain_text" and not block["text"]["emoji"]
               for block in sections)
    assert "<!channel> <@UANN> *bold* <U+202E>txt :warning: &amp;" in text_of(card)
    assert "<!" not in card["text"]


@pytest.mark.req("P-5")
async def test_a_decision_made_elsewhere_edits_the_card(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        await until_stored(tmp_path / "slack.json", shown("apr_1"))
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as owner:
        await owner.approvals.vote("apr_1", "deny", digest=DIGEST)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await api.until_posted(CHANNEL, "⛔")
    edited = api.messages[CHANNEL][card["ts"]]
    assert labels_of(edited) == []
    assert "denied" in text_of(edited)


async def test_a_person_is_asked_in_their_direct_messages(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json", asking=ANN):
        card = await api.until_posted("DANN", "rm -rf build")
        await api.press("DANN", ANN, card["ts"], "Deny")
        await api.until_whispered(ANN, "Denied.")


async def test_a_card_that_slack_rejects_is_resent_shorter_with_a_link(
    gateway: Gateway, api: SlackApi, tmp_path: Path
) -> None:
    await permission(gateway, session_id="")
    api.refusals = [Refusal("chat.postMessage", "invalid_blocks")]
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "cannot be shown here")
    assert labels_of(card) == ["Read and decide"]
    assert "interlock approve apr_1" in text_of(card)
    assert PlacesFile(tmp_path / "slack.json").now.undelivered == {}


async def test_a_session_whose_thread_was_deleted_gets_another(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await until_stored(tmp_path / "slack.json", shown("apr_1"))
    api.refusals = [Refusal("chat.postMessage", "thread_not_found")]
    await permission(gateway, "apr_2")
    look_again(tmp_path / "slack.json")
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await api.until_posted(CHANNEL, "interlock approve apr_2")
        await until_stored(tmp_path / "slack.json", shown("apr_2"))
    await permission(gateway, "apr_3")
    look_again(tmp_path / "slack.json")
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await until_stored(tmp_path / "slack.json", shown("apr_3"))
    assert sum(text.startswith("Approvals of session s1") for text in api.posted_texts(CHANNEL)) == 2
    assert labels_of(list(api.messages[CHANNEL].values())[-1]) == ["Allow", "Deny"]


async def test_a_file_is_not_fetched_and_this_is_reported(gateway: Gateway, api: SlackApi, tmp_path: Path) -> None:
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await api.write("DANN", ANN, "look", subtype="file_share", files=[{"id": "F1", "mimetype": "image/png"}])
        await api.until_posted("DANN", "Files cannot be sent from Slack")


async def test_a_socket_without_tls_is_not_opened(api: SlackApi) -> None:
    api._socket_url = "ws://slack.example"
    app = apps.SlackApp(apps.SlackTokens(BOT_TOKEN, APP_TOKEN), api.url)
    await app.connect()
    with pytest.raises(ChatRefused, match="without TLS"):
        await app.receive()
    await app.close()


async def test_an_approval_that_no_chat_accepts_is_stored_as_undelivered(
    gateway: Gateway, api: SlackApi, tmp_path: Path
) -> None:
    await permission(gateway)
    api.refusals = [Refusal("chat.postMessage", "channel_not_found")] * 2
    place = tmp_path / "slack.json"
    async with bridged(gateway, api, place):
        await until_stored(place, lambda now: now.undelivered == {"apr_1": "Slack refused: channel_not_found."})


@pytest.mark.parametrize("refusal", [
    Refusal("chat.postMessage", "ratelimited", 429, {"Retry-After": "0"}),
    Refusal("chat.postMessage", "internal_error"),
    Refusal("chat.postMessage", "", 503),
])
async def test_rate_limits_and_failures_of_slack_are_retried(
    gateway: Gateway, api: SlackApi, tmp_path: Path, refusal: Refusal
) -> None:
    await permission(gateway)
    api.refusals = [refusal, refusal]
    async with bridged(gateway, api, tmp_path / "slack.json"):
        await api.until_posted(CHANNEL, "rm -rf build")
    assert api.refusals == []


@pytest.mark.parametrize("reason", ["refresh_requested", None])
async def test_a_lost_socket_is_reopened_and_button_presses_meanwhile_count(
        gateway: Gateway, api: SlackApi, tmp_path: Path, reason: str | None) -> None:
    await permission(gateway)
    async with bridged(gateway, api, tmp_path / "slack.json"):
        card = await api.until_posted(CHANNEL, "rm -rf build")
        await api.until(lambda: api.links == 1)
        api.down = reason is None
        await api.cut(reason)
        await api.press(CHANNEL, ANN, card["ts"], "Allow")
        api.down = False
        await api.until_whispered(ANN, "Allowed.")
    assert api.links >= 2


@pytest.mark.parametrize(("method", "sentence"), [
    ("auth.test", "does not accept the app's tokens"), ("apps.connections.open", "does not accept the app's tokens")])
async def test_an_invalid_token_gives_one_sentence(api: SlackApi, method: str, sentence: str) -> None:
    api.refusals = [Refusal(method, "invalid_auth")]
    app = apps.SlackApp(apps.SlackTokens(BOT_TOKEN, APP_TOKEN), api.url)

    async def logged_in() -> None:
        await app.connect()
        await app.receive()

    with pytest.raises(ChatRefused, match=sentence) as refused:
        await logged_in()
    await app.close()
    assert BOT_TOKEN not in str(refused.value)
