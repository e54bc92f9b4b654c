"""The engine: it routes the requests of REST and the link to the lane that decides them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from interlock.command.approval import Ballot, count, too_late, withdraw
from interlock.command.audit.register import row_of
from interlock.command.policy import remembered_rule
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.audit_readiness import Signing
from interlock.engine.bridge.approvals.asking_agents import ANSWER_UNUSED
from interlock.engine.bridge.commands.dispatch import waits_for_trust
from interlock.engine.bridge.commands.verbs import LaneVerb, verb_body
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.gateway import RulesChanged
from interlock.engine.bridge.inputs.people import (
    CardsReported,
    CommandSubmitted,
    LateVoteAnswered,
    PolicyAsked,
    QuestionAnswered,
    VoteCast,
    VoteWithdrawn,
)
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.engine.chats import ChatInbox
from interlock.engine.cluster.cluster import Cluster
from interlock.engine.cluster_sync import ClusterPeers
from interlock.engine.drains import Drains
from interlock.engine.engine_status import EngineStatus
from interlock.engine.lanes.key_turns import KeyTurns
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.lanes.rows import RowAudit
from interlock.engine.lanes.spend import read_spending, shown
from interlock.engine.membership import Hold, Room
from interlock.engine.presence import RunnerPresence
from interlock.engine.router import Route, Router
from interlock.engine.sessions.compactor import Compactor
from interlock.engine.sessions.session_desk import Remember, SessionDesk
from interlock.engine.sessions.transcript_desk import TranscriptDesk
from interlock.engine.sessions.transcript_writer import TranscriptWriter
from interlock.engine.sessions.workspace_looks import WorkspaceLooks
from interlock.engine.setbacks import Setbacks
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.clock import Clock, Entropy
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Ledger, LedgerError, Note, StoredBallot, WriteBatch
from interlock.ports.objects import Objects
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.clock import iso
from interlock.protocol.drains import DrainBody
from interlock.protocol.problems import Problem
from interlock.protocol.records import CommandRecord, Principal, RuleRecord, SigningKeyRecord
from interlock.protocol.resources import Approval, Budget, CardsBody, Command, CommandBody, GrantBody, Heartbeat, Node


class Engine:
    """Commands, approvals and sessions of one gateway. Every method that changes something returns when it is durable.

    Raises Problem for every refusal (F-1).
    """

    def __init__(
        self,
        ledger: Ledger,
        viewers: Viewers,
        clock: Clock,
        entropy: Entropy,
        policy: RuleSet,
        limits: Limits,
        transcripts: TranscriptStore | None = None,
        objects: Objects | None = None,
        wall: Clock | None = None,
        signing: Signing | None = None,
        decide: Decide = decide,
        room: Room | None = None,
        gateway_id: str = "",
    ) -> None:
        """Create the engine. `transcripts` stays the caller's to close, after `stop`; without it no transcript is kept.
        Without `objects` files stay in their frames, and cannot be fetched by name. `clock` is the deadline
        clock, `wall` the machine's own, which is shown; both may be the same. `decide` is the kernel's, or a wrapper
        that records it. `room` are the gateways that share the ledger, if any; `gateway_id` is this one's, as sent to
        runners."""
        self.objects = objects
        self.ledger = ledger
        self.viewers = viewers
        self.clock = wall or clock
        self.policy = policy
        self.rows = RowAudit(ledger, self.clock)
        """Compares keys, rules and other deciding rows with the audit log (H-5)."""
        self._remembered: list[Rule] = []
        self._remembered_counts: Counter[str] = Counter()
        self._up = False
        self.presence = RunnerPresence()
        self.lanes = Lanes(ledger, viewers, clock, entropy, limits, transcripts, objects, decide, wall=self.clock,
                           rows=self.rows, link_of=self.presence.link_of, room=room, gateway_id=gateway_id,
                           conditions=self._conditions)
        self.drains = Drains(ledger, self.clock, self.rows, self._permit_drain, shared=self.lanes.room.shared)
        self.drains.on_undrained.connect(self.lanes.look_again)
        self.signing = signing or Signing()
        self.setbacks = Setbacks()
        self.signing.on_resumed(self.lanes.look_again)
        self._writer = TranscriptWriter(ledger, transcripts) if transcripts is not None else None
        if self._writer is not None:
            self.lanes.on_transcript.connect(self._writer.nudge)
        self._router = Router(ledger, self.presence, clock, entropy, self.lanes.shells, wall=self.clock)
        self.looks = WorkspaceLooks(self.presence, self.clock, entropy, self._router.look)
        """Requests workspace changes, as reported by git, from runners (J-4)."""
        self.transcripts = None if transcripts is None or self._writer is None else TranscriptDesk(
            ledger, transcripts, self._writer, self.lanes, self._router)
        """People's requests about transcripts (X-6); None if none are kept."""
        self.compactor = None if transcripts is None or self._writer is None else Compactor(
            self.lanes, transcripts, self._writer)
        """Reads and plans for sessions whose context the gateway owns; None if no transcripts are kept."""
        if self.compactor is not None:
            self.lanes.on_context.connect(self.compactor.watch)
        self.sessions = SessionDesk(self.lanes, self.presence, self.compactor)
        self._turns = KeyTurns(ledger, self.lanes)
        self.chats = ChatInbox(ledger, self.lanes, self._router, self.clock, entropy, self._turns,
                               self.sessions.compact)
        self.lanes.on_leaving.connect(self.chats.watch)

    def configure(self, policy: RuleSet, limits: Limits) -> None:
        """Apply new settings; earlier decisions and remembered rules are unaffected."""
        self.policy = policy.remembering(self._remembered)
        self.lanes.configure(limits)

    async def start(self) -> None:
        """Resume what an earlier gateway left: transcript lines are written (X-3), clocks continue (C-4)."""
        if self._writer is not None:
            self._writer.start()
        await self.read_rules()
        await self.drains.learn()
        await read_spending(self.lanes.spending, self.ledger, self.lanes.clock.now_ms())
        await self.lanes.wake_due()
        self._up = True

    async def adopt(self) -> bool:
        """Bind the rows and sessions of an earlier version's ledger, once; before `start` (H-5)."""
        return await self.rows.adopt(self.lanes.sealable)

    async def learn_rules(self) -> None:
        """Reload the remembered rules after one was changed here (A-9)."""
        await self.read_rules()
        self.lanes.room.hint("rules")

    async def read_rules(self) -> None:
        """Read the remembered rules that are in force from the ledger (A-9). A denial that cannot be read is an error;
        a yes that has become unsafe is omitted, and so asked for again."""
        records = await self._genuine_rules()
        remembered: list[Rule] = await self._without_denials(records)
        for record in records:
            with suppress(remembered_rule.Unsafe):
                remembered.append(remembered_rule.read(record.rule))
        self._remembered = remembered
        self._remembered_counts = Counter(record.rule.tenant_id for record in records)
        self.policy = self.policy.remembering(self._remembered)
        for shell in self.lanes.live():
            if waits_for_trust(shell.lane):
                shell.send(RulesChanged())

    async def _genuine_rules(self) -> list[RuleRecord]:
        """Return the remembered rules that match their audit records (H-5)."""
        read = self.ledger.rule
        found = [await self.rows.genuine(one.rule.tenant_id, one, partial(read, one.rule.id, one.rule.tenant_id))
                 for one in await self.ledger.rules()]
        return [one for one in found if one is not None and one.rule.revoked_at is None]

    async def _without_denials(self, records: Sequence[RuleRecord]) -> list[Rule]:
        """Return a rule that asks about each call of a tenant, for each denial of it that was changed or removed by
        hand: without the denial, calls that a person has denied would run (H-5)."""
        there = {row_of(one).name for one in records}
        tenants = {one.tenant_id for one in await self.ledger.tenants()} | {OWNER_TENANT}
        return [Rule(name=f"{name.partition('/')[2]} differs from its audit record", effect="ask", tenant=tenant_id)
                for tenant_id in sorted(tenants) for name in await self.rows.lost_denials(tenant_id, there)]

    def join(self, cluster: Cluster, on_replaced: Callable[[str], None]) -> ClusterPeers:
        """Join the cluster that is this engine's room; before `start`. `on_replaced` is called with a runner that
        attached elsewhere."""
        peers = ClusterPeers(self, cluster, on_replaced)
        self._router.look_by(peers.look_at_runners)
        return peers

    async def stop(self) -> None:
        """End all lanes; everything acknowledged is durable."""
        self._up = False
        await self.chats.stop()
        if self.compactor is not None:
            await self.compactor.stop()
        await self.lanes.stop()
        if self._writer is not None:
            await self._writer.stop()

    def seek(self, principal: Principal, body: CommandBody, *, guess: bool) -> Awaitable[Route] | None:
        """Start to find where a command goes, for `submit`, if that is read from a networked ledger. With `guess` it
        raises Elsewhere if the session's runner is known to be attached to another gateway."""
        if not self.lanes.room.shared or (body.type == "execute" and body.target.session_id is not None
                                          and self.lanes.peek(body.target.session_id) is not None):
            return None
        return self._router.seek(principal, body, guess=guess)

    async def submit(self, principal: Principal, body: CommandBody, remember: Remember, route: Route | None = None
                     ) -> Command:
        """Accept a command (C-0). `route` is the result of `seek`."""
        if route is None and body.type == "execute":
            route = self._router.at_hand(principal, body.target)
        if route is None:
            route = await self._router.find(principal, body)
        if route.fresh is None or body.target.session_key is None:
            return await self._submit(route, principal, body, remember)
        # Two requests that open one key's session at the same time must not create two sessions: the second waits
        # until the first one's is durable, and looks it up again.
        async with self._turns.first(route.fresh.tenant_id, route.fresh.session_key) as hold:
            return await self._submit(await self._router.find(principal, body), principal, body, remember, hold)

    async def _submit(self, route: Route, principal: Principal, body: CommandBody, remember: Remember,
                      hold: Hold | None = None) -> Command:
        shell = self.lanes.shells.get(route.session_id) or await self.lanes.need(route.session_id, route.fresh, hold)
        return await shell.call(CommandSubmitted(principal, body), remember)

    def _conditions(self, state: LaneState, inputs: Sequence[LaneInput]) -> Conditions:
        """Return the current conditions of a decision in a session's lane."""
        unsigned = self.signing.stalled.get(state.tenant_id)
        # Work that waits in a session keeps waiting: for the end of a drain, or of what keeps its log unsigned.
        starts_nothing = (unsigned is not None or state.tenant_id in self.setbacks.held
                          or (bool(self.drains.in_force) and self.drains.covers(state)))
        # Its runner's offer is needed for a closed session only, and only an earlier input can close it.
        offer = self._offer(state) if state.opening == "closed" or len(inputs) > 1 else None
        return Conditions(self.lanes.clock.now_ms(), self.clock.now_ms(), self.policy, starts_nothing, unsigned, offer)

    async def ballot(self, principal: Principal, approval_id: str, *, guess: bool) -> StoredBallot:
        """Read an approval with what a vote on it needs, for `vote`, `withdraw` and `answer`. With `guess` it raises
        Elsewhere if the runner of its session is known to be attached to another gateway."""
        return await self._router.ballot(principal, approval_id, guess=guess)

    async def vote(self, principal: Principal, approval_id: str, body: GrantBody, remember: Remember,
                   stored: StoredBallot | None = None) -> Approval:
        """Count a vote (P-3). `stored` is the result of `ballot`."""
        stored = stored or await self.ballot(principal, approval_id, guess=False)
        shell = await self.lanes.need(stored.approval.approval.session_id)
        named = await self._signing_key(body.key_id, principal.tenant_id) if body.key_id else None
        voted: Approval | None = await shell.call(VoteCast(
            principal, approval_id, body, stored.approval, stored.command, named.key if named is not None else None,
            self._remembered_counts[principal.tenant_id]), remember)
        if voted is None:
            return await self._vote_late(principal, approval_id, body, remember)
        if voted.remembered is not None:
            await self.learn_rules()
        return voted

    async def _signing_key(self, key_id: str, tenant_id: str) -> SigningKeyRecord | None:
        record = await self.ledger.signing_key(key_id, tenant_id)
        if record is None or (record.key.key_id, record.key.tenant_id) != (key_id, tenant_id):
            return None
        return await self.rows.genuine(tenant_id, record, lambda: self.ledger.signing_key(key_id, tenant_id))

    async def withdraw(self, principal: Principal, approval_id: str, remember: Remember,
                       stored: StoredBallot | None = None) -> Approval:
        """Withdraw a vote that has decided nothing yet (P-3). `stored` is the result of `ballot`."""
        stored = stored or await self.ballot(principal, approval_id, guess=False)
        shell = await self.lanes.need(stored.approval.approval.session_id)

        taken: Approval | None = await shell.call(VoteWithdrawn(principal, approval_id), remember)
        if taken is None:
            record = await self.ledger.approval(approval_id, principal.tenant_id)
            assert record is not None
            return withdraw(record.approval, principal.actor, iso(self.clock.now_ms()), principal.driver)
        return taken

    async def report_cards(self, principal: Principal, approval_id: str, body: CardsBody, remember: Remember,
                           stored: StoredBallot | None = None) -> Approval:
        """Store where a bridge has posted an approval (J-5). `stored` is the result of `ballot`."""
        stored = stored or await self.ballot(principal, approval_id, guess=False)
        shell = await self.lanes.need(stored.approval.approval.session_id)
        return await shell.call(CardsReported(principal, approval_id, body.service, body.chats), remember)

    async def _vote_late(
        self, principal: Principal, approval_id: str, body: GrantBody, remember: Remember
    ) -> Approval:
        """Answer a vote on a decided approval. The approval is read only now: an earlier read could still have seen it
        pending."""
        record = await self.ledger.approval(approval_id, principal.tenant_id)
        assert record is not None
        at = iso(self.clock.now_ms())
        ballot = Ballot(by=principal.actor, decision=body.decision, at=at, digest=body.digest,
                        driver=principal.driver, option_id=body.option_id, key_makers=principal.key_makers)
        approval = count(record.approval, ballot).approval
        shell = await self.lanes.need(record.approval.session_id)
        return await shell.call(LateVoteAnswered(approval), remember)

    async def answer(self, principal: Principal, approval_id: str, text: str | None, remember: Remember,
                     stored: StoredBallot | None = None) -> Approval:
        """Answer an agent's question (C-8). `stored` is the result of `ballot`."""
        stored = stored or await self.ballot(principal, approval_id, guess=False)
        shell = await self.lanes.need(stored.approval.approval.session_id)
        answered: Approval | None = await shell.call(QuestionAnswered(principal, approval_id, text), remember)
        if answered is None:
            record = await self.ledger.approval(approval_id, principal.tenant_id)
            assert record is not None
            raise Problem("Conflict", too_late(record.approval, ANSWER_UNUSED))
        return answered

    async def _permit_drain(self, principal: Principal, verb: str, body: DrainBody) -> None:
        """Ask policy about a drain or its end: in its session's lane, otherwise in the tenant's lane. Raises
        Problem."""
        in_session = body.scope == "session" and body.id is not None
        shell = await self.lanes.need(body.id if in_session and body.id else tenant_lane_id(principal.tenant_id))
        lane_verb = LaneVerb(verb, principal, verb_body(body), f"{body.scope} {body.id or ''}".strip(),
                              None if in_session else (body.id or "") if body.scope == "agent" else "")
        await shell.call(PolicyAsked(lane_verb))

    def budgets(self, tenant_id: str) -> list[Budget]:
        """Return a tenant's budgets, and today's usage of them (P-7)."""
        return shown(self.lanes.limits.budgets, self.lanes.spending, tenant_id, self.lanes.clock.now_ms())

    def heartbeat(self, record: CommandRecord) -> Heartbeat | None:
        """Return the runner's last heartbeat that vouched for this command's agent (S-2); None if there was none."""
        command = record.command
        shell = self.lanes.peek(record.session_id)
        there = command.started_at is not None if shell is None else shell.lane.state.active == command.id
        present = self.presence.get(command.target.runner_id or "") if there else None
        live = present.live.get(record.session_id) if present is not None and present.attached else None
        if present is None or live is None:
            return None
        return Heartbeat(event="heartbeat", command_id=command.id, agent_id=live.agent_id,
                         at=iso(present.last_seen_ms), state=live.state)

    async def nodes(self, tenant_id: str) -> list[Node]:
        """Return the runners of a tenant (L-6)."""
        await self._router.look()
        return [self.presence.node(record) for record in await self.ledger.runners(tenant_id) if not record.revoked]

    async def seen(self, tenant_id: str, runner_id: str) -> None:
        """Record that a runner attached or detached (L-6). A failure affects only a detail of a listing."""
        with contextlib.suppress(LedgerError):
            await self.ledger.commit(WriteBatch([Note(RUNNERS, tenant_id, runner_id, self.clock.now_ms())]))

    @property
    def up(self) -> bool:
        """Return whether its lanes accept jobs: it has started, and has not begun to stop."""
        return self._up

    def engine_status(self) -> EngineStatus:
        """Return its current status."""
        return EngineStatus(self._up, [len(shell.inbox) for shell in self.lanes.live()], self.presence.online())

    def _offer(self, state: LaneState) -> Any:
        present = self.presence.get(state.runner_id)
        return present.offer(state.agent_id) if present is not None else None

