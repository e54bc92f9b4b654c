"""Messages of chats: their key, the session that is due, the command (R-4, I-1 … I-4)."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from engine.conversation import OWNER, Table
from engine.within import Within
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge import archive, entries
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.chats import ChatSettings, InboundMessage, SystemMessage
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.inbound import InboundBody, Received
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord
from interlock.protocol.resources import Target
from interlock.session.chat.chat_route import Binding, Chat, Naming
from interlock.session.chat.chat_words import COMPACTING
from interlock.session.chat.resets import ResetRule, ResetRules
from interlock.session.chat.send_policy import SendRule, SendRules

pytestmark = pytest.mark.anyio
ANN = Chat("telegram", "direct", peer="ann")
HOUR = 3_600_000
OPEN = RuleSet([Rule(name="all", effect="allow", door="command", type="execute")])


class ChatTable(Table):
    """A table whose people send messages through a chat."""

    def __init__(self, policy: RuleSet = OPEN, **settings: Any) -> None:
        super().__init__(policy, transcripts=MemoryTranscripts())
        self.engine.chats.configure(ChatSettings(**settings))
        self.kept = 0

    def remember(self, _made: Any) -> IdempotencyRecord:
        self.kept += 1
        return IdempotencyRecord(tenant_id="default", scope=f"chat-{self.kept}", fingerprint="", status=202, headers={},
                                 body=b"", created_ms=0)

    async def receive(self, text: str, chat: Chat = ANN, *attachments: dict[str, Any]) -> Received:
        message = InboundMessage(chat, "ann", text, list(attachments), None, {"displayName": "Ann"})
        return await self.engine.chats.arrive(OWNER, message, self.remember)

    async def system(self, text: str, key: str = "agent:shell:main", origin: Any = "cron") -> Any:
        return await self.engine.chats.system(OWNER, SystemMessage(key, "shell", text, origin), lambda _made: [])

    async def row(self, session_id: str) -> LaneState:
        record = await self.ledger.session(session_id)
        assert record is not None
        return msgspec.json.decode(record.machine, type=LaneState)

    async def state(self, command_id: str | None) -> str:
        record = await self.ledger.command(command_id or "", "default")
        assert record is not None
        return record.command.state

    async def prompt(self, command_id: str | None) -> str:
        record = await self.ledger.command(command_id or "", "default")
        assert record is not None
        return msgspec.json.decode(bytes(record.command.payload))["messages"][0]["content"][0]["value"]

    async def patch(self, session_id: str, **fields: Any) -> None:
        shell = await self.engine.lanes.lane(session_id)
        assert shell is not None
        who = {"id": "user:ann", "role": "operator"}
        await shell.call(Within(lambda lane: entries.patch(lane, who, fields)))

    async def audits(self, action: str) -> list[dict[str, Any]]:
        records = await self.ledger.audit("default", 0, 1000)
        return [body for one in records if (body := msgspec.json.decode(one.body))["action"] == action]


@pytest.mark.req("R-4", "R-3")
async def test_a_message_becomes_a_command_of_the_session_of_its_key() -> None:
    bindings = [Binding(agent="shell", channel="telegram")]
    table = ChatTable(naming=Naming("per-peer"), bindings=bindings, default_agent="none")
    first, second = await table.receive("hello"), await table.receive("and you?")
    assert (first.session_key, first.reset, first.denied) == ("agent:shell:dm:ann", None, False)
    assert second.session_id == first.session_id
    assert await table.prompt(first.command_id) == "hello"
    assert table.wire.last("control.prompt.request").payload.text == "hello"
    entry = (await table.row(first.session_id)).entry
    assert (entry.chat_type, entry.provider, entry.display_name) == ("direct", "telegram", "Ann")


@pytest.mark.req("R-4")
async def test_two_messages_at_the_same_time_open_one_session() -> None:
    table = ChatTable()
    arrived = await asyncio.gather(*(table.receive(f"{n}") for n in range(5)))
    assert len({one.session_id for one in arrived}) == 1


@pytest.mark.req("R-4")
async def test_a_redelivered_message_has_the_same_key_and_another_message_another() -> None:
    def key(**more: Any) -> str | None:
        message_fields = {"channel": "Telegram", "chat_type": "direct", "sender": "ann", "message_id": "7", **more}
        return InboundBody(**message_fields).idempotency_key

    assert key() == key(channel="telegram", peer="ann", text="edited")
    assert (key() or "").startswith("in:")
    assert len(key() or "") == 3 + len(hashlib.sha256().hexdigest())
    others = [key(message_id="8"), key(account_id="a"), key(thread_id="a"), key(sender="bob"), key(channel="irc")]
    assert len({key(), *others}) == 6
    assert key(message_id=None) is None


@pytest.mark.req("R-4")
async def test_a_message_under_a_silent_policy_is_recorded_and_not_answered() -> None:
    table = ChatTable(sending=SendRules(rules=[SendRule(action="deny", channel="telegram")]))
    response = await table.receive("psst")
    assert (response.denied, response.command_id) == (True, None)
    assert table.wire.types() == []
    lines = await table.ledger.transcript_pending((response.session_id, "default"))
    assert b"psst" in lines[0].line
    assert [one["meta"]["rule"] for one in await table.audits("reject")] == ["sendPolicy"]
    # A session's own policy takes precedence over the config's.
    await table.patch(response.session_id, sendPolicy="allow")
    assert (await table.receive("psst")).command_id is not None


@pytest.mark.req("I-1", "I-3")
async def test_new_begins_a_session_under_the_key_with_the_rest_as_first_message() -> None:
    table = ChatTable(models=frozenset({"opus"}))
    first = await table.receive("hello")
    await table.patch(first.session_id, label="work", thinkingLevel="high")
    second = await table.receive("/new opus do it again")
    assert (second.reset, second.session_key) == ("asked", first.session_key)
    assert second.session_id != first.session_id
    assert await table.prompt(second.command_id) == "do it again"
    entry = (await table.row(second.session_id)).entry
    assert (entry.label, entry.thinking_level, entry.model_override) == ("work", "high", "opus")
    # The old one's work has ended, and its record stays.
    assert (await table.row(first.session_id)).opening == "closing"
    old = await table.ledger.command(first.command_id or "", "default")
    assert old is not None
    assert old.command.state == "canceling"
    assert (await table.receive("more")).session_id == second.session_id


@pytest.mark.req("I-1")
async def test_a_bare_reset_begins_a_session_and_runs_nothing() -> None:
    table = ChatTable()
    first = await table.receive("hello")
    response = await table.receive("/reset")
    assert (response.reset, response.command_id) == ("asked", None)
    assert (await table.receive("next")).session_id == response.session_id != first.session_id
    reset = (await table.audits("session_reset"))
    assert [one["meta"]["before"] for one in reset if one["meta"]["reason"] == "asked"] == [first.session_id]


@pytest.mark.req("I-1")
async def test_concurrent_resets_lose_no_message() -> None:
    table = ChatTable()
    await table.receive("hello")
    arrived = await asyncio.gather(table.receive("/new one"), table.receive("two"))
    assert arrived[0].session_id == arrived[1].session_id


@pytest.mark.req("I-1", "I-2")
async def test_idleness_begins_a_new_session_and_system_messages_do_not_affect_it() -> None:
    table = ChatTable(resets=ResetRules(ResetRule(mode="idle", idle_minutes=60)))
    first = await table.receive("hello")
    # One overloaded `updatedAt` was moved by cron, and idle sessions never ended.
    for _ in range(5):
        table.clock.advance(HOUR // 2)
        assert (await table.system("tick")).session_id == first.session_id
    response = await table.receive("back again")
    assert response.reset == "idle"
    assert response.session_id != first.session_id
    table.clock.advance(HOUR - 1)
    assert (await table.receive("still here")).session_id == response.session_id


@pytest.mark.req("I-1")
async def test_the_daily_hour_begins_a_new_session_at_the_next_message() -> None:
    zone = ZoneInfo("Asia/Seoul")
    table = ChatTable(zone=zone)
    table.clock.at_ms = int(datetime(2026, 6, 1, 23, tzinfo=zone).timestamp() * 1000)
    first = await table.receive("good night")
    table.clock.at_ms = int(datetime(2026, 6, 2, 3, 59, tzinfo=zone).astimezone(UTC).timestamp() * 1000)
    assert (await table.receive("still awake")).session_id == first.session_id
    table.clock.advance(60_000)
    response = await table.receive("good morning")
    assert (response.reset, response.session_id != first.session_id) == ("daily", True)
    # A running command there completes, and then its agent ends.
    old = await table.ledger.command(first.command_id or "", "default")
    assert old is not None
    assert (old.command.state, old.close_after) == ("dispatched", True)


@pytest.mark.req("I-2")
async def test_a_cron_jobs_origin_is_known_to_policy_and_agent() -> None:
    table = ChatTable(RuleSet())
    assert await table.state((await table.system("report")).command_id) == "pending_approval"
    allowed = ChatTable(RuleSet([Rule(name="jobs", effect="allow", door="command", origin="cron")]))
    assert await allowed.state((await allowed.system("report")).command_id) == "dispatched"
    assert allowed.wire.last("control.prompt.request").payload.origin == "cron"


@pytest.mark.req("R-4", "I-2")
async def test_system_messages_under_a_silent_policy_are_recorded_and_move_no_timer() -> None:
    table = ChatTable(sending=SendRules(rules=[SendRule(action="deny", channel="hook")]))
    first = await table.receive("hello")
    clocks = entries.clocks_of(await table.row(first.session_id))
    table.clock.advance(HOUR)
    response = await table.system("psst", origin="hook")
    assert (response.denied, response.command_id, response.session_id) == (True, None, first.session_id)
    assert any(b"psst" in one.line for one in await table.ledger.transcript_pending((first.session_id, "default")))
    assert entries.clocks_of(await table.row(first.session_id)) == clocks
    assert not (await table.system("tick", origin="cron")).denied


@pytest.mark.req("I-1")
@pytest.mark.parametrize("text", ["/new start over", "/new"])
async def test_a_gateway_killed_in_mid_reset_completes_the_reset_after_its_start(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ChatTable()
    first = await table.receive("hello")
    waiting = await table.receive("and this")

    async def killed(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(table.engine.chats, "_leave", killed)
    with pytest.raises(asyncio.CancelledError):
        await table.receive(text)
    assert await table.state(waiting.command_id) == "queued"
    newest = await table.ledger.session_by_key("default", first.session_key)
    assert newest is not None
    assert newest.session_id != first.session_id
    monkeypatch.undo()
    table.begin()
    table.engine.chats.configure(ChatSettings())
    await table.engine.start()
    async with asyncio.timeout(10):
        while await table.state(waiting.command_id) != "canceled" or (await table.row(newest.session_id)).leaves:
            await asyncio.sleep(0)
    assert await table.state(first.command_id) in ("canceling", "canceled")
    # It was done once: the next start finds nothing left to do.
    audits = len(await table.ledger.audit("default", 0, 1000))
    table.begin()
    await table.engine.start()
    await table.engine.lanes.lane(newest.session_id)
    assert (await table.row(newest.session_id)).leaves == ""
    assert len(await table.ledger.audit("default", 0, 1000)) == audits
    await table.engine.stop()


@pytest.mark.req("V-1")
async def test_status_reports_the_sessions_state_and_is_not_sent_to_the_agent() -> None:
    table = ChatTable()
    before = await table.receive("/status")
    assert (before.session_id, before.command_id) == ("", None)
    assert before.reply == "agent shell\nsession agent:shell:main · not begun: your first message begins it"
    first = await table.receive("hello")
    clocks = entries.clocks_of(await table.row(first.session_id))
    await table.receive("and this")
    table.clock.advance(3 * HOUR)
    shell = await table.engine.lanes.lane(first.session_id)
    assert shell is not None
    shell.lane.state.model, shell.lane.state.cost_usd = "opus", 0.5
    shell.lane.state.input_tokens, shell.lane.state.output_tokens = 12_345, 67
    shell.lane.state.context_tokens, shell.lane.state.context.window_told = 45_000, 200_000
    response = await table.receive("  /STATUS ")
    assert (response.command_id, response.session_id, response.reset) == (None, first.session_id, None)
    assert response.reply == (
        "agent shell · model opus · running\n"
        "tokens 12,345 in, 67 out · $0.5000\n"
        "context 45,000 of 200,000 (22 %) · compactions 0\n"
        f"session agent:shell:main · {first.session_id} · begun 3 h ago\n"
        "queue 1 running, 1 waiting its turn")
    assert entries.clocks_of(await table.row(first.session_id)).interacted_ms == clocks.interacted_ms
    lines = await table.ledger.transcript_pending((first.session_id, "default"))
    assert b"STATUS" not in b"".join(one.line for one in lines)
    # Also when a reset is due: a status request begins no session.
    table.clock.advance(48 * HOUR)
    assert (await table.receive("/status")).session_id == first.session_id
    # A text with more than the command is for the agent.
    assert (await table.receive("/status of the build")).command_id is not None


@pytest.mark.req("V-1")
async def test_stop_ends_running_and_waiting_commands_and_keeps_the_session() -> None:
    table = ChatTable()
    assert (await table.receive("/stop")).reply == "Nothing runs, and nothing waits."
    first, second = await table.receive("one"), await table.receive("two")
    response = await table.receive("/stop")
    assert (response.reply, response.command_id) == ("Stopping 2 commands.", None)
    assert await table.state(second.command_id) == "canceled"
    assert await table.state(first.command_id) == "canceling"
    assert table.wire.last("control.turn.cancel").type == "control.turn.cancel"
    assert (await table.receive("/stop")).reply == "Nothing runs, and nothing waits."
    after = await table.receive("three")
    assert after.session_id == first.session_id
    asked = ChatTable(RuleSet([Rule(name="ask", effect="ask", door="command")]))
    waiting = await asked.receive("one")
    assert (await asked.receive("/status")).reply is not None
    assert "1 waiting for a yes" in str((await asked.receive("/status")).reply)
    assert (await asked.receive("/stop")).reply == "Stopping 1 command."
    assert await asked.state(waiting.command_id) == "canceled"


@pytest.mark.req("V-1", "R-4")
async def test_chat_commands_are_not_answered_under_a_silent_policy() -> None:
    table = ChatTable(sending=SendRules(rules=[SendRule(action="deny", channel="telegram")]))
    for _ in range(2):
        response = await table.receive("/status")
        assert (response.reply, response.denied) == (None, True)
        await table.receive("psst")


@pytest.mark.req("R-4", "R-2")
async def test_a_message_may_name_its_session() -> None:
    table = ChatTable(naming=Naming("per-peer"), default_agent="shell")
    for named, key in (("Main", "agent:shell:main"), ("agent:SHELL:work", "agent:shell:work")):
        message = InboundMessage(ANN, "ann", "hello", [], None, {}, named)
        assert (await table.engine.chats.arrive(OWNER, message, table.remember)).session_key == key
    with pytest.raises(Problem, match="/session_key: a session key has"):
        await table.engine.chats.arrive(OWNER, InboundMessage(ANN, "ann", "hello", [], None, {}, "a b"), table.remember)


@pytest.mark.req("I-4")
async def test_overrides_are_sent_with_each_prompt_and_unsupported_ones_reported_once() -> None:
    table = ChatTable()
    first = await table.receive("/new")
    await table.patch(first.session_id, thinkingLevel="high", modelOverride="opus", verboseLevel="on")
    await table.receive("hello")
    prompt = table.wire.last("control.prompt.request")
    assert (prompt.payload.model, prompt.payload.options) == ("opus", {"thinking": "high"})
    shell = await table.engine.lanes.lane(first.session_id)
    assert shell is not None
    await table.send(first.session_id, "session.error", p.SessionError(
        error_code="UNSUPPORTED_CAPABILITY", message="This agent does not offer model_switch.", fatal=False),
        in_reply_to=prompt.message_id)
    again = table.wire.last("control.prompt.request")
    assert again.message_id != prompt.message_id
    assert (again.payload.model, again.payload.options) == (None, None)
    events = await table.ledger.events("default", f"s/{first.session_id}", 0, 100)
    notices = [one for one in events if one.kind == "notice"]
    assert [b"OverrideNotHonoured" in one.body for one in notices] == [True]


@pytest.mark.req("V-2")
async def test_an_archived_session_accepts_nothing_and_its_key_begins_a_new_one() -> None:
    table = ChatTable()
    first = await table.receive("hello")
    shell = await table.engine.lanes.lane(first.session_id)
    assert shell is not None
    await shell.call(Within(lambda lane: archive.archive(lane, {"id": "user:ann", "role": "operator"}, "done")))
    with pytest.raises(Problem, match="archived"):
        await table.execute(target=Target(session_id=first.session_id))
    assert (await table.receive("hello")).session_id != first.session_id


@pytest.mark.req("R-4")
async def test_an_invalid_message_is_refused_before_anything_changes() -> None:
    table = ChatTable(naming=Naming("per-peer"))
    with pytest.raises(Problem, match="/text: the message is empty"):
        await table.receive(" ")
    with pytest.raises(Problem, match="/group_id"):
        await table.receive("hello", Chat("irc", "group"))
    with pytest.raises(Problem, match="not base64"):
        await table.receive("look", ANN, {"contentType": "image", "value": {"encoding": "base64", "data": "!"}})
    assert await table.ledger.sessions("default", 10) == []


@pytest.mark.req("V-1", "Z-4")
async def test_compact_compacts_the_conversation_or_reports_why_not() -> None:
    table = ChatTable()
    assert "nothing to compact" in str((await table.receive("/compact")).reply)
    first = await table.receive("hello")
    response = await table.receive("/compact")
    assert response.command_id is None
    assert "is at work" in str(response.reply)
    await table.send(first.session_id, "session.capabilities", p.Capabilities(dps_version=DPS_VERSION, features={
        "adapter_type": "process", "permission": "asks", "context_compaction": True}))
    await table.started(first.session_id)
    await table.ended(first.session_id)
    response = await table.receive("/Compact  keep the names\nand the doors")
    assert (response.reply, response.command_id, response.denied) == (COMPACTING, None, False)
    assert table.wire.last("control.session.compact").payload.instructions == "keep the names\nand the doors"
    assert (await table.receive("/compaction is what?")).command_id is not None
