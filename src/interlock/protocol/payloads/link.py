"""`x-interlock.`: frames of Interlock's own profile (E-2)."""

from __future__ import annotations

from typing import Literal

from interlock.protocol.box import Box
from interlock.protocol.hold import Holding
from interlock.protocol.payloads.base import AgentState, CommitId, Count, FrameId, Outcome, Payload

WORKSPACE_CHANGES = "workspace_changes"
"""The feature's name in hello: the runner answers `x-interlock.workspace.look` (J-4)."""


class AgentOffer(Payload, frozen=True, kw_only=True):
    """One agent in hello (L-4)."""

    agent_id: str
    adapter: str
    adapter_type: Literal["process", "sdk"]
    permission: Literal["asks", "never"]
    context_owner: Literal["agent", "gateway"]
    version: str | None = None
    trusted_kinds: bool = False
    roots: list[str] = []
    """Its workspace roots, if they differ from the runner's own (A-1)."""
    unavailable: str | None = None
    """Why it cannot be started, as far as the runner can determine without starting it: one sentence."""
    holding: Holding | None = None
    """How it is held, and the evidence (H-10)."""
    box: Box | None = None
    """The box that it starts in with full workspace access (H-18); None from a runner that reports none."""
    unwalled: str | None = None
    """Why it has no walls, in one clause."""


class RefusedControl(Payload, frozen=True, kw_only=True):
    """A control frame that the runner stored and refused (D-7); `controller` is the gateway that it obeys."""

    message_id: str
    error_code: str
    message: str
    controller: str = ""


class HelloSession(Payload, frozen=True, kw_only=True):
    """One session in hello (L-4). `controller` is the gateway that controls it; `agent_id` and `workspace` describe it
    to an observing gateway (D-5). `acked_seq` is the last frame that this gateway has acknowledged: a gateway that does
    not have it has lost commits."""

    session_id: FrameId
    last_seq_sent: int
    control_seq: int
    acked_seq: int = 0
    state: AgentState
    refused: list[RefusedControl] = []
    turn_id: FrameId | None = None
    prompt_id: FrameId | None = None
    controller: str = ""
    agent_id: str = ""
    workspace: str = ""


class ForgottenSession(Payload, frozen=True, kw_only=True):
    """A session that was closed and completely acknowledged, so that the runner holds no frames of it any more (L-4).
    `acked_seq` and `control_seq` are as in a session of hello: a gateway that has less has lost commits (D-5)."""

    session_id: FrameId
    acked_seq: int
    control_seq: int


class Hello(Payload, frozen=True, kw_only=True):
    """`x-interlock.hello` (L-4)."""

    versions: list[str]
    runner_id: str
    boot_id: str
    agents: list[AgentOffer]
    sessions: list[HelloSession]
    features: list[str] = []
    device_name: str = ""
    roots: list[str] = []
    link_number: int = 0
    """[P] Larger in each later hello of a runner, also across restarts, so that one that arrives late is recognised. 0
    if the runner does not number its links."""
    forgotten: list[ForgottenSession] = []
    """[P] The newest sessions that the runner has forgotten, as far as it still has their numbers."""
    software: str = ""
    """[P] The runner's software and version: "interlock 0.1.0" (J-14)."""
    system: str = ""
    """[P] Operating system, its release and the machine: "Linux 6.8.0 x86_64"."""


class WelcomeSession(Payload, frozen=True, kw_only=True):
    """The gateway's position in one session (L-4): everything up to `last_durable_seq` is durable."""

    session_id: FrameId
    last_durable_seq: int


class Welcome(Payload, frozen=True, kw_only=True):
    """`x-interlock.welcome` (L-4)."""

    version: str
    link_id: str
    gateway_id: str
    limits: dict[str, int]
    sessions: list[WelcomeSession]
    features: list[str] = []


class Ack(Payload, frozen=True, kw_only=True):
    """`x-interlock.ack`, both directions: everything up to `seq` is durable at the sender (D-1, D-7). With `refused` a
    gateway confirms refusals of its control frames by their message_id."""

    session_id: FrameId
    seq: int
    refused: list[str] = []


class LiveAgent(Payload, frozen=True, kw_only=True):
    """One agent that the runner vouches for (L-5)."""

    session_id: FrameId
    agent_id: str
    state: AgentState
    turn_id: FrameId | None = None


class RunnerHeartbeat(Payload, frozen=True, kw_only=True):
    """`x-interlock.heartbeat` (L-5): the runner vouches for what is listed."""

    agents: list[LiveAgent]
    outbox_bytes: Count | None = None
    """For all sessions: the unacknowledged bytes in the outbox (J-14)."""


class InteractionHeld(Payload, frozen=True, kw_only=True):
    """`x-interlock.interaction.held`: the gateway has stored the question (A-5)."""

    interaction_id: FrameId
    approval_id: str
    expires_in_ms: Count


class InteractionResolved(Payload, frozen=True, kw_only=True):
    """`x-interlock.interaction.resolved`: what the runner actually sent to the agent (P-2)."""

    interaction_id: FrameId
    outcome: Outcome
    decided_at: str
    by: str | None = None


class ControlChanged(Payload, frozen=True, kw_only=True):
    """`x-interlock.control.changed`: the gateway that controls the session from now on (D-5). `agent_id` and
    `workspace` describe the session to a gateway that did not know it."""

    gateway_id: str
    agent_id: str = ""
    workspace: str = ""


class WorkspaceLook(Payload, frozen=True, kw_only=True):
    """`x-interlock.workspace.look` (J-4): a request for git's view of the changes in a session's workspace; only to a
    runner whose hello offers `workspace_changes`. The other members are the gateway's record: a runner uses its own
    state of the session, and the record if the session is over and the runner has forgotten it."""

    request_id: FrameId
    session_id: FrameId
    agent_id: str = ""
    workspace: str = ""
    workspace_access: Literal["rw", "ro", "none"] = "rw"
    start_commit: CommitId | None = None
    """`workspace_commit` of the session's first opening: the commit to compare with."""


class ChangedCommit(Payload, frozen=True, kw_only=True):
    """A commit that was made since the session began, from its repository: `author` and `subject` are cut if they are
    long, and `at` is absent for an impossible time."""

    commit: str
    at: str | None = None
    author: str = ""
    subject: str = ""


class ChangedFile(Payload, frozen=True, kw_only=True):
    """One path of the workspace that differs from `commit` of the report. A renamed one was `old_path`. `added` and
    `removed` count lines; absent if git compares no lines, as for a binary file. `diff` is unified, and cut at a line
    end if `cut`."""

    path: str
    change: Literal["added", "modified", "deleted", "renamed", "retyped", "unmerged"]
    old_path: str | None = None
    untracked: bool = False
    added: Count | None = None
    removed: Count | None = None
    diff: str = ""
    cut: bool = False


class WorkspaceChanges(Payload, frozen=True, kw_only=True):
    """`x-interlock.workspace.changes` (J-4): the answer. `why_not` is one sentence if nothing could be read; `partly`
    is one if not all was. `count` counts every path that was found, of which `files` lists the first; `commit` is the
    commit that is compared with, absent if there is none; `head` is the commit that is checked out, absent before the
    first one; `commits` are those between the two, newest first."""

    request_id: FrameId
    session_id: FrameId
    why_not: str = ""
    partly: str = ""
    branch: str | None = None
    commit: str | None = None
    head: str | None = None
    commits: list[ChangedCommit] = []
    count: Count = 0
    files: list[ChangedFile] = []
