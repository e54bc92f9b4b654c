"""Chat messages: their key, the session that is due, and its command (R-4, I-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, tzinfo
from typing import Any, NamedTuple

import msgspec
import structlog

from interlock.engine.bridge import entries
from interlock.engine.bridge.commands.prompts import prompt_content
from interlock.engine.bridge.commands.verbs import LaneVerb
from interlock.engine.bridge.inputs.people import (
    ChatMessageReceived,
    ChatWord,
    PolicyAsked,
    PredecessorLeft,
    SentBy,
    SessionReset,
    SessionRetired,
    SystemMessageReceived,
)
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.key_turns import KeyTurn, KeyTurns
from interlock.engine.lanes.lane_shell import BROKEN_WAIT_S, LaneShell
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.membership import Elsewhere, Hold, LaneMoved
from interlock.engine.router import Route, Router
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import LaneName, Ledger, LedgerError, LedgerWrite
from interlock.protocol.identifiers import uuid4
from interlock.protocol.inbound import Received, ResetCause
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import IdempotencyRecord, Principal, SessionRecord
from interlock.protocol.resources import CommandBody, Target
from interlock.session.chat.chat_route import MAIN_ALONE, BadChat, Binding, Chat, Naming, agent_for, chat_key
from interlock.session.chat.chat_words import (
    COMPACTING,
    Word,
    no_status,
    nothing_to_compact,
    read_word,
    stopped_text,
)
from interlock.session.chat.resets import ResetCommand, ResetRules, due, read_reset, reset_for
from interlock.session.chat.send_policy import SendRules, may_send
from interlock.session.keys import BadKey, agent_of, canonical_key

_state = msgspec.json.Decoder(LaneState)
log = structlog.get_logger("interlock.sessions")

Remember = Callable[[Received], IdempotencyRecord]


Compact = Callable[[Principal, str, str | None, Callable[[Any], IdempotencyRecord]], Awaitable[Any]]
ANSWERED_IN_CHAT = frozenset({"Conflict", "UnsupportedCapability", "InvalidPayload", "ApprovalRequired", "Forbidden"})
"""Refusals of a chat command that are sent to the chat as an answer; temporary ones are retried."""


class ChatSettings(NamedTuple):
    """The config of chats. `zone` is the time zone of the daily reset, `models` the models that `/new MODEL`
    accepts."""

    resets: ResetRules = ResetRules()
    zone: tzinfo = UTC
    naming: Naming = MAIN_ALONE
    bindings: Sequence[Binding] = ()
    default_agent: str = "shell"
    workspace: str | None = None
    sending: SendRules = SendRules()
    models: frozenset[str] = frozenset()


class InboundMessage(NamedTuple):
    """A received message: its sender and chat, its text, and its content parts in the form of an execute."""

    chat: Chat
    sender: str
    text: str
    attachments: list[dict[str, Any]]
    idempotency_key: str | None
    described: dict[str, str]
    """Fields of the entry that the channel provides: subject, room, space, displayName."""
    session_key: str | None = None
    """The session's key, if the chat does not determine it."""


class SystemMessage(NamedTuple):
    """A message of a cron job or a hook: it changes no clock, and resets nothing (I-2)."""

    key: str
    agent_id: str
    text: str
    origin: SentBy
    workspace: str | None = None


class ChatInbox:
    """The entry point of messages. Everything it returns is durable. Raises Problem."""

    def __init__(
        self, ledger: Ledger, lanes: Lanes, router: Router, wall: Clock, entropy: Entropy, turns: KeyTurns,
        compact: Compact,
    ) -> None:
        """Create the inbox; `compact` compacts a session's conversation."""
        self._ledger = ledger
        self._lanes = lanes
        self._router = router
        self._wall = wall
        self._entropy = entropy
        self._ask_compact = compact
        self._settings = ChatSettings()
        self._turns = turns
        self._leaving: dict[str, asyncio.Task[None]] = {}
        """New session → the task that ends the work of the previous one, if a gateway ended in between."""

    def configure(self, settings: ChatSettings) -> None:
        """Apply new settings."""
        self._settings = settings

    async def seek(self, principal: Principal, message: InboundMessage | SystemMessage) -> None:
        """Raise Elsewhere if the runner of a message's session is known to be attached to another gateway. Otherwise,
        several gateways with messages of one key would take the key from each other, only to find the session
        elsewhere.
        """
        if isinstance(message, SystemMessage):
            await self._router.follow_key(principal, message.agent_id, message.key, message.workspace)
        else:
            await self._router.follow_key(principal, *self._named(message), self._settings.workspace)

    async def arrive(self, principal: Principal, message: InboundMessage, remember: Remember) -> Received:
        """Accept a message: its command is queued in the session of its key, or nothing runs if policy requires
        silence."""
        agent_id, key = self._named(message)
        word = read_word(message.text) if not message.attachments else None
        async with self._turns.next(principal.tenant_id, key) as turn:
            current = await self._current(principal.tenant_id, key, turn)
            if word is not None:
                return await self._answer(principal, message, agent_id, key, word, remember, turn.hold)
            asked = read_reset(message.text, self._settings.models)
            cause = self._cause(current, message.chat, asked)
            if current is not None and cause == "asked":
                await self._ask_policy(principal, current.session_id)
            route = await self._next(principal, key, agent_id, current, cause)
            answer = await self._say(principal, message, key, route, _Begin(current, cause, asked, turn.hold), remember)
            if current is not None and cause is not None:
                await self._leave(route.session_id, current, principal.who, asked=asked is not None)
            return answer

    async def system(
        self, principal: Principal, message: SystemMessage, remember: Callable[[Received], Sequence[LedgerWrite]]
    ) -> Received:
        """Accept the message of a cron job or a hook. The writes of `remember` are durable with it."""
        body = _execute(message.text, [], None)
        async with self._turns.next(principal.tenant_id, message.key) as turn:
            current = await self._current(principal.tenant_id, message.key, turn)
            if current is not None and not _archived(current):
                route = Route(current.session_id, None, current.runner_id)
            else:
                route = await self._router.fresh(principal, message.agent_id, message.key, message.workspace)

            input_ = SystemMessageReceived(principal, message.key, self._settings.sending, body, message.origin)
            return await (await self._shell(route, turn.hold)).call(input_, keep=remember)

    async def reset(
        self, principal: Principal, session_id: str, remember: Callable[[SessionRecord], IdempotencyRecord]
    ) -> SessionRecord:
        """Start a new session under this one's key; the old session's work ends (I-1). Raises Problem."""
        named = await self._ledger.session(session_id, principal.tenant_id)
        if named is None:
            raise Problem("NotFound", f"There is no session {session_id}")
        async with self._turns.next(principal.tenant_id, named.session_key) as turn:
            current = await self._current(principal.tenant_id, named.session_key, turn)
            assert current is not None
            if current.session_id != session_id:
                raise Problem("Conflict", f"{session_id} is an older session of its key; the current one is "
                              f"{current.session_id}", hint="Reset the current one, or name the key.")
            await self._ask_policy(principal, session_id)
            route = self._successor(current)
            shell = await self._shell(route, turn.hold)

            begun: SessionRecord = await shell.call(SessionReset(principal, session_id), remember)
            await self._leave(begun.session_id, current, principal.who, asked=True)
            return begun

    async def _ask_policy(self, principal: Principal, session_id: str) -> None:
        """Ask policy, in the session that ends, whether this person may reset it now. Raises Problem."""
        shell = await self._lanes.lane(session_id)
        assert shell is not None, "it is the current session of its key"
        await shell.call(PolicyAsked(LaneVerb("reset", principal, {})))

    # --- commands to the gateway itself (V-1) ---
    async def _answer(
        self, principal: Principal, message: InboundMessage, agent_id: str, key: str, word: Word, remember: Remember,
        hold: Hold | None,
    ) -> Received:
        """Answer a chat command to the gateway itself: it starts no session, changes no clock, and is not in a
        transcript."""
        record = await self._ledger.session_by_key(principal.tenant_id, key)
        if record is None:
            silent = not may_send(self._settings.sending, None, message.chat, key)
            texts = {"status": no_status(agent_id, key), "stop": stopped_text(0), "compact": nothing_to_compact()}
            text = texts[word.name]
            return Received(session_id="", session_key=key, reply=None if silent else text, denied=silent)

        if word.name == "compact":
            return await self._compact(principal, record.session_id, message, key, word.rest, remember)

        shell = await self._shell(Route(record.session_id, None, record.runner_id), hold)
        return await shell.call(ChatWord(principal, key, message.chat, self._settings.sending, word.name), remember)

    async def _compact(
        self, principal: Principal, session_id: str, message: InboundMessage, key: str, instructions: str,
        remember: Remember
    ) -> Received:
        """Start the compaction of the conversation; if it is refused, the answer contains the reason."""
        shell = await self._lanes.lane(session_id)
        policy = shell.lane.state.entry.send_policy if shell is not None else None
        silent = not may_send(self._settings.sending, policy, message.chat, key)
        received = Received(session_id=session_id, session_key=key, reply=None if silent else COMPACTING, denied=silent)
        try:
            await self._ask_compact(principal, session_id, instructions or None, lambda _: remember(received))
        except Problem as problem:
            if problem.code not in ANSWERED_IN_CHAT:
                raise
            received = msgspec.structs.replace(received, reply=None if silent else f"Not compacted: {problem.detail}")
        return received

    # --- which session ---
    def _named(self, message: InboundMessage) -> tuple[str, str]:
        """Return the agent that answers a message, and the key of its session (R-1, R-3). Raises Problem."""
        settings = self._settings
        if message.session_key is not None:
            try:
                key = canonical_key(message.session_key, settings.default_agent)
            except BadKey as bad:
                raise _malformed("session_key", str(bad)) from None
            return agent_of(key), key
        agent_id = agent_for(message.chat, settings.bindings, settings.default_agent)
        try:
            return agent_id, chat_key(message.chat, agent_id, settings.naming)
        except BadChat as bad:
            raise _malformed(*bad.args) from None

    def _cause(self, current: LaneState | None, chat: Chat, reset: ResetCommand | None) -> ResetCause | None:
        """Return why the message starts a new session; None if it continues the current one, or starts the first."""
        if current is None or _archived(current):
            return None
        if reset is not None:
            return "asked"
        rule = reset_for(self._settings.resets, chat.chat_type, chat.channel.lower(),
                         thread=bool(chat.thread_id or chat.topic_id))
        return due(rule, entries.clocks_of(current), self._wall.now_ms(), self._settings.zone)

    async def _next(
        self, principal: Principal, key: str, agent_id: str, current: LaneState | None, cause: ResetCause | None
    ) -> Route:
        if current is None or _archived(current):
            return await self._router.fresh(principal, agent_id, key, self._settings.workspace)
        if cause is None:
            return Route(current.session_id, None, current.runner_id)
        if current.controller:
            raise Problem("Conflict", f"The session {current.session_id} is controlled by another gateway")
        return self._successor(current)

    def _successor(self, current: LaneState) -> Route:
        session_id = uuid4(self._entropy(16))
        # Never before its predecessor, whatever the clock did: the newest session is the key's current one.
        now_ms = max(self._lanes.clock.now_ms(), current.created_ms + 1)
        return Route(session_id, entries.successor(current, session_id, now_ms), current.runner_id)

    # --- the outcome of the message ---
    async def _say(
        self, principal: Principal, message: InboundMessage, key: str, route: Route, begin: _Begin, remember: Remember
    ) -> Received:
        text = begin.asked.text if begin.asked is not None else message.text
        silent = not text.strip() and not message.attachments
        if silent and begin.asked is None:
            raise Problem("InvalidPayload", "/text: the message is empty", errors=(Place("/text", "is empty"),))
        body = None if silent else _execute(text, message.attachments, message.idempotency_key)

        input_ = ChatMessageReceived(
            principal, key, message.chat, message.described, self._settings.sending, body,
            begins=route.fresh is not None, before=begin.before.session_id if begin.before is not None else "",
            cause=begin.cause, model=begin.model)
        return await (await self._shell(route, begin.hold)).call(input_, remember)

    async def _leave(self, session_id: str, before: LaneState, who: dict[str, str], *, asked: bool) -> None:
        """End the old session's work. The obligation is durable with the new session, so a gateway that ends in between
        fulfils it after its start."""
        shell = await self._lanes.lane(before.session_id)  # It was encountered before anything was done.
        if shell is not None and not before.controller:
            await shell.call(SessionRetired(who, asked))
        after = await self._lanes.lane(session_id)
        if after is not None:
            await after.call(PredecessorLeft())

    def watch(self, lane: Lane) -> None:
        """Resume what an ended gateway left to do; called with each decision of every lane."""
        state = lane.state
        is_busy = self._turns.are_taken(state.tenant_id, state.session_key)
        if state.leaves and not is_busy and state.session_id not in self._leaving:
            task = asyncio.create_task(self._leave_later(state), name=f"leave {state.leaves}")
            self._leaving[state.session_id] = task
            task.add_done_callback(lambda _done: self._leaving.pop(state.session_id, None))

    async def stop(self) -> None:
        """Stop; unfinished work is done after the next start."""
        for task in (tasks := [*self._leaving.values()]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _leave_later(self, state: LaneState) -> None:
        try:
            async with self._turns.next(state.tenant_id, state.session_key):
                before = await self._ledger.session(state.leaves, state.tenant_id)
                if before is not None and state.leaves:
                    await self._leave(state.session_id, _state.decode(before.machine), SYSTEM, asked=state.leaves_asked)
        except (Elsewhere, LaneMoved, Problem, LedgerError) as error:
            if self._lanes.peek(state.session_id) is None:
                return  # The gateway that owns the new session ends the old one.
            log.warning("a reset's old session could not be left yet", session_id=state.leaves, error=str(error))
            self._lanes.wake(LaneName(state.tenant_id, state.session_id), BROKEN_WAIT_S)

    async def _current(self, tenant_id: str, key: str, turn: KeyTurn) -> LaneState | None:
        record = await self._ledger.session_by_key(tenant_id, key)
        if record is None:
            return None
        shell = self._lanes.peek(record.session_id)
        if shell is None and self._lanes.room.shared:
            if record.session_id != turn.taken:
                await self._lanes.meet(LaneName(record.tenant_id, record.session_id), record.runner_id)
            record = await self._ledger.session(record.session_id, tenant_id) or record
            shell = self._lanes.peek(record.session_id)
        return shell.lane.state if shell is not None else _state.decode(record.machine)

    async def _shell(self, route: Route, hold: Hold | None) -> LaneShell:
        shell = await self._lanes.lane(route.session_id, route.fresh, hold)
        assert shell is not None, "the session is there, or begins"
        return shell


class _Begin(NamedTuple):
    """How a message's session starts: after which one, why, and with which model."""

    before: LaneState | None
    cause: ResetCause | None
    asked: ResetCommand | None
    hold: Hold | None

    @property
    def model(self) -> str | None:
        return self.asked.model if self.asked is not None else None


def _malformed(field: str, sentence: str) -> Problem:
    return Problem("InvalidPayload", f"/{field}: {sentence}", errors=(Place(f"/{field}", sentence),))


def _archived(state: LaneState) -> bool:
    return state.entry.archived_at is not None


def _execute(text: str, attachments: list[dict[str, Any]], idempotency_key: str | None) -> CommandBody:
    parts = [*([{"contentType": "text", "value": text}] if text.strip() else []), *attachments]
    payload = msgspec.json.encode({"messages": [{"role": "user", "content": parts}]})
    prompt_content(payload)  # Content that cannot be sent is refused here, before anything is decided.
    return CommandBody(type="execute", target=Target(), payload=msgspec.Raw(payload), idempotency_key=idempotency_key)
