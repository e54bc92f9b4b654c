"""Permission requests of an agent: sent, held, answered, or refused by the runner (A-5, A-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlock.ports.agent import AgentQuestion, InteractionAnswer, Option
from interlock.protocol import payloads as p
from interlock.protocol.denial_text import No
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import EXPIRY_SLACK_MS, HELD_TIMEOUT_MS
from interlock.runner.journal import MAX_NAME_CHARS, MAX_TITLE_CHARS, Journal
from interlock.runner.turn.blocks import sound
from interlock.runner.turn.resolved_paths import resolved_paths


def subject_bytes(question: AgentQuestion, resolved_paths: Mapping[str, str]) -> bytes:
    """Encode an InteractionSubject as JSON, with the request's input and content byte for byte."""
    return msgspec.json.encode(p.InteractionSubject(
        tool_name=question.tool_name[:MAX_NAME_CHARS],
        title=sound(question.title)[:MAX_TITLE_CHARS],
        kind=question.kind[:MAX_NAME_CHARS] if question.kind else None,
        input=msgspec.Raw(question.input_json or b"{}"),
        content=msgspec.Raw(question.content_json) if question.content_json else msgspec.UNSET,
        locations=[sound(path) for path in question.locations],
        described=question.described,
        changed=question.changed,
        resolved_paths={sound(path): sound(real) for path, real in resolved_paths.items()},
    ))


MAX_OPTIONS = 32
"""Options shown for one question; once-options count only among these (A-9)."""
BY_RUNNER = "runner"


class Waits(NamedTuple):
    """Time limits of a question in seconds; shorter in tests."""

    held_s: float = HELD_TIMEOUT_MS / 1000
    slack_s: float = EXPIRY_SLACK_MS / 1000


class LivePresence:
    """The gateways whose links are live, with callbacks for changes."""

    def __init__(self, live: bool = False) -> None:
        self._live = {""} if live else set[str]()
        self._watchers: set[Callable[[], None]] = set()

    def live(self, gateway_id: str) -> bool:
        """Return whether the link to this gateway is up."""
        return gateway_id in self._live

    def set(self, live: bool, gateway_id: str = "") -> None:
        """Record that a link came up or went down."""
        if live:
            self._live.add(gateway_id)
        else:
            self._live.discard(gateway_id)
        for watcher in list(self._watchers):
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` at every change."""
        self._watchers.add(watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling it."""
        self._watchers.discard(watcher)


class InteractionVerdict(NamedTuple):
    """The outcome of a question. `option_id` is the option that the person chose, if any."""

    outcome: p.Outcome
    by: str
    message: str | None = None
    option_id: str | None = None
    answer: str | None = None
    updated_input: dict[str, Any] | None = None


class _Pending:
    """A question that waits for its answer."""

    def __init__(self, interaction_id: str, question: AgentQuestion, subject: bytes, live: bool, now: float) -> None:
        self.interaction_id = interaction_id
        self.question = question
        self.subject = subject
        self.verdict: InteractionVerdict | None = None
        self.voided = False
        self.changed = asyncio.Event()
        self.live_since = now if live else None
        self.expires_at: float | None = None

    def settle(self, verdict: InteractionVerdict) -> None:
        """Set the verdict; only the first counts."""
        if self.verdict is None:
            self.verdict = verdict
            self.changed.set()

    def deadline(self, waits: Waits) -> float | None:
        if self.expires_at is not None:
            return self.expires_at
        return None if self.live_since is None else self.live_since + waits.held_s

    def lapse(self) -> None:
        """Settle at the deadline: no gateway confirmed the question, or it expired."""
        if self.expires_at is None:
            self.settle(InteractionVerdict("denied", BY_RUNNER,
                                           "The gateway did not confirm that it holds the question."))
        else:
            self.settle(InteractionVerdict("expired", BY_RUNNER, "No one answered in time."))


class Interactions:
    """The open questions of one session's turn. Each question is resolved exactly once, in the outbox, before the agent
    receives the answer."""

    def __init__(self, journal: Journal, presence: LivePresence, waits: Waits,
                 controller: Callable[[], str] = lambda: "") -> None:
        """`controller` returns the gateway that answers: only its link counts (D-5)."""
        self._controller = controller
        self._journal = journal
        self._presence = presence
        self._waits = waits
        self._pending: dict[str, _Pending] = {}
        self._order = asyncio.Lock()
        """Keeps questions in the order in which they were asked, however long resolving their paths takes."""
        self._voids = 0
        """How often all waiting questions were voided."""
        self._going = asyncio.Event()
        self._going.set()
        presence.watch(self._link_changed)

    @property
    def waiting(self) -> bool:
        """Return whether the agent waits for a person."""
        return bool(self._pending)

    @property
    def agent_state(self) -> p.AgentState:
        """Return the agent's state as far as questions decide it: waiting for approval, for input, for nothing, or
        paused."""
        if self.stopped:
            return "paused"
        if any(pending.question.interaction_type == "PERMISSION" for pending in self._pending.values()):
            return "waiting_approval"
        return "waiting_input" if self._pending else "running"

    @property
    def stopped(self) -> bool:
        """Return whether a pause holds back every answer (C-6)."""
        return not self._going.is_set()

    def hold(self) -> None:
        """Hold back answers from now on, so that no further tool begins (C-6); their deadlines keep running."""
        self._going.clear()

    def let_go(self) -> None:
        """End the pause: deliver held answers to the agent."""
        self._going.set()
        for pending in self._pending.values():
            pending.changed.set()

    async def going(self) -> None:
        """Wait until no pause holds back answers."""
        await self._going.wait()

    def close(self) -> None:
        """Stop watching the link."""
        self._presence.unwatch(self._link_changed)

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask and wait. A yes is durable before it is returned (P-2)."""
        async with self._order:
            voids = self._voids
            subject = subject_bytes(question, await resolved_paths(question, self._journal.state.workspace))
            if voids != self._voids:  # The turn ended meanwhile, and no question may follow its end.
                return InteractionAnswer(False, None, "The turn has ended.")
            pending = _Pending(self._journal.new_uuid(), question, subject, self._live, _now())
            self._pending[pending.interaction_id] = pending
            try:
                # During a pause this question is the boundary at which the agent stops (C-6).
                await self._journal.write(self._request(pending), *self._journal.state_changed(self.agent_state))
            except BaseException:
                self._pending.pop(pending.interaction_id, None)
                raise
        try:
            verdict = await self._wait(pending)
        except asyncio.CancelledError:
            # The asking task no longer waits: a later decision cannot reach it.
            if not pending.voided:
                await self._resolve(pending.interaction_id,
                                    InteractionVerdict("void", BY_RUNNER, "The agent no longer asks."))
            raise
        if pending.voided:
            return InteractionAnswer(False, None, verdict.message)
        await self._resolve(pending.interaction_id, verdict)
        await self._journal.durable()
        return choose(verdict, question)

    async def _resolve(self, interaction_id: str, verdict: InteractionVerdict) -> None:
        del self._pending[interaction_id]
        states = [] if self.stopped else self._journal.state_changed(self.agent_state)
        await self._journal.write(self._resolved(interaction_id, verdict), *states)

    async def _wait(self, pending: _Pending) -> InteractionVerdict:
        while pending.verdict is None or (self.stopped and not pending.voided):
            pending.changed.clear()
            deadline = pending.deadline(self._waits) if pending.verdict is None else None
            try:
                async with asyncio.timeout(None if deadline is None else max(deadline - _now(), 0)):
                    await pending.changed.wait()
            except TimeoutError:
                pending.lapse()
        return pending.verdict

    def take(self, payload: p.InteractionResponse | p.InteractionTimeout | p.InteractionHeld) -> bool:
        """Handle a gateway frame about a question. Return False if no such question waits."""
        match payload:
            case p.InteractionResponse():
                return self.respond(payload)
            case p.InteractionTimeout():
                return self.timeout(payload)
            case _:
                return self.held(payload)

    def respond(self, payload: p.InteractionResponse) -> bool:
        """Settle a question with the decision of a person or rule. Return False if no such question waits."""
        pending = self._pending.get(payload.interaction_id)
        if pending is None:
            return False
        pending.settle(_verdict(pending.question, payload))
        return True

    def timeout(self, payload: p.InteractionTimeout) -> bool:
        """Deny a question that expired on the gateway's clock. Return False if no such question waits."""
        pending = self._pending.get(payload.interaction_id)
        if pending is None:
            return False
        pending.settle(InteractionVerdict("expired", "gateway", "No one answered in time."))
        return True

    def held(self, payload: p.InteractionHeld) -> bool:
        """Note that the gateway has the question and its clock runs; the runner's is only the last resort (A-5)."""
        pending = self._pending.get(payload.interaction_id)
        if pending is None:
            return False
        pending.expires_at = _now() + payload.expires_in_ms / 1000 + self._waits.slack_s
        pending.changed.set()
        return True

    @property
    def _live(self) -> bool:
        return self._presence.live(self._controller())

    def _request(self, pending: _Pending) -> Frame:
        kind, turn = pending.question.kind, self._journal.state.turn
        marks = {**({"kind": kind[:MAX_NAME_CHARS]} if kind else {}),
                 **({"silent": True} if turn is not None and turn.silent else {})}
        payload = _request(pending.interaction_id, pending.question, pending.subject)
        return self._journal.frame("agent.interaction.request", payload, marks)

    def ask_again(self) -> list[Frame]:
        """Void the questions that the old controller was asked, and ask the new one under new ids (D-5). Decided ones
        stay decided. Returns the frames to be written at once."""
        frames: list[Frame] = []
        for interaction_id, pending in list(self._pending.items()):
            if pending.verdict is not None:
                continue
            del self._pending[interaction_id]
            frames.append(self._resolved(interaction_id, InteractionVerdict("void", BY_RUNNER)))
            pending.interaction_id = self._journal.new_uuid()
            pending.expires_at, pending.live_since = None, _now() if self._live else None
            pending.changed.set()
            self._pending[pending.interaction_id] = pending
            frames.append(self._request(pending))
        return frames

    def void(self, reason: str) -> list[Frame]:
        """Deny all waiting questions. Returns the frames to be written at once."""
        self._voids += 1
        frames: list[Frame] = []
        for interaction_id, pending in self._pending.items():
            verdict = InteractionVerdict("void", BY_RUNNER, reason)
            pending.voided, pending.verdict = True, verdict
            pending.changed.set()
            frames.append(self._resolved(interaction_id, verdict))
        self._pending.clear()
        return frames

    def _resolved(self, interaction_id: str, verdict: InteractionVerdict) -> Frame:
        payload = p.InteractionResolved(
            interaction_id=interaction_id, outcome=verdict.outcome, by=verdict.by, decided_at=self._journal.at
        )
        return self._journal.frame("x-interlock.interaction.resolved", payload)

    def _link_changed(self) -> None:
        for pending in self._pending.values():
            if (pending.live_since is not None) != self._live:
                pending.live_since = _now() if self._live else None
            pending.changed.set()


def once(options: list[Option], kind: p.OptionKind, named: str | None = None) -> str | None:
    """Return the named option if it is of this kind, else the first of the kind, else None. Always-options are never
    chosen (A-9)."""
    ids = [option.option_id for option in options if option.kind == kind]
    if named in ids:
        return named
    return ids[0] if ids else None


def _verdict(question: AgentQuestion, response: p.InteractionResponse) -> InteractionVerdict:
    """Return the outcome of a response: it is a yes only if the agent can receive all of it (P-2, C-8)."""
    if response.decision == "deny":
        # The agent receives the person or rule that denied it, in the form that its protocol has for that (Y-5).
        reason = (response.message if question.interaction_type == "QUESTION"
                  else No(response.by, response.message).sentence())
        return InteractionVerdict("denied", response.by, reason, response.option_id)
    if question.interaction_type == "QUESTION" and response.answer is None:
        return InteractionVerdict("denied", response.by, response.message or "There is no answer.")
    if response.updated_input is not None and not question.takes_input:
        return InteractionVerdict("denied", BY_RUNNER, "This agent does not accept a changed input (updated_input).")
    return InteractionVerdict("allowed", response.by, response.message, response.option_id, response.answer,
                              response.updated_input)


def choose(verdict: InteractionVerdict, question: AgentQuestion) -> InteractionAnswer:
    """Return the answer for the agent. Without a once-option a yes cannot be expressed, so it is a no with the reason.
    """
    options = question.options
    if verdict.outcome == "allowed" and question.interaction_type == "QUESTION":
        return InteractionAnswer(True, None, verdict.message, verdict.answer)
    if verdict.outcome == "allowed":
        option_id = once(options, "allow_once", verdict.option_id)
        if option_id is not None:
            return InteractionAnswer(True, option_id, verdict.message, updated_input=verdict.updated_input)
    return InteractionAnswer(False, once(options, "reject_once", verdict.option_id), verdict.message)


def _request(interaction_id: str, question: AgentQuestion, subject: bytes) -> p.InteractionRequest:
    return p.InteractionRequest(
        interaction_id=interaction_id,
        interaction_type=question.interaction_type,
        title=sound(question.title)[:MAX_TITLE_CHARS],
        context=p.InteractionContext(
            tool_name=question.tool_name[:MAX_NAME_CHARS],
            invocation_id=question.invocation_id,
            input=msgspec.Raw(question.input_json),
            subject=msgspec.Raw(subject),
        ),
        options=[
            p.InteractionOption(
                option_id=option.option_id, label=sound(option.label)[:MAX_TITLE_CHARS], kind=option.kind
            )
            for option in question.options[:MAX_OPTIONS]
        ],
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
