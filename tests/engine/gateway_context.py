"""An agent whose context the gateway owns, played by a test: turns, reports, received prompts."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.conversation import Table
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.engine.bridge.context.context_state import CompactionRules
from interlock.engine.bridge.lane_state import Limits
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.identifiers import session_stream
from interlock.protocol.resources import Target
from interlock.session.context.compaction_plan import CompactionSettings, Flush
from interlock.session.context.context import ModelContext

SETTINGS = CompactionSettings(reserve_tokens=500, reserve_tokens_floor=0, keep_recent_tokens=300,
                              memory_flush=Flush(enabled=False))
WINDOW = 4_000
LONG = "word " * 400


class ContextTable(Table):
    """A table with such an agent; its windows are small."""

    def __init__(self, settings: CompactionSettings = SETTINGS, window: int = WINDOW, **fields: Any) -> None:
        fields.setdefault("transcripts", MemoryTranscripts())
        super().__init__(context_owner="gateway", **fields)
        self.limits = Limits(timeout_ms=60_000, compaction=CompactionRules(settings, {"m": window}))
        self.begin()
        self.session_id = ""
        self.turns = 0

    async def settled(self) -> None:
        compactor = self.engine.compactor
        assert compactor is not None
        await compactor.settled()

    async def ask(self, text: str) -> str:
        """A command; its id. Its prompt is out when this returns, unless it has to wait."""
        target = Target(session_id=self.session_id) if self.session_id else Target(agent_id="shell")
        command = await self.execute(text, target=target)
        if not self.session_id:
            self.session_id = command.target.session_id
            await self.settled()
            await self.able()
        await self.settled()
        return command.id

    async def able(self) -> None:
        await self.send(self.session_id, "session.capabilities", p.Capabilities(
            dps_version=DPS_VERSION, agent=p.AgentIdentity(agent_id="shell", name="b", model="m"), features={
                "adapter_type": "sdk", "permission": "asks", "context_owner": "gateway", "context_compaction": True}))

    async def answer(self, text: str = "ok", used: int | None = None, stop_reason: Any = "end_turn") -> None:
        """The turn of the last prompt, from its start to its usage."""
        await self.begin_turn()
        await self.finish(text, used, stop_reason)

    async def begin_turn(self) -> None:
        self.turns += 1
        await self.started(self.session_id, f"t{self.turns}")

    async def finish(self, text: str, used: int | None = None, stop_reason: Any = "end_turn") -> None:
        turn_id = f"t{self.turns}"
        await self.send(self.session_id, "agent.text.done", p.TextDone(
            turn_id=turn_id, block_id=f"b{self.turns}", text=text))
        await self.send(self.session_id, "session.turn.end", p.TurnEnd(turn_id=turn_id, stop_reason=stop_reason))
        await self.send(self.session_id, "session.usage", p.Usage(
            token_usage=p.TokenUsage(input_tokens=3, output_tokens=5),
            cost_usage=p.Quota(limit=-1, used=0, unit="USD"),
            message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"),
            context_window=p.ContextWindow(used=used), time_to_reset="2026-12-01T00:00:00.000Z"))
        await self.settled()

    async def run_turns(self, turns: int, text: str = LONG) -> None:
        """Turns that no one looks at."""
        for number in range(turns):
            await self.ask(f"question {number}")
            await self.answer(text)

    # --- compactions ---
    def asked_for(self) -> Frame:
        """The last request for a summary."""
        return self.wire.last("control.session.compact")

    def requests(self) -> int:
        return self.wire.types().count("control.session.compact")

    async def report(self, summary: str = "so far", **changes: Any) -> None:
        """The agent's answer to the last request, but for `changes`."""
        asked = self.asked_for()
        plan = asked.payload.plan
        fields: dict[str, Any] = {
            "summary": summary, "previous_token_count": 9, "current_token_count": 1, "preserved_elements": {},
            "trigger": "requested", "request_id": asked.payload.request_id,
            "covers": p.Covers(plan["first_kept"], plan["entries"]), **changes}
        in_reply_to = fields.pop("in_reply_to", asked.message_id)
        await self.send(self.session_id, "session.compacted", p.Compacted(**fields), in_reply_to=in_reply_to)
        await self.settled()

    async def refuse(self, sentence: str = "the model said no") -> None:
        await self.send(self.session_id, "session.error", p.SessionError(
            error_code="COMPACTION_FAILED", message=sentence, fatal=False), in_reply_to=self.asked_for().message_id)
        await self.settled()

    # --- what is there ---
    async def context(self) -> ModelContext:
        """The context that the transcript gives a model."""
        desk = self.engine.transcripts
        record = await self.ledger.session(self.session_id)
        assert desk is not None
        assert record is not None
        return await desk.context(record)

    async def messages(self) -> list[dict[str, Any]]:
        """Its messages."""
        return (await self.context()).messages

    async def entries(self, kind: str) -> list[dict[str, Any]]:
        desk = self.engine.transcripts
        record = await self.ledger.session(self.session_id)
        assert desk is not None
        assert record is not None
        tree = await desk.tree(record)
        return [tree.entry(at) for at, node in enumerate(tree.nodes) if node.type == kind]

    async def entry(self) -> Any:
        return (await self.lane(self.session_id)).lane.state.entry

    async def notices(self, code: str) -> list[str]:
        events = await self.ledger.events("default", session_stream(self.session_id), 0, 1_000)
        found = [msgspec.json.decode(event.body) for event in events if event.kind == "notice"]
        return [notice["message"] for notice in found if notice["code"] == code]

    async def audits(self, action: str) -> list[dict[str, Any]]:
        records = [msgspec.json.decode(one.body) for one in await self.ledger.audit("default", 0, 1_000)]
        return [record for record in records if record["action"] == action]
