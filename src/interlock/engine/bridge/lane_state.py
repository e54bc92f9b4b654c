"""A lane's state: its clocks, and what it stores over a restart."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from interlock.command.policy.budget import BudgetRule, Spending
from interlock.engine.bridge.context.context_state import CompactionRules, ContextState
from interlock.protocol.box import Box, is_closed
from interlock.protocol.hold import PROGRAMS_HELD, Holding
from interlock.protocol.limits import APPROVAL_TTL_MS, DETACH_TTL_MS, PAUSE_TTL_MS, QUEUE_TTL_MS, TIMEOUT_DEFAULT_MS
from interlock.protocol.payloads import FileTransfer, InteractionResponse, StopReason
from interlock.protocol.resources import Target, WorkspaceAccess
from interlock.session.store.entry import SessionFields
from interlock.session.turn import TurnMachine

UNASKED = "it used a tool without a yes"
OPEN_MODE = "it does not ask in the mode that it is in"


class LaneHome(NamedTuple):
    """A lane's knowledge of its gateway."""

    gateway_id: str
    """The gateway's id as the runners of the lane's tenant know it."""
    keeps_objects: bool
    """Whether there is an object store for data outside the stream (E-5)."""
    spending: Spending
    """The durable usage that budgets count, shared by all lanes."""


class Limits(NamedTuple):
    """Clocks from the config, in milliseconds (C-1, C-7), and which losses are acceptable."""

    timeout_ms: int = TIMEOUT_DEFAULT_MS
    approval_ttl_ms: int = APPROVAL_TTL_MS
    queue_ttl_ms: int = QUEUE_TTL_MS
    detach_ttl_ms: int = DETACH_TTL_MS
    pause_ttl_ms: int = PAUSE_TTL_MS
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"
    """What a runner does if its buffer of a session is full (D-3)."""
    budgets: tuple[BudgetRule, ...] = ()
    """The budgets of the config, in its order (P-7)."""
    on_unasked: Literal["cancel", "tell"] = "cancel"
    """The effect on a turn in which a tool ran without a yes (H-12)."""
    webhooks: tuple[tuple[str, str], ...] = ()
    """(tenant, name) of the webhooks that notify approvers (P-8)."""
    push: bool = False
    """Whether approvers are also notified in their browsers (J-18)."""
    compaction: CompactionRules = CompactionRules()


class EndedTurn(msgspec.Struct, omit_defaults=True):
    """A turn that has ended and whose usage has not arrived yet."""

    stop_reason: StopReason
    exit_code: int | None = None
    unanswered: bool = False
    timed_out: bool = False
    """The runner's own timeout requested the cancel (C-1)."""
    reason: str = ""
    """Why the runner cancelled it by itself."""


class Incoming(msgspec.Struct, omit_defaults=True):
    """A file from the runner that is under way. `first` is its first chunk, without content."""

    first: FileTransfer
    seq: int = 0
    """The seq of its last frame, or of the frame before the first: frames lost above it may be part of the file."""
    chunks: int = 0
    size: int = 0
    objects: list[str] = []
    over: bool = False
    """It was refused or lost: its remaining chunks are skipped."""


class Orphan(msgspec.Struct):
    """A turn that runs at the runner and is not open here. `turn_id` is None if it is unknown."""

    turn_id: str | None
    cancel_id: str
    """message_id of the `control.turn.cancel` that requested its end."""
    deadline_ms: int


class LaneState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A lane's state that survives a restart; stored as `SessionRecord.machine`."""

    session_id: str
    tenant_id: str
    session_key: str
    agent_id: str
    runner_id: str
    workspace: str
    workspace_access: WorkspaceAccess = "rw"
    created_ms: int
    opening: Literal["closed", "opening", "open", "closing"] = "closed"
    open_message_id: str = ""
    permission: Literal["asks", "never"] = "never"
    holding: Holding | None = None
    """How its runner holds the agent, and the evidence for it (H-10)."""
    let_through: str = ""
    """The rule that admitted the last command of an agent that does not ask; "" if approvers were asked about it."""
    trusted_kinds: bool = False
    offered_box: Box | None = None
    """The box that the runner will start the agent in, as its hello states (H-18)."""
    box: Box | None = None
    """The box that the runner reported for the current opening; None without one (H-18)."""
    fell: bool = False
    """A tool ran without a yes in this session: its agent is no longer assumed to ask (H-12)."""
    unasked: tuple[str, str] | None = None
    """(code, sentence) of the tool that ran without a yes in the open turn."""
    unallowed: dict[str, str] = {}
    """Open question's interaction_id → its approval, "" if policy denied it: those to which no yes was sent (P-2)."""
    staged_n: int = 0
    """The number in the session's stream of its runner's last report of staged changes; 0 if none are staged (H-17)."""
    start_commit: str | None = None
    """The commit that was checked out in the workspace when the agent was first opened; "" without a commit, None if no
    runner reported it (J-4)."""
    plan_n: int = 0
    """The number in the session's stream of its agent's plan; 0 if it has none (J-14)."""
    settings_n: int = 0
    """The number of the last report of its agent's settings; 0 if there was none (J-14)."""
    features: dict[str, Any] = {}
    control_seq: int = 0
    control_acked: int = 0
    noop_seq: int | None = None
    """The control seq at which a no-op replaced a prompt (D-7)."""
    noop_chosen: bool = False
    """The runner did not have the prompt when the no-op replaced it: its acknowledgement means canceled."""
    last_seq: int = 0
    n: int = 0
    """Number of events in the session's stream: the lane is its only writer."""
    upload_seq: int = 0
    """control seq of the first file frame before the last prompt."""
    uploads: list[str] = []
    """The transfers that the last prompt names."""
    incoming: dict[str, Incoming] = {}
    """Files of the runner that are under way."""
    agent_session: str = ""
    """The agent's own id of its conversation, as the runner reported it: a later opening receives it."""
    compacting: str | None = None
    """message_id of the `control.session.compact` whose answer is pending: no prompt is sent meanwhile (T-1)."""
    prompt_message_id: str = ""
    """message_id of the prompt of the active command."""
    turn_start_n: int = 0
    turns: int = 0
    """The turn_index of the next turn, as far as the gateway has seen."""
    machine: TurnMachine = msgspec.field(default_factory=TurnMachine)
    active: str | None = None
    """The command that occupies the session."""
    ended: EndedTurn | None = None
    last_error: tuple[str, str] | None = None
    fatal: tuple[str, str] | None = None
    """The fatal `session.error` that ends the opening, until the session is closed (T-5)."""
    close_deadline_ms: int | None = None
    """Deadline for the runner to close the session after a fatal error."""
    lost_turn: str = ""
    """The turn that was open when its agent was declared lost (C-7)."""
    orphan: Orphan | None = None
    """A turn that must end before the next prompt is sent (T-1)."""
    cancels: dict[str, list[str]] = {}
    """command id → the cancel commands that wait for its end."""
    holds: dict[str, list[str]] = {}
    """command id → the pause and resume commands that wait for its agent's report."""
    pause_message_id: str = ""
    """message_id of the last `control.turn.pause`."""
    controller: str = ""
    """The gateway that controls the session if it is another one: then this one observes (D-5)."""
    attached: bool = False
    detached_since_ms: int | None = None
    reopen_deadline_ms: int | None = None
    """Deadline for a link that its runner reopens; after it the loss is reported (C-7)."""
    silent_heartbeats: int = 0
    """Consecutive heartbeats that did not vouch for the agent (C-7)."""
    stage: Literal["", "retrieval", "tool", "chat"] = ""
    stage_told: str = ""
    """The stage that its command's stream received last (S-5)."""
    percent: float | None = None
    """How much of the turn is done, as its agent reports; None if it does not."""
    percent_told_ms: int = 0
    """When its command's stream received its progress last."""
    input_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int | None = None
    context_estimated: bool = False
    """Whether `context_tokens` is an estimate of the gateway, and not reported by the agent."""
    cost_usd: float = 0.0
    """The session's cost so far, as its agent reports (session.usage)."""
    cost_told: float | None = None
    """The last running total that the runner reported: a runner that lost its outbox starts again. None: from before
    budgets."""
    turn_tokens: int = 0
    """The turn's tokens so far: a running total."""
    turn_raised: dict[str, int] = {}
    """Budget → the tokens that approvers allowed this turn beyond it (P-7)."""
    budget_pause: bool = False
    """The command is paused because of a budget, not because a person requested it."""
    held_answers: list[InteractionResponse] = []
    """Yes answers that were held while a budget was used up: sent to the agent when it may continue (P-7, C-6)."""
    lost_frames: int = 0
    lost_ahead: int = 0
    """Frames that were reported as lost and that no later frame has passed yet (D-4)."""
    lost_above: int = 0
    """The highest seq up to which frames may have been lost."""
    lost_synced: str = ""
    """Start of the last history that reported a loss: its last_message_id."""
    lost_count: int = 0
    """Number of frames that this history reported as lost."""
    lost_uncounted: bool = False
    """A loss of an unknown number was reported since then."""
    transcript_leaf: str | None = None
    """The last entry of the transcript, in the file or about to be written (X-3)."""
    model: str = ""  # As the agent's capabilities name it.
    updated_ms: int = 0
    entry: SessionFields = SessionFields()
    """The key's fields that each session of it inherits (I-4)."""
    first_line: str = ""
    """The first line of the session's first prompt: its title if it has no other (Y-8)."""
    leaves: str = ""
    """The session that this one replaced, while its work has not ended (I-1)."""
    leaves_asked: bool = False
    """A person requested the reset: that work ends at once."""
    wished: list[str] = []
    """The overrides that the last prompt carried."""
    context: ContextState = msgspec.field(default_factory=ContextState)
    """The conversation's size, and the compaction under way (section 5 of the sessions)."""

    # --- how its agent is held, and its commands' target ---
    @property
    def stated_box(self) -> Box | None:
        """Return the box that the runner reported for the current opening; None without such a report (H-18)."""
        return self.box if self.opening == "open" else None

    @property
    def expected_box(self) -> Box | None:
        """Return the reported box of an open agent, otherwise the one that its runner offers."""
        return self.box if self.opening == "open" else self.offered_box

    @property
    def holding_now(self) -> Holding:
        """Return what holds the session's tools: the runner's statement, unless the session has seen it violated
        (H-10)."""
        box = self.stated_box or self.offered_box
        if box is not None and box.walls != "none" and box.programs:
            return Holding(held="box", why=PROGRAMS_HELD)  # The kernel enforces the box, whatever the agent asks.
        if self.permission == "asks":
            return self.holding if self.holding is not None and self.holding.held != "command" else Holding(held="asks")
        if self.let_through and is_closed(box):
            return Holding(held="box", why=f"rule {self.let_through}")
        if self.let_through:
            return Holding(held="none", why=f"rule {self.let_through}")
        if self.fell:
            return Holding(held="command", why=UNASKED)
        if self.holding is None or self.holding.held == "command":
            return self.holding or Holding(held="command")
        return msgspec.structs.replace(self.holding, held="command", why=OPEN_MODE)

    @property
    def target(self) -> Target:
        """Return the target of this session's commands, as its resource shows it."""
        return Target(agent_id=self.agent_id, session_id=self.session_id, session_key=self.session_key,
                      runner_id=self.runner_id, workspace=self.workspace or None,
                      workspace_access=None if self.workspace_access == "rw" else self.workspace_access)

    def wanted_ms(self, due_ms: int | None) -> int | None:
        """Return the deadline by which a starting gateway must have read the session, including one that only waits for
        its runner. `due_ms` is the next instant at which time alone triggers a decision."""
        waits = (self.attached and self.active) or self.context.due or self.leaves
        return self.created_ms if due_ms is None and waits else due_ms

    # --- the opening of its agent ---
    def begin_opening(self) -> None:
        """Record that the runner was requested to open the agent."""
        self.opening = "opening"

    def mark_open(self) -> None:
        """Record that the agent is open."""
        self.opening = "open"

    def begin_closing(self) -> None:
        """Record that the runner was requested to close the agent, or that its end is pending."""
        self.opening = "closing"

    def mark_closed(self) -> None:
        """Record that the agent is closed, or lost."""
        self.opening = "closed"

    def name_conversation(self, name: str) -> None:
        """Record the agent's own id of its conversation."""
        self.agent_session = name

    def must_close_by(self, deadline_ms: int) -> None:
        """Set the deadline for the runner to close the agent."""
        self.close_deadline_ms = deadline_ms

    def end_closing(self) -> None:
        """Clear the reason and the deadline of closing the agent."""
        self.fatal, self.close_deadline_ms = None, None

    def note_fatal(self, error: tuple[str, str]) -> None:
        """Record the error that ends the opening."""
        self.fatal = error

    # --- the command that occupies the session ---
    def occupy(self, command_id: str) -> None:
        """Assign the session to a command, and clear what is known of the previous one."""
        self.active, self.last_error, self.ended, self.silent_heartbeats = command_id, None, None, 0

    def release(self) -> None:
        """Free the session of its command."""
        self.active = None

    def note_let_through(self, rule: str) -> None:
        """Record the rule that lets its agent run without asking; "" if approvers are asked."""
        self.let_through = rule

    def note_error(self, error: tuple[str, str]) -> None:
        """Record the last error that the agent or its runner reported."""
        self.last_error = error

    def note_end(self, ended: EndedTurn) -> None:
        """Record how the turn ended, until its usage arrives."""
        self.ended = ended

    def take_end(self) -> EndedTurn | None:
        """Return how the turn ended, once."""
        ended, self.ended = self.ended, None
        return ended

    # --- pauses, and answers that wait for a budget ---
    def note_pause(self, message_id: str, *, for_budget: bool = False) -> None:
        """Record the `control.turn.pause` that was sent."""
        self.pause_message_id = message_id
        self.budget_pause = self.budget_pause or for_budget

    def forget_pause(self) -> None:
        """Record that the runner refused to pause."""
        self.pause_message_id, self.budget_pause = "", False

    def hold_answer(self, answer: InteractionResponse) -> None:
        """Store an answer until the budget is decided on."""
        self.held_answers.append(answer)

    def drop_held_answer(self, interaction_id: str) -> None:
        """Drop the stored answer to a question that is void."""
        self.held_answers = [one for one in self.held_answers if one.interaction_id != interaction_id]

    def note_unallowed(self, interaction_id: str, approval_id: str) -> None:
        """Record that no yes was sent to this question yet; `approval_id` is "" if policy denied it."""
        self.unallowed[interaction_id] = approval_id

    def take_unallowed(self, interaction_id: str) -> str | None:
        """Return the approval of a question to which no yes was sent, once; None for any other question."""
        return self.unallowed.pop(interaction_id, None)

    def doubt_answers(self) -> None:
        """Record that a yes to any open question may have been sent, since the ledger lost commits."""
        self.unallowed = {}

    def end_budget_pause(self) -> list[InteractionResponse]:
        """End the wait for a budget; returns the stored answers."""
        answers, self.held_answers, self.budget_pause = self.held_answers, [], False
        return answers

    def begin_turn(self) -> None:
        """Clear what belongs to the previous turn."""
        self.ended, self.held_answers, self.unallowed = None, [], {}

    def reset_turn_budget(self) -> None:
        """Reset the turn's token count, and the previous turn's grants."""
        self.turn_tokens, self.turn_raised = 0, {}

    def count_tokens(self, total: int) -> None:
        """Store the turn's tokens so far."""
        self.turn_tokens = total

    def forget_grants(self) -> None:
        """Clear people's grants and what a later opening resumes: the stored state was changed by hand (H-5)."""
        self.turn_raised, self.held_answers, self.agent_session = {}, [], ""

    # --- the link ---
    def note_link(self, *, attached: bool) -> bool:
        """Record whether the runner is attached; returns the previous value."""
        before, self.attached = self.attached, attached
        return before

    def place_noop(self, seq: int) -> None:
        """Record that a no-op replaced the prompt with this number (D-7)."""
        self.noop_seq, self.noop_chosen = seq, False

    def choose_noop(self) -> None:
        """Record that the runner gets the no-op instead of the prompt."""
        self.noop_chosen = True

    def forget_noop(self) -> None:
        """Record that no no-op is pending any more."""
        self.noop_seq = None

    def number_controls_after(self, seq: int) -> None:
        """Continue the numbers of control frames from the larger of the two, since the runner has seen those up to
        `seq`."""
        self.control_seq = max(self.control_seq, seq)

    def skip_to(self, seq: int) -> None:
        """Stop expecting frames up to `seq`."""
        self.last_seq = max(self.last_seq, seq)

    def lose_up_to(self, seq: int) -> None:
        """Record that frames up to `seq` may have been lost."""
        self.lost_above = seq

    def note_lost_ahead(self, count: int) -> None:
        """Record how many frames after the last one that arrived were reported as lost."""
        self.lost_ahead = count

    def reach(self, seq: int) -> None:
        """Record the last frame that arrived: those between it and the previous one were lost (D-4)."""
        if self.lost_ahead and seq > self.last_seq + 1:
            self.lost_ahead = max(self.lost_ahead - (seq - self.last_seq - 1), 0)
        self.last_seq = seq

    def count_heartbeat(self, *, silent: bool) -> int:
        """Count a heartbeat that does not vouch for the agent, or reset the count; returns the number of consecutive
        ones."""
        self.silent_heartbeats = self.silent_heartbeats + 1 if silent else 0
        return self.silent_heartbeats

    def note_message(self, wall_ms: int, *, person: bool) -> None:
        """Update the session's two clocks for a message: the first one starts it, only a person's keeps it from being
        idle; system traffic (cron, hooks, heartbeats, flushes) changes neither (I-2).

        An instant after `wall_ms` was stored while the host's clock was ahead, and is set to `wall_ms`: otherwise no
        reset would be due until then."""
        entry = self.entry
        started_ms = entry.session_started_at or (self.created_ms if self.control_seq else wall_ms)
        interacted_ms = wall_ms if person else entry.last_interaction_at or started_ms
        self.patch_entry(session_started_at=min(started_ms, wall_ms), last_interaction_at=min(interacted_ms, wall_ms))

    def change_entry(self, entry: SessionFields) -> None:
        """Replace the fields that the key's next session inherits."""
        self.entry = entry

    def patch_entry(self, **changes: Any) -> None:
        """Change some of the fields that the key's next session inherits."""
        self.entry = msgspec.structs.replace(self.entry, **changes)
